/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_NEAR_H
#define GPUCTR_BASE_NEAR_H

/* "Did you mean": the names nearest to a wrong one, out of any number that are offered. */

#include <stddef.h>

enum { NEAR_MAX = 3, NEAR_NAME_BYTES = 128 };

struct near_match {
	char name[NEAR_NAME_BYTES + 1]; /* "": none */
	unsigned score;
};

struct near {
	char wrong[NEAR_NAME_BYTES + 1];
	struct near_match found[NEAR_MAX]; /* the nearest first */
};

/* Nothing is near to a name of more than NEAR_NAME_BYTES. */
void near_init(struct near *n, const char *wrong, size_t length);
void near_offer(struct near *n, const char *name);

/* What stands behind the i-th match when they are written as "a, b or c". */
const char *near_separator(const struct near *n, size_t i);

#endif
