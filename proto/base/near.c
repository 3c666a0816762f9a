/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/near.h"

#include <stdio.h>
#include <string.h>

/* Scores, the smaller the nearer: a slip costs NEAR_SLIP; a name that contains what was typed costs
 * a slip and a half and then by what it has more. Nine slips are not near any more. Names are
 * copied, because the one who offers them may not keep them. */
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

/* Levenshtein distance, given up (and returned as limit) once it cannot be below limit. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
	unsigned row[NEAR_NAME_BYTES + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > NEAR_NAME_BYTES || m > NEAR_NAME_BYTES || (n > m ? n - m : m - n) >= limit) {
		return limit;
	}
	for (unsigned j = 0; j <= m; j++) {
		row[j] = j;
	}
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0], best;

		row[0] = best = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned d = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			d = d < row[j] + 1 ? d : row[j] + 1;
			row[j] = d < row[j - 1] + 1 ? d : row[j - 1] + 1;
			best = best < row[j] ? best : row[j];
		}
		if (best >= limit) {
			return limit;
		}
	}
	return row[m] < limit ? row[m] : limit;
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

const char *near_separator(const struct near *n, size_t i)
{
	if (i + 1 >= NEAR_MAX || n->found[i + 1].name[0] == '\0') {
		return "";
	}
	return i + 2 < NEAR_MAX && n->found[i + 2].name[0] != '\0' ? ", " : " or ";
}
