/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the gpu process has told of the machine. The bits of a mask of GPUs are indices in it, which
 * mean other GPUs once another machine was told; so who keeps a mask keeps its machine. */

#include "proto/base/arena.h"
#include "proto/wire/wire.h"

struct machine {
	unsigned refs;
	struct arena arena;
	struct wire_status_reply told;
};

/* With a copy of the status in m and one reference; NULL: out of memory. */
struct machine *machine_new(const struct wire_message *m);
/* Both take NULL. machine_unref() returns NULL. */
struct machine *machine_ref(struct machine *m);
struct machine *machine_unref(struct machine *m);

/* UUIDs of the GPUs in the mask, borrowed; v has room for LIMIT_GPUS. m may be NULL: none. */
size_t machine_uuids(const struct machine *m, uint64_t gpus, const char **v);
