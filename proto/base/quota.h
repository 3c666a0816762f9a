/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A limited account of bytes. A buffer, queue or arena with memory for a user has a pointer to the
 * user's quota, takes bytes from the quota before it allocates, and gives them back when it frees.
 * NULL: no limit. A quota may be part of another, which has a limit for all of its parts. */

#include <stdbool.h>
#include <stddef.h>

struct quota {
	size_t used, max;
	struct quota *whole; /* the quota of which this is a part; NULL: none */
};

/* The number of bytes that can still be taken. */
static inline size_t quota_left(const struct quota *q)
{
	size_t left = q->used < q->max ? q->max - q->used : 0;

	return q->whole && quota_left(q->whole) < left ? quota_left(q->whole) : left;
}

/* False: the bytes would exceed a limit, and nothing is taken. */
static inline bool quota_take(struct quota *q, size_t bytes)
{
	if (q && bytes > quota_left(q)) {
		return false;
	}
	for (; q; q = q->whole) {
		q->used += bytes;
	}
	return true;
}

static inline void quota_give(struct quota *q, size_t bytes)
{
	for (; q; q = q->whole) {
		q->used -= bytes;
	}
}
