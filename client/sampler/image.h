/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The memory into which CUPTI decodes samples (a counter data image), with their times and values.
 * When CUPTI initialises an image, it writes all of it (3 KB for each sample of dram__bytes_*, 0.2
 * us each). So image_keep() keeps the head and one sample of what CUPTI has written, and
 * image_empty() copies them over all that has changed. One sample is enough, because the samples of
 * an empty image are alike (CUPTI 2025.3); otherwise CUPTI initialises it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_layout {
	size_t head, sample; /* bytes of the head, and of each sample behind it */
	uint32_t room;	     /* samples */
};

struct image {
	uint8_t *data; /* NULL: there is none */
	size_t bytes;
	struct image_layout layout;
	uint8_t *kept;	    /* initial head and sample; NULL: none */
	bool is_empty;	    /* data is as after initialisation */
	unsigned n_emptied; /* times that the image was emptied */
	bool is_spread;	    /* decoding also changes bytes behind the samples */

	size_t n, all;			/* samples that are complete, and those that have begun */
	size_t timed, evaluated, taken; /* samples with times, with values, passed on */
	int64_t (*times)[2];		/* begin and end of each sample */
	double *values;			/* of each sample, one for each metric */
	size_t n_metrics;
};

/* Allocates a zeroed image. False: out of memory. */
bool image_init(struct image *m, const struct image_layout *layout, size_t n_metrics);
void image_deinit(struct image *m);
/* Keeps the initial state; call it when CUPTI has initialised the image. */
void image_keep(struct image *m);
/* Restores the initial state. False: none was kept, and the image is unchanged. */
bool image_empty(struct image *m);
/* Makes an emptied image ready for the next samples: forgets those that it held. */
void image_begin(struct image *m);
