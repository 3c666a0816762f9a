/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Evaluates counter data of unknown origin, in a process of its own that can do nothing else. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/agent/deliver.h"

struct evaluator {
	const struct host *host;      /* used by the children alone */
	const struct wire_plan *plan; /* set before the first use */
	pthread_mutex_t lock;	      /* two threads ask */
	pid_t child;		      /* 0: there is none */
	int fd;			      /* the link to the child */
	uint8_t *shared;	      /* the image, then the values, then what was measured */
	size_t shared_size;
	unsigned deaths;
	bool given_up; /* nothing is evaluated any more */
	char why[96];  /* how the last child died */
};

/* Why an image was not evaluated. */
struct evaluator_death {
	char why[96];
	bool is_last; /* nothing is evaluated any more */
};

void evaluator_init(struct evaluator *e, const struct host *host, const struct wire_plan *plan);
void evaluator_deinit(struct evaluator *e);

/* Evaluates the plan's metrics in the image's first range. 0 or CUPTI's result; -EIO: the child
 * died of it, or images are not evaluated any more. */
int evaluator_first(struct evaluator *e, const uint8_t *image, size_t size, double *metrics);

/* As evaluate_batch(), but also checks how many ranges the image holds; or -EIO as above, with
 * *ret_death. */
int evaluator_batch(struct evaluator *e, const struct batch *b, double *values, bool *measured,
		    size_t *ret_ranges, struct evaluator_death *ret_death);
