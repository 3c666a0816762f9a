/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* "Did you mean": finds the names nearest to a wrong one among any number of candidates. */

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

/* For a wrong name longer than NEAR_NAME_BYTES nothing is near. */
void near_init(struct near *n, const char *wrong, size_t length);
void near_offer(struct near *n, const char *name);

/* The nearest of a few names, if it has slips in at most a third of the typed text or contains that
 * text; NULL: none. Lives as long as n. */
const char *near_best(const struct near *n);

/* What to write after the i-th match, for "a, b or c". */
const char *near_separator(const struct near *n, size_t i);

/* The candidate nearest to a word of a command line, if it has slips in at most a third of the
 * word, or one of the two begins with the other; NULL: none. candidates ends with NULL. */
const char *near_word(const char *word, const char *const *candidates);
