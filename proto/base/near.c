/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/near.h"

#include <stdio.h>
#include <string.h>

/* A smaller score means a nearer name. Each slip (a wrong, missing or additional letter) adds
 * NEAR_SLIP; a name that contains the typed text scores one and a half slips, and more if it is
 * longer. A name with nine slips is not near. Names are copied, because the caller may not keep
 * them. */
enum { NEAR_SLIP = 16, NEAR_LIMIT = 9 * NEAR_SLIP };

void near_init(struct near *n, const char *wrong, size_t length)
{
	length = length <= NEAR_NAME_BYTES ? length : 0;
	*n = (struct near){ 0 };
	memcpy(n->wrong, wrong, length);
	for (size_t i = 0; i < NEAR_MAX; i++) {
		n->found[i].score = length > 0 ? NEAR_LIMIT : 0;
	}
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* The Damerau-Levenshtein distance, restricted: two neighbours that changed places are one slip.
 * Gives up, and returns limit, once the distance cannot be below limit. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
	unsigned rows[3][NEAR_NAME_BYTES + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];
	unsigned best_before = 0;
	size_t n = strlen(a), m = strlen(b);

	if (n > NEAR_NAME_BYTES || m > NEAR_NAME_BYTES || (n > m ? n - m : m - n) >= limit) {
		return limit;
	}
	for (unsigned j = 0; j <= m; j++) {
		last[j] = j;
	}
	for (size_t i = 1; i <= n; i++) {
		unsigned *next = before, best;

		row[0] = best = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1,
				       last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
				row[j] = least(row[j], before[j - 2] + 1);
			}
			best = least(best, row[j]);
		}
		/* A swap compares with the row before the previous one. */
		if (least(best, best_before) >= limit) {
			return limit;
		}
		best_before = best;
		before = last;
		last = row;
		row = next;
	}
	return least(last[m], limit);
}

void near_offer(struct near *n, const char *name)
{
	unsigned limit = n->found[NEAR_MAX - 1].score, score;
	size_t i = NEAR_MAX - 1, length = strlen(n->wrong);

	if (limit == 0 || strlen(name) > NEAR_NAME_BYTES) {
		return;
	}
	score = NEAR_SLIP * distance(n->wrong, name, limit / NEAR_SLIP + 1);
	if (length > 3 && strstr(name, n->wrong)) {
		unsigned contains = NEAR_SLIP + NEAR_SLIP / 2 + (unsigned)(strlen(name) - length);

		score = contains < score ? contains : score;
	}
	if (score >= limit) {
		return;
	}
	for (; i > 0 && n->found[i - 1].score > score; i--) {
		n->found[i] = n->found[i - 1];
	}
	snprintf(n->found[i].name, sizeof(n->found[i].name), "%s", name);
	n->found[i].score = score;
}

const char *near_best(const struct near *n)
{
	const struct near_match *best = &n->found[0];
	size_t length = strlen(n->wrong);

	if (*best->name == '\0' || (best->score > NEAR_SLIP * (unsigned)(length / 3) &&
				    !(length > 3 && strstr(best->name, n->wrong)))) {
		return NULL;
	}
	return best->name;
}

const char *near_separator(const struct near *n, size_t i)
{
	if (i + 1 >= NEAR_MAX || n->found[i + 1].name[0] == '\0') {
		return "";
	}
	return i + 2 < NEAR_MAX && n->found[i + 2].name[0] != '\0' ? ", " : " or ";
}

const char *near_word(const char *word, const char *const *candidates)
{
	size_t n = strlen(word);
	unsigned best = (unsigned)n / 3 + 1; /* a nearer word has fewer slips than this */
	const char *nearest = NULL;

	for (; n > 0 && *candidates; candidates++) {
		size_t length = strlen(*candidates), shorter = n < length ? n : length;
		unsigned d = distance(word, *candidates, (unsigned)(n + length) + 1);

		if (shorter >= 3 && strncmp(word, *candidates, shorter) == 0) {
			d = least(d, 1);
		}
		if (d < best) {
			best = d;
			nearest = *candidates;
		}
	}
	return nearest;
}
