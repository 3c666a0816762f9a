/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is done around a launch to learn something of it. */

#include <stdbool.h>

struct capture;
struct ranges;
struct launch;
struct section;

/* All are called, from open to close, with the context's lock held and the context current, so that
 * a launch is kept apart from other work. ranges.h says what each has to do. */
struct method {
	bool (*open)(struct capture *c, struct ranges *r, struct section *v, struct launch **ret);
	void (*close)(struct capture *c, struct ranges *r, struct section *v, bool launched);
	bool (*flush)(struct capture *c, struct ranges *r);
	bool (*disable)(struct capture *c, struct ranges *r);
	/* A launch runs beside others, and open and close are called without a lock. */
	bool beside;
};

/* Does nothing: for launches that are not measured, and before a capture has started. */
extern const struct method method_none;

/* CUPTI's ranges. */
extern const struct method method_ranges;

/* For traces: notes when kernels ran, and reads no counter. */
extern const struct method method_trace;
