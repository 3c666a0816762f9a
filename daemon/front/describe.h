/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The front's state in the form of messages. Results live in the given arena; they are NULL or
 * empty if it is full. */

#include "daemon/front/front.h"
#include "proto/wire/status.h"

/* Fills the reason why nobody can measure a GPU of this machine: a code with r filled, or 0 with
 * empty texts. describe_trouble() also reports temporary troubles. */
int describe_machine_trouble(const struct front *f, struct refusal *r);
int describe_trouble(const struct front *f, struct refusal *r);

/* UUIDs of the GPUs in the mask, borrowed; v has room for LIMIT_GPUS. */
size_t describe_uuids(const struct front *f, uint64_t gpus, const char **v);

/* The GPUs in the mask with holder and queue. */
struct wire_gpus describe_gpus(struct front *f, struct arena *a, uint64_t mask);

/* Describes all captures: the viewer's own, and for root of the machine every one, in full. */
struct wire_capture_infos describe_captures(struct front *f, struct arena *a,
					    const struct credentials *viewer);

/* The counts for operators. NULL for everybody else, because the counts show when and how much
 * other users measure. */
const struct gpuctr_counts *describe_counts(struct front *f, struct arena *a,
					    const struct credentials *viewer);

/* Rest of c's lease, for users who wait for its GPUs; 0: nobody waits. */
uint64_t describe_lease_left_ns(const struct front *f, const struct capture *c);

/* Says why nothing can be measured on gpus: the driver hangs on all or some of them. */
const char *describe_hang(const struct front *f, struct arena *a, uint64_t gpus);
