/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_DESCRIBE_H
#define GPUCTR_FRONT_DESCRIBE_H

/* The front's state in messages' terms. Results live in the arena given; NULL or empty when it is
 * full. */

#include "daemon/front/front.h"

/* All GPUs of the machine with holder and queue; as many as f->machine.gpus.n. */
const struct wire_gpu *describe_gpus(struct front *f, struct arena *a);

/* Those in the mask. */
struct wire_gpus describe_gpu_mask(struct front *f, struct arena *a, uint64_t mask);

/* UUIDs of those in the mask, borrowed; v has room for LIMIT_GPUS. */
size_t describe_uuids(const struct front *f, uint64_t gpus, const char **v);

/* Metrics are told only of captures of uid. */
struct wire_capture_infos describe_captures(struct front *f, struct arena *a, uid_t uid);

/* Why nothing can be measured on gpus, on all or some of which the driver hangs. */
const char *describe_hang(const struct front *f, struct arena *a, uint64_t gpus);

/* "alice (python3, pid 4711)" */
const char *describe_holder(struct arena *a, const struct capture *c);

#endif
