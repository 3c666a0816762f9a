/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the gpu process has reported of the machine. Masks of GPUs are of indices in it: a front for
 * which they would come to mean other GPUs ends (scheduler.h). */

#include "proto/base/arena.h"
#include "proto/wire/wire.h"

struct machine {
	struct arena arena;
	struct wire_status_reply status;
};

/* With a copy of the status in m; NULL: out of memory. */
struct machine *machine_new(const struct wire_message *m);
/* Takes NULL, and returns it. */
struct machine *machine_free(struct machine *m);

/* UUIDs of the GPUs in the mask, borrowed; v has room for LIMIT_GPUS. m may be NULL: none. */
size_t machine_uuids(const struct machine *m, uint64_t gpus, const char **v);
