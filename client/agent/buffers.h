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
	size_t filled;	   /* bytes, since then */
	uint64_t since_ns;
	unsigned forcing; /* threads in a forced flush */
	struct buffer_head *spare;
	struct buffer_head *resting; /* the oldest first */
};

/* For a capture. Those of another size that are left stay for a while. */
void buffers_begin(struct buffers *b, size_t bytes, size_t max);

/* For CUPTI, aligned to 16. *ret_bytes may be filled: as many as last for a moment, so that the
 * first of its records need not wait for long. NULL: there are enough, or out of memory. */
void *buffers_give(struct buffers *b, size_t *ret_bytes);

/* CUPTI returns it, filled with so many bytes. It may be used again, at once or later, or is freed.
 */
void buffers_take_back(struct buffers *b, void *data, size_t filled);

/* Frees what CUPTI does not have, but for what still rests. What it returns from now on is freed.
 */
void buffers_end(struct buffers *b);
