/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is done around a launch to learn something of it. */

#include <stdbool.h>

struct capture;
struct ranges;
struct launch;
struct section;

/* All are called, from open to close, with the context's lock held and the context current, so that
 * a launch is kept apart from other work. */
struct method {
	/* True: the launch is followed, and *ret is to be filled; then close() must follow. False:
	 * the launch is not measured and has been counted. */
	bool (*open)(struct capture *c, struct ranges *r, struct section *v, struct launch **ret);
	void (*close)(struct capture *c, struct ranges *r, struct section *v, bool launched);
	/* Ends the batch and queues it; the next launch starts a new one. False: not possible now,
	 * because running kernels may wait for something. */
	bool (*flush)(struct capture *c, struct ranges *r);
	/* The same, and releases the counters. The context must still exist. */
	bool (*disable)(struct capture *c, struct ranges *r);
	/* A launch runs beside others, and open and close are called without a lock. */
	bool beside;
};

/* Each in the file of its name, so that another way of measuring is another file. */
extern const struct method method_ranges; /* CUPTI's ranges */
extern const struct method method_trace;  /* notes when kernels ran, and reads no counter */
