/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Evaluates counter data of unknown origin, in a process of its own that can do nothing else. For
 * one thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/agent/deliver.h"

struct evaluator {
	const struct host *host;      /* used by the children alone */
	const struct wire_plan *plan; /* set before the first use */
	pid_t child;		      /* 0: there is none */
	int fd;			      /* the link to the child */
	uint8_t *shared;	      /* the image, then the values, then what was measured */
	size_t shared_size;
	unsigned deaths;
	bool given_up; /* nothing is evaluated any more */
	char why[96];  /* how the last child died */
};

void evaluator_init(struct evaluator *e, const struct host *host, const struct wire_plan *plan);
void evaluator_deinit(struct evaluator *e);

/* As evaluate_batch(), but also checks how many ranges the image holds. -EIO: the child died of it,
 * or images are not evaluated any more. */
int evaluator_batch(struct evaluator *e, const struct batch *b, double *values, bool *measured,
		    size_t *ret_ranges);
