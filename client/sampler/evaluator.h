/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A thread that evaluates the samples of one image while CUPTI decodes others into another. To
 * decode a sample takes 3.8 to 5.5 us and to evaluate it 1.9 to 2.9 (H200, by host): in one thread
 * that is up to 0.95 of a core at 10 us, with none left for a moment in which the host is slow, and
 * 5 % of the samples of five minutes were lost that way. */

#include <pthread.h>

#include "client/sampler/image.h"
#include "client/sampler/metrics.h"

struct evaluator {
	const struct host
		*host; /* borrowed; nobody else evaluates with it while an image is given */
	pthread_t thread;
	bool has_thread; /* else nothing may be given */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct image *image; /* that is evaluated; NULL: none */
	const struct metrics_set *metrics;
	CUptiResult result;
	bool ends;
};

/* Zero-initialised by the caller. */
void evaluator_start(struct evaluator *e, const struct host *host);
void evaluator_end(struct evaluator *e);
/* The image and the metrics are the evaluator's until evaluator_wait(). One at a time. The image is
 * empty then, if it could be emptied. */
void evaluator_give(struct evaluator *e, struct image *image, const struct metrics_set *metrics);
/* CUPTI's result. Samples before image->evaluated have values. */
CUptiResult evaluator_wait(struct evaluator *e);

/* The same at once: samples that have times are given values. */
CUptiResult evaluate_image(const struct host *host, struct image *m,
			   const struct metrics_set *metrics);
