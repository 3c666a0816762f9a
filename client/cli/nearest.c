/* SPDX-License-Identifier: Apache-2.0 */

/* "Did you mean": the Damerau-Levenshtein distance (restricted), with a bound of a third of the
 * word, and a candidate that begins with the word or the word with it counts as near. */

#include "client/cli/text.h"

enum { MAX_WORD = 63 };

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

static unsigned distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned rows[3][MAX_WORD + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= n_b; j++) {
		last[j] = (unsigned)j;
	}
	for (size_t i = 1; i <= n_a; i++) {
		unsigned *next = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n_b; j++) {
			row[j] = least(last[j] + 1, row[j - 1] + 1,
				       last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j]) {
				row[j] = before[j - 2] + 1;
			}
		}
		before = last;
		last = row;
		row = next;
	}
	return last[n_b];
}

const char *text_nearest(const char *word, const char *const *candidates)
{
	size_t n = strlen(word);
	unsigned best = (unsigned)n / 3 + 1; /* what is found is below */
	const char *nearest = NULL;

	for (; n > 0 && n <= MAX_WORD && *candidates; candidates++) {
		size_t n_candidate = strlen(*candidates);
		size_t shorter = n < n_candidate ? n : n_candidate;
		unsigned d;

		if (n_candidate > MAX_WORD) {
			continue;
		}
		d = distance(word, n, *candidates, n_candidate);
		if (shorter >= 3 && strncmp(word, *candidates, shorter) == 0 && d > 1) {
			d = 1;
		}
		if (d < best) {
			best = d;
			nearest = *candidates;
		}
	}
	return nearest;
}
