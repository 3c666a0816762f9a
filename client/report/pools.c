/* SPDX-License-Identifier: Apache-2.0 */

/* Strata of which too little was measured are put together with others of their kind: the same
 * kernel, shape and device, in another NVTX range. A program whose ranges have names of their own
 * ("iteration 17") has dozens of such strata, each with a launch that was measured or none, and
 * would be told a total with neither them nor an error.
 *
 * Collapsed strata (Cochran, Sampling Techniques, 3rd ed., section 5A.12; Wolter, Introduction to
 * Variance Estimation, 2nd ed., section 2.5): launches keep the chances that they had, so the
 * pool's total is as right as those of its strata; its error holds what these differ by, so it is
 * rather too large. All that lack of a kind are one pool. If even that lacks, all of the kind are.
 *
 * Which strata lack depends on how many of their launches were measured, never on what was
 * measured. Where metrics take turns nothing is put together: launches of different strata in one
 * turn would count as of several. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

enum { ENOUGH = 5 }; /* measured launches: two have an error, but a poor one */

struct member {
	const struct groups_stratum *stratum;
	size_t number;
};

static uint64_t measured(const struct groups_stratum *s)
{
	return s->samples[SAMPLE_LAUNCHES].n;
}

static bool lacks(const struct groups_stratum *s)
{
	return measured(s) < ENOUGH && measured(s) < groups_stratum_seen(s);
}

/* By what they have in common, then as they were met. */
static int compare_kinds(const struct groups_stratum *a, const struct groups_stratum *b)
{
	if (a->capture != b->capture) {
		return a->capture < b->capture ? -1 : 1;
	}
	if (a->process != b->process) {
		return a->process < b->process ? -1 : 1;
	}
	return memcmp(&a->kind, &b->kind, sizeof(a->kind));
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = compare_kinds(x->stratum, y->stratum);

	return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Those of a kind that were measured too little, or all. */
static bool make_pool(struct groups *g, const struct member *members, size_t n, bool all)
{
	struct stratum_pool *pool = &g->pools[g->n_pools];
	size_t n_samples = members[0].stratum->n_samples;

	*pool = (struct stratum_pool){ .samples = calloc(n_samples, sizeof(*pool->samples)) };
	if (!pool->samples) {
		return false;
	}
	g->n_pools++;
	for (size_t i = 0; i < n; i++) {
		struct groups_stratum *s = &g->strata[members[i].number];

		if (!all && !lacks(s)) {
			continue;
		}
		s->pool = g->n_pools;
		pool->seen += groups_stratum_seen(s);
		for (size_t k = 0; k < n_samples; k++) {
			estimate_merge(&pool->samples[k], &s->samples[k]);
		}
	}
	return true;
}

/* Consecutive members of one kind. */
static bool pool_kind(struct groups *g, const struct member *members, size_t n)
{
	uint64_t of_lacking = 0;
	size_t lacking = 0;

	for (size_t i = 0; i < n; i++) {
		if (lacks(members[i].stratum)) {
			lacking++;
			of_lacking += measured(members[i].stratum);
		}
	}
	if (lacking == 0 || n == 1) {
		return true;
	}
	return make_pool(g, members, n, of_lacking < ENOUGH);
}

/* Told ones only: of the others nobody knows what kind they are. */
static size_t list_members(const struct groups *g, struct member *members)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n_strata; i++) {
		if (g->strata[i].told && g->strata[i].kind.kernel) {
			members[n++] = (struct member){ &g->strata[i], i };
		}
	}
	qsort(members, n, sizeof(*members), compare_members);
	return n;
}

int pools_make(struct groups *g)
{
	struct member *members;
	bool ok = true;
	size_t n;

	pools_free(g);
	if (g->turns || g->n_strata == 0) {
		return 0;
	}
	members = calloc(g->n_strata, sizeof(*members));
	g->pools = calloc(g->n_strata, sizeof(*g->pools));
	n = members && g->pools ? list_members(g, members) : 0;
	ok = members && g->pools;
	for (size_t i = 0, next; i < n && ok; i = next) {
		for (next = i + 1;
		     next < n && compare_kinds(members[i].stratum, members[next].stratum) == 0;
		     next++) {
		}
		ok = pool_kind(g, members + i, next - i);
	}
	free(members);
	return ok ? 0 : -ENOMEM;
}

void pools_free(struct groups *g)
{
	for (size_t i = 0; i < g->n_pools; i++) {
		free(g->pools[i].samples);
	}
	for (size_t i = 0; i < g->n_strata; i++) {
		g->strata[i].pool = 0;
	}
	free(g->pools);
	g->pools = NULL;
	g->n_pools = 0;
}
