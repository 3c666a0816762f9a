/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The memory that CUPTI decodes samples into, and what is known of those in it. CUPTI's own
 * initialisation of a counter data image writes all of it (3 KB a sample of dram__bytes_*, 0.2 us
 * each). So what it has written is kept, and copied over what samples have changed. That is the
 * head and one sample, because those of an empty image are alike (CUPTI 2025.3); an image where
 * they are not is left to CUPTI. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_layout {
	size_t head, sample; /* bytes, one behind the other */
	uint32_t room;	     /* samples */
};

struct image {
	uint8_t *data; /* NULL: there is none */
	size_t bytes;
	struct image_layout layout;
	uint8_t *kept;	    /* NULL: nothing is */
	bool is_empty;	    /* as after initialisation */
	unsigned n_emptied; /* times */
	bool is_spread;	    /* samples change what lies behind them, too */

	size_t n, all;			/* samples that are complete, and those that have begun */
	size_t timed, evaluated, taken; /* of these so many have times, have values, were told */
	int64_t (*times)[2];		/* of each, begin and end in ns */
	double *values;			/* of each, one for each metric */
	size_t n_metrics;
};

/* Zeros. False: out of memory. */
bool image_init(struct image *m, const struct image_layout *layout, size_t n_metrics);
void image_deinit(struct image *m);
/* It was initialised: what is there is kept. */
void image_keep(struct image *m);
/* What was kept is there again. False: nothing was kept, and nothing has changed. */
bool image_empty(struct image *m);
/* An empty one, for the next samples: those that it held are forgotten. */
void image_begin(struct image *m);
