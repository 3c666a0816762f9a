/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What runs beside the launches of a recording that is sampled, and takes its part of the samples:
 * copies and fills of memory, and the launches that the capture's filter leaves out. */

#include "client/agent/pack.h"
#include "client/store/reader.h"
#include "proto/wire/status.h"

/* Zero-initialised by the caller. */
struct copies {
	struct pack_copy *v;
	size_t n, max;
};

/* Adds those of a process. 0, or a positive code with r filled. */
int copies_load(struct copies *c, struct store_reader *reader, unsigned process, struct refusal *r);
/* Adds a launch, of the kernel with this name. False: out of memory, or there are too many. */
bool copies_add_launch(struct copies *c, const struct launch *l, const char *name);
void copies_deinit(struct copies *c);
