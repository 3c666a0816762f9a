/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The buffers that CUPTI fills with activity records. Not thread-safe; the caller holds the lock of
 * the records. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffers {
	bool over;	   /* the capture is */
	size_t bytes, max; /* of those to be made, and how many at most */
	size_t n, n_given; /* that there are, and that CUPTI has */
	unsigned forcing;  /* threads in a forced flush */
	struct buffer_head *spare;
	struct buffer_head *resting; /* the oldest first */
};

/* For a capture. Those of another size that are left stay for a while. */
void buffers_begin(struct buffers *b, size_t bytes, size_t max);

/* For CUPTI, of b->bytes and aligned to 16. NULL: there are enough, or out of memory. */
void *buffers_give(struct buffers *b);

/* CUPTI returns it. It may be used again, at once or later, or is freed. */
void buffers_take_back(struct buffers *b, void *data);

/* Frees what CUPTI does not have, but for what still rests. What it returns from now on is freed.
 */
void buffers_end(struct buffers *b);
