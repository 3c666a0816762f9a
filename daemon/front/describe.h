/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_DESCRIBE_H
#define GPUCTR_FRONT_DESCRIBE_H

/* The front's state in messages' terms. Results live in the arena given; NULL or empty when it is
 * full. */

#include "daemon/front/front.h"
#include "proto/wire/status.h"

/* Why no GPU of this machine can be measured, whoever asks: a code with r filled, or 0 with its
 * texts empty. describe_trouble() also knows what is expected to pass. */
int describe_machine_trouble(const struct front *f, struct refusal *r);
int describe_trouble(const struct front *f, struct refusal *r);

/* All GPUs of the machine with holder and queue; as many as f->machine.gpus.n. */
const struct wire_gpu *describe_gpus(struct front *f, struct arena *a);

/* Those in the mask. */
struct wire_gpus describe_gpu_mask(struct front *f, struct arena *a, uint64_t mask);

/* UUIDs of those in the mask, borrowed; v has room for LIMIT_GPUS. */
size_t describe_uuids(const struct front *f, uint64_t gpus, const char **v);

/* All of them; in full those of the viewer, and every one for root of the machine. */
struct wire_capture_infos describe_captures(struct front *f, struct arena *a,
					    const struct credentials *viewer);

/* Why nothing can be measured on gpus, on all or some of which the driver hangs. */
const char *describe_hang(const struct front *f, struct arena *a, uint64_t gpus);

/* "alice (python3, pid 4711)" */
const char *describe_holder(struct arena *a, const struct capture *c);

#endif
