/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* When nobody knows what processes ran on their GPUs: what one that was killed, or is gone without
 * a word, launched since it last told something. What was sampled then others must not be given. */

#include <gpuctr/gpuctr.h>

#include "client/store/store.h"
#include "proto/base/map.h"

/* Zero-initialised by the caller, with the members up to user set. */
struct unseen {
	void (*on_unknown)(void *user, const struct store_unknown *unknown);
	int64_t (*last_sample)(void *user,
			       const char *gpu); /* 0: none has come, or it is not sampled */
	void *user;
	struct unseen_device **devices; /* as they came */
	size_t n, max;
	struct map map;
	uint64_t undelivered; /* launches of all processes, at least */
};

void unseen_process(struct unseen *u, const struct gpuctr_process *process);
/* A kernel or a copy has ended then. */
void unseen_ran(struct unseen *u, unsigned process, unsigned device, int64_t end_ns);
void unseen_progress(struct unseen *u, const struct gpuctr_totals *totals);
/* now_ns: since 1970. */
void unseen_process_end(struct unseen *u, const struct gpuctr_process_end *end, int64_t now_ns);
/* No more comes: for processes whose end was not told. */
void unseen_finish(struct unseen *u);
void unseen_deinit(struct unseen *u);
