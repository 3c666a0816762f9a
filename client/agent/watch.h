/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports what hangs in a capture: calls into CUPTI and the driver on any thread, kernels, and
 * streams. */

#include <stdint.h>

struct capture;

struct watch {
	uint64_t looked_ns, resumed_ns; /* times of the last look, and of the last continuation of a
					   stopped process */
};

/* For the control thread: has a call of CUPTI or the driver been under way for too long? */
void watch_calls(struct capture *c);

/* For the delivering thread: does a kernel or a stream hang? */
void watch_look(struct capture *c);
