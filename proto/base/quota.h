/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_QUOTA_H
#define GPUCTR_BASE_QUOTA_H

/* A limited account of bytes. What holds memory for somebody (a buffer, a queue, an arena) has a
 * pointer to that somebody's quota, takes from the quota before it allocates, and gives back when
 * it frees. NULL: nobody pays. */

#include <stdbool.h>
#include <stddef.h>

struct quota {
	size_t used, max;
};

/* False: the bytes would exceed the limit, and nothing is taken. */
static inline bool quota_take(struct quota *q, size_t bytes)
{
	if (!q) {
		return true;
	}
	if (bytes > q->max - q->used) {
		return false;
	}
	q->used += bytes;
	return true;
}

static inline void quota_give(struct quota *q, size_t bytes)
{
	if (q) {
		q->used -= bytes;
	}
}

#endif
