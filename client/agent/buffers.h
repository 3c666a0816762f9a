/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The buffers that CUPTI fills with activity records. Not thread-safe; the caller holds the lock of
 * the records. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffers {
	size_t bytes, max;   /* size of a new buffer, and the largest number of buffers */
	size_t n, n_surplus; /* number of buffers, and of surplus ones */
	size_t n_given;	     /* number that CUPTI has, with surplus ones */
	size_t n_marked;     /* number that CUPTI has had since the last mark */
	unsigned mark;
	bool over;		   /* the capture is over: buffers that CUPTI returns are freed */
	unsigned forcing;	   /* threads in a forced flush */
	struct buffer_head *given; /* the most recent one first */
	struct buffer_head *spare;
	struct buffer_head *resting; /* the oldest first */
};

/* Begins a capture. Buffers of the previous capture that still rest are kept until they have
 * rested, whatever their size. */
void buffers_begin(struct buffers *b, size_t bytes, size_t max);

/* Returns a buffer for CUPTI, as malloc() returns it, of *ret_bytes. Beyond max buffers it is a
 * small surplus one, whose records the caller should discard without delay. NULL: there are too
 * many surplus ones, too, or out of memory. */
void *buffers_give(struct buffers *b, size_t *ret_bytes);

/* Is this one of our buffers that CUPTI has? Others belong to the program. *ret_is_given_up: the
 * caller must discard its records, because it or many others are surplus ones. */
bool buffers_know(struct buffers *b, const void *data, bool *ret_is_given_up);

/* CUPTI returns the buffer, which is used again or freed. Others' buffers are left alone. */
void buffers_take_back(struct buffers *b, void *data);

/* From now on n_marked is the number of buffers that CUPTI has now and has not returned yet. */
void buffers_mark(struct buffers *b);

/* Frees the buffers that CUPTI does not have, and from now on those that it returns. Resting ones
 * stay until the next capture begins. */
void buffers_end(struct buffers *b);
