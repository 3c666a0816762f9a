/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Evaluates counter data of unknown origin, in a child process that can do nothing else. Not
 * thread-safe. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/agent/deliver.h"

struct evaluator {
	const struct host *host;      /* borrowed; only children use it */
	const struct wire_plan *plan; /* set before the first use */
	pid_t child;		      /* 0: there is none */
	int fd;			      /* the link to the child */
	uint8_t *shared;	      /* image, values and measured flags, in this order */
	size_t shared_size;
	unsigned deaths;
	bool given_up; /* nothing is evaluated any more */
	char why[96];  /* how the last child died */
};

void evaluator_init(struct evaluator *e, const struct host *host, const struct wire_plan *plan);
void evaluator_deinit(struct evaluator *e);

/* As evaluate_batch(), and returns how many ranges the image holds. -EIO: the child died on this
 * image, or no images are evaluated any more. */
int evaluator_batch(struct evaluator *e, const struct batch *b, double *values, bool *measured,
		    size_t *ret_ranges);
