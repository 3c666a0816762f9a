/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A thread that evaluates the samples of one image while CUPTI decodes samples into another image.
 * CUPTI takes 3.8 to 5.5 us to decode a sample and 1.9 to 2.9 us to evaluate it (H200, depending on
 * the host). One thread for both uses up to 0.95 of a core at 10 us, with no reserve for moments in
 * which the host is slow: it lost 5 % of the samples of five minutes. */

#include <pthread.h>

#include "client/sampler/image.h"
#include "client/sampler/metrics.h"

struct evaluator {
	const struct host
		*host; /* borrowed; while an image is given, only the thread evaluates with it */
	pthread_t thread;
	bool has_thread; /* false: evaluator_give() may not be called */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* protected by lock: */
	struct image *image; /* being evaluated; NULL: none */
	const struct metrics_set *metrics;
	CUptiResult result;
	bool ends;
};

/* Zero-initialised by the caller. */
void evaluator_start(struct evaluator *e, const struct host *host);
void evaluator_end(struct evaluator *e);
/* Hands an image and its metrics to the thread, which alone uses them until evaluator_wait(). One
 * image at a time. The thread also empties the image, if image_empty() can. */
void evaluator_give(struct evaluator *e, struct image *image, const struct metrics_set *metrics);
/* Waits for the image. Returns CUPTI's result; samples before image->evaluated have values. */
CUptiResult evaluator_wait(struct evaluator *e);

/* Evaluates in the calling thread: gives values to the samples that have times. */
CUptiResult evaluate_image(const struct host *host, struct image *m,
			   const struct metrics_set *metrics);
