/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the times at which a process may have run unknown kernels on its GPUs: after the last
 * report of a process that was killed, or that ended without its last records. Samples of these
 * times must not be attributed to kernels of other processes. */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"
#include "proto/base/map.h"

/* The caller zeroes the struct, and sets the members up to user. */
struct unseen {
	void (*on_unknown)(void *user, const struct store_unknown *unknown);
	int64_t (*last_sample)(void *user, const char *gpu); /* 0: no sample of the GPU has come */
	void *user;
	struct unseen_device **devices; /* in the order in which they were added */
	size_t n, max;
	struct map map;
	uint64_t undelivered; /* minimum number of launches of all processes without a record */
};

void unseen_process(struct unseen *u, const struct gpuctr_process *process);
/* A kernel or a copy of the process has ended on the device at end_ns. */
void unseen_ran(struct unseen *u, unsigned process, unsigned device, int64_t end_ns);
void unseen_progress(struct unseen *u, const struct gpuctr_totals *totals);
/* now_ns: ns since the epoch. */
void unseen_process_end(struct unseen *u, const struct gpuctr_process_end *end, int64_t now_ns);
/* Called when no more records come: for processes whose end the daemon has not reported. */
void unseen_finish(struct unseen *u);
void unseen_deinit(struct unseen *u);
