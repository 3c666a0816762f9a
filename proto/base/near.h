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

/* For a name of more than NEAR_NAME_BYTES nothing is near. */
void near_init(struct near *n, const char *wrong, size_t length);
void near_offer(struct near *n, const char *name);

/* Of a few names: the nearest, if slips are in at most a third of what was typed, or it is a part
 * of the name. NULL: none is. Lives as long as n. */
const char *near_best(const struct near *n);

/* What to write after the i-th match, for "a, b or c". */
const char *near_separator(const struct near *n, size_t i);

/* The candidate nearest to a word of a command line: with slips in at most a third of the word, or
 * one of the two beginning with the other. NULL: none is. candidates ends with NULL. */
const char *near_word(const char *word, const char *const *candidates);
