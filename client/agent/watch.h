/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports what makes no progress in a capture: calls into CUPTI and the driver that do not return,
 * on any thread, kernels and streams. */

#include <stdint.h>

struct capture;

struct watch {
	uint64_t looked_ns, resumed_ns; /* the last look; when the process went on after a stop */
};

/* For the control thread: has a call of CUPTI or the driver been under way for too long? */
void watch_calls(struct capture *c);

/* From the delivering thread, now and then: does a kernel, or a stream, stand still? */
void watch_look(struct capture *c);
