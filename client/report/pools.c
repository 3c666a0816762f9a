/* SPDX-License-Identifier: Apache-2.0 */

/* Strata of which nothing was measured are taken to be as the others of their kind: the same
 * kernel, shape and device, come to by another path or in another NVTX range. A program whose
 * ranges have names of their own ("iteration 17") has dozens of such strata, and would be told a
 * total without them.
 *
 * What such strata do is predicted from the others' (estimate_pair_like()), whose launches count by
 * how many unmeasured ones each stands for. A stratum of which something was measured stands for
 * itself: strata of a kind may differ a hundredfold, each being all alike. But of one launch that
 * is so only where enough strata have shown how much launches of one stratum differ; until then
 * its others are predicted as well.
 *
 * Which strata these are depends on how many of their launches were measured, never on what was
 * measured. Where metrics take turns nothing is predicted: launches of different strata in one
 * turn would count as of several. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

enum { STRATA_ENOUGH = 5 };

struct member {
	const struct groups_stratum *stratum;
	size_t number;
};

static uint64_t measured(const struct groups_stratum *s)
{
	return s->samples[SAMPLE_LAUNCHES].n;
}

/* Have enough strata shown how much launches of one differ? */
static bool one_tells(const struct groups *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n_strata && n < STRATA_ENOUGH; i++) {
		n += measured(&g->strata[i]) > 1;
	}
	return n == STRATA_ENOUGH;
}

static bool lacks(const struct groups *g, const struct groups_stratum *s)
{
	return measured(s) < groups_stratum_seen(s) && measured(s) < (g->one_tells ? 1 : 2);
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
static void add_measured(struct stratum_pool *pool, const struct groups_stratum *s, bool lacks)
{
	for (size_t k = 0; k < s->n_samples; k++) {
		estimate_class_add(&pool->samples[k].of_all, &s->samples[k]);
		if (lacks) {
			estimate_merge(&pool->samples[k].own, &s->samples[k]);
		}
	}
}

static void add_member(struct groups *g, struct stratum_pool *pool, const struct member *m)
{
	struct groups_stratum *s = &g->strata[m->number];
	uint64_t left = groups_stratum_seen(s) - measured(s);

	add_measured(pool, s, lacks(g, s));
	if (lacks(g, s)) {
		s->pool = g->n_pools + 1;
		pool->seen += groups_stratum_seen(s);
		pool->squares += (double)left * (double)left;
	}
}

/* Consecutive members of one kind. */
static bool pool_kind(struct groups *g, const struct member *members, size_t n)
{
	struct stratum_pool *pool = &g->pools[g->n_pools];
	size_t n_samples = members[0].stratum->n_samples, told = 0, lacking = 0;

	for (size_t i = 0; i < n; i++) {
		told += measured(members[i].stratum) > 0;
		lacking += lacks(g, members[i].stratum);
	}
	if (n == 1 || told == 0 || lacking == 0) {
		return true;
	}
	*pool = (struct stratum_pool){ .samples = calloc(n_samples, sizeof(*pool->samples)),
				       .n_samples = n_samples };
	if (!pool->samples) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		add_member(g, pool, &members[i]);
	}
	g->n_pools++;
	return true;
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
	g->one_tells = one_tells(g);
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

struct estimate_pair pools_pair(const struct stratum_pool *pool, size_t sample)
{
	static const struct pool_sample none;
	const struct pool_sample *s = sample < pool->n_samples ? &pool->samples[sample] : &none;

	return estimate_pair_like(&s->of_all, &s->own, pool->seen, pool->squares);
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
