/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The buffers that CUPTI fills with activity records. Not thread-safe; the caller holds the lock of
 * the records. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffers {
	size_t bytes, max;   /* of those to be made, and how many at most */
	size_t n, n_surplus; /* that there are */
	size_t n_given;	     /* that CUPTI has, of both */
	size_t n_marked;     /* of those, at the last mark and still */
	unsigned mark;
	bool over;		   /* the capture: what CUPTI returns is freed */
	unsigned forcing;	   /* threads in a forced flush */
	struct buffer_head *given; /* the last one first */
	struct buffer_head *spare;
	struct buffer_head *resting; /* the oldest first */
};

/* For a capture. What rests from the one before stays for a while, of whatever size. */
void buffers_begin(struct buffers *b, size_t bytes, size_t max);

/* For CUPTI, as malloc() returns it, of *ret_bytes. Where there are enough it is a small surplus
 * one, whose records should be given up without delay. NULL: there are too many of these too, or
 * out of memory. */
void *buffers_give(struct buffers *b, size_t *ret_bytes);

/* Has CUPTI this buffer from here? Others belong to the program. *ret_is_given_up: are the records
 * in it to be given up? Those of surplus ones are; where there are many of these, all are, until
 * there are fewer. */
bool buffers_know(struct buffers *b, const void *data, bool *ret_is_given_up);

/* CUPTI returns it. It may be used again, at once or later, or is freed. One that is not ours is
 * left alone. */
void buffers_take_back(struct buffers *b, void *data);

/* From now on n_marked tells how many of those that CUPTI has at this moment have not come back. */
void buffers_mark(struct buffers *b);

/* Frees what CUPTI does not have, and from now on what it returns, but for what rests: that stays
 * until the next capture begins. */
void buffers_end(struct buffers *b);
