/* SPDX-License-Identifier: Apache-2.0 */

/* Strata of which too little was measured are taken to be as the others of their kind: the same
 * kernel, shape and device, come to by another path or in another NVTX range. A program has
 * hundreds of such strata from its first steps alone, and would be told a total without them.
 *
 * What such strata do is predicted from the others (estimate_pair_like()). A stratum of which two
 * launches were measured, in two turns where metrics take turns, stands for itself: strata of a
 * kind may differ a hundredfold, each being all alike. One is enough where strata have shown how
 * much launches of one differ in this metric; else only what was measured is known of it.
 *
 * Which strata these are depends on how many of their launches were measured, never on what was
 * measured. Where metrics take turns the strata of a kind may have been met in the same one: what
 * all of them share of its luck is not in the error. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

struct member {
	const struct groups_stratum *stratum;
	size_t number;
};

static bool lacks(const struct groups_stratum *s, size_t sample)
{
	return estimate_lacks(&s->samples[sample], groups_stratum_seen(s));
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

/* What it measured tells of others, also where it is too little for itself. */
static void add_member(struct stratum_pool *pool, const struct groups_stratum *s)
{
	for (size_t k = 0; k < s->n_samples; k++) {
		estimate_class_add(&pool->kinds[k], &s->samples[k],
				   lacks(s, k) ? 0 : groups_stratum_seen(s));
	}
}

/* Something that others tell of? */
static bool lacks_something(const struct stratum_pool *pool, const struct groups_stratum *s)
{
	for (size_t k = 0; k < s->n_samples; k++) {
		if (pool->kinds[k].means.weight > 0 && lacks(s, k)) {
			return true;
		}
	}
	return false;
}

/* Consecutive members of one kind. */
static bool pool_kind(struct groups *g, const struct member *members, size_t n)
{
	struct stratum_pool *pool = &g->pools[g->n_pools];

	if (n == 1) {
		return true;
	}
	g->n_pools++; /* to be freed, whatever comes */
	pool->n_samples = members[0].stratum->n_samples;
	pool->kinds = calloc(pool->n_samples, sizeof(*pool->kinds));
	pool->lacking = calloc(n, sizeof(*pool->lacking));
	if (!pool->kinds || !pool->lacking) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		add_member(pool, members[i].stratum);
	}
	for (size_t i = 0; i < n; i++) {
		struct groups_stratum *s = &g->strata[members[i].number];

		if (lacks_something(pool, s)) {
			s->pool = g->n_pools;
			pool->seen += groups_stratum_seen(s);
			pool->lacking[pool->n_lacking++] = members[i].number;
		}
	}
	return true;
}

/* Told ones only: of the others nobody knows what kind they are. */
static size_t list_members(const struct groups *g, struct member *members)
{
	size_t n = 0;

	for (size_t i = 0; i < g->strata_index.n; i++) {
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
	if (g->strata_index.n == 0) {
		return 0;
	}
	members = calloc(g->strata_index.n, sizeof(*members));
	g->pools = calloc(g->strata_index.n, sizeof(*g->pools));
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

void pools_add(const struct groups *g, const struct stratum_pool *pool, size_t sample,
	       struct estimate_total *total)
{
	struct estimate_sample own = { .n = 0 };
	uint64_t seen = 0;
	double squares = 0;
	struct estimate_pair p;

	if (sample >= pool->n_samples) { /* a measure of another capture */
		p = estimate_pair(&own, pool->seen);
		estimate_total_add(total, &p);
		return;
	}
	for (size_t i = 0; i < pool->n_lacking; i++) {
		const struct groups_stratum *s = &g->strata[pool->lacking[i]];
		uint64_t launches = groups_stratum_seen(s), left;

		p = estimate_pair_among(&s->samples[sample], launches, &g->priors[sample]);
		if (!lacks(s, sample) || p.kind == ESTIMATE_GUESS) {
			estimate_total_add(total, &p);
			continue;
		}
		left = launches - s->samples[sample].n;
		estimate_merge(&own, &s->samples[sample]);
		seen += launches;
		squares += (double)left * (double)left;
	}
	if (seen > 0) {
		p = estimate_pair_like(&pool->kinds[sample], &own, seen, squares);
		estimate_total_add(total, &p);
	}
}

void pools_free(struct groups *g)
{
	for (size_t i = 0; i < g->n_pools; i++) {
		free(g->pools[i].kinds);
		free(g->pools[i].lacking);
	}
	for (size_t i = 0; i < g->strata_index.n; i++) {
		g->strata[i].pool = 0;
	}
	free(g->pools);
	g->pools = NULL;
	g->n_pools = 0;
}
