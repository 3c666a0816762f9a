/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The memory that CUPTI decodes samples into. CUPTI's own initialisation of a counter data image
 * writes all of it (3 KB a sample of dram__bytes_*, 0.2 us each), so what it has written once is
 * kept, and copied over what samples have changed since. Samples come one behind the other, from
 * the beginning of the image on (CUPTI 2025.3). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	uint8_t *data; /* NULL: there is none */
	size_t bytes;
	uint8_t *kept;	    /* NULL: nothing is */
	unsigned n_emptied; /* times */
	bool is_spread;	    /* samples change what lies behind them, too */
};

/* Zeros. False: out of memory. */
bool image_init(struct image *m, size_t bytes);
void image_deinit(struct image *m);
/* Keeps what is there now, if there is room for it. */
void image_keep(struct image *m);
/* What was kept is there again; samples have changed no more than the first so many bytes. False:
 * nothing was kept, and nothing has changed. */
bool image_empty(struct image *m, size_t changed);
