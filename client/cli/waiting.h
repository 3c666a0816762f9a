/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Kernels and samples of one GPU, until they are old enough to be given to the attribution in the
 * order of time. Functions return 0, or -ENOMEM. */

#include <stdbool.h>

#include "client/attribution/attribution.h"

struct waiting_span {
	int64_t start_ns, end_ns;
};

/* user: of the options of the attribution. */
struct waiting_handler {
	/* The samples of a kernel were attributed before it came. */
	void (*on_late)(void *user, uint64_t kernel);
	/* One that was given, and will not be discarded. */
	void (*on_sample)(void *user, int64_t start_ns, int64_t end_ns, const double *values);
};

struct waiting {
	struct attribution *attribution;
	size_t n_metrics;
	const struct waiting_handler *handler; /* borrowed */
	void *user;
	size_t scale; /* the bounds are this many times as large; 0 stands for 1 */
	struct attribution_kernel *kernels;
	size_t n_kernels, max_kernels;
	struct waiting_span *samples;
	double *values; /* of these */
	size_t n_samples, max_samples;
	int64_t last_ns;	   /* the end of the last kernel that came */
	int64_t until_ns;	   /* samples that end later are discarded; 0: none are */
	struct waiting_span *late; /* kernels that came too late */
	size_t n_late, max_late;
};

/* Later than this no kernel comes: a batch waits for half a second, and then two for CUPTI. One of
 * a program that was stopped comes later all the same. */
#define WAITING_NS INT64_C(5000000000)

int waiting_init(struct waiting *w, const struct attribution_options *options,
		 const struct waiting_handler *handler);
void waiting_deinit(struct waiting *w);

int waiting_kernel(struct waiting *w, const struct attribution_kernel *kernel);
int waiting_sample(struct waiting *w, int64_t start_ns, int64_t end_ns, const double *values);
/* Nobody knows which kernels ran in this time. */
int waiting_lost(struct waiting *w, int64_t start_ns, int64_t end_ns);

/* Samples were of something else in this time. */
int waiting_away(struct waiting *w, int64_t start_ns, int64_t end_ns);

/* Samples that have come since, and those that still come: they may hold what strangers did. Of
 * several calls the earliest time counts. */
void waiting_discard(struct waiting *w, int64_t since_ns);

/* Gives what ends by this time, WAITING_NS before the last sample. held_up: launches are on their
 * way. */
int waiting_advance(struct waiting *w, int64_t until_ns, bool held_up);
/* Gives all. */
int waiting_finish(struct waiting *w);

/* The start of the first sample and the end of the last; 0: none waits. */
int64_t waiting_first_sample(const struct waiting *w);
int64_t waiting_last_sample(const struct waiting *w);
/* The next sample will have half of those that wait given. */
bool waiting_is_full(const struct waiting *w);
/* The end of the last one of these. */
int64_t waiting_middle_sample(const struct waiting *w);
/* Was a part of what ran in this time divided without a kernel that came too late? */
bool waiting_is_beside_late(const struct waiting *w, int64_t start_ns, int64_t end_ns);
