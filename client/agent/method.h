/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How launches are measured: the functions called around each launch. */

#include <stdbool.h>

struct capture;
struct ranges;
struct launch;
struct section;

/* The context's lock is held and the context is current from open to close and in all functions, so
 * that a launch is kept apart from other work. */
struct method {
	/* True: the caller fills *ret, and calls close() after the launch. False: the launch is not
	 * measured, and has been counted. */
	bool (*open)(struct capture *c, struct ranges *r, struct section *v, struct launch **ret);
	void (*close)(struct capture *c, struct ranges *r, struct section *v, bool launched);
	/* Ends the batch and queues it; the next launch starts a new one. False: not possible now,
	 * because kernels are running. */
	bool (*flush)(struct capture *c, struct ranges *r);
	/* As flush, and releases the counters. The context must still exist. */
	bool (*disable)(struct capture *c, struct ranges *r);
	/* Launches run beside each other, and open and close are called without a lock. */
	bool beside;
};

/* One file for each way of measuring. */
extern const struct method method_ranges; /* CUPTI's ranges */
extern const struct method method_trace;  /* notes when kernels ran, and reads no counter */
