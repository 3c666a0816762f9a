/* SPDX-License-Identifier: Apache-2.0 */

/* Predicts what strata did of which too few launches were measured, from the other strata of their
 * kind: those with the same kernel, launch shape and device that the program reaches by another
 * path or in another NVTX range. The first steps of a program alone leave hundreds of such strata,
 * and totals would lack them all.
 *
 * estimate_pair_like() computes the prediction. A stratum with two measured launches (of two turns,
 * where metrics take turns) stands for itself, because strata of one kind may differ a hundredfold
 * while the launches within each are alike. One launch is enough if other strata have shown how
 * much launches of a stratum differ in this metric; otherwise only what was measured of it is
 * known.
 *
 * Where metrics take turns, another metric may tell the size of a stratum that was not measured in
 * the turns of this metric (sizes.c). A pool therefore keeps its strata's figures twice: as they
 * are, for strata without a size, and for each unit of size.
 *
 * Whether a stratum is predicted depends on how many of its launches were measured, never on their
 * values. The error does not cover what all strata of a kind share because they were measured in
 * the same turn. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

/* For qsort_r(): compares strata by kind, then by number. */
static int compare_members(const void *a, const void *b, void *userdata)
{
	const struct groups *g = userdata;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	int order = strata_compare_kinds(&g->strata[x], &g->strata[y]);

	return order ? order : (x > y) - (x < y);
}

/* Adds what was measured of the stratum to its pool, even if that is too little for an estimate of
 * the stratum itself. */
static void add_member(const struct groups *g, struct stratum_pool *pool,
		       const struct groups_stratum *s)
{
	struct estimate_size size;

	for (size_t k = 0; k < s->n_samples; k++) {
		uint64_t seen = strata_lacks(s, k) ? 0 : strata_seen(s);

		estimate_class_add(&pool->plain[k], &s->samples[k], seen, NULL);
		if (sizes_of(g, pool, s, k, &size)) {
			estimate_class_add(&pool->sized[k], &s->samples[k], seen, &size);
		}
	}
}

/* Does the stratum lack a sample of which other strata have told something? */
static bool lacks_something(const struct stratum_pool *pool, const struct groups_stratum *s)
{
	for (size_t k = 0; k < s->n_samples; k++) {
		if (pool->plain[k].means.weight > 0 && strata_lacks(s, k)) {
			return true;
		}
	}
	return false;
}

/* The members of one kind. */
static bool pool_kind(struct groups *g, const size_t *members, size_t n)
{
	struct stratum_pool *pool = &g->pools[g->n_pools];

	if (n == 1) {
		return true;
	}
	g->n_pools++; /* to be freed, whatever comes */
	pool->n_samples = g->strata[members[0]].n_samples;
	pool->plain = calloc(pool->n_samples, sizeof(*pool->plain));
	pool->sized = calloc(pool->n_samples, sizeof(*pool->sized));
	pool->centres = calloc(2 * pool->n_samples, sizeof(*pool->centres));
	pool->lacking = calloc(n, sizeof(*pool->lacking));
	if (!pool->plain || !pool->sized || !pool->centres || !pool->lacking) {
		return false;
	}
	sizes_centre(g, members, n, pool->centres);
	for (size_t i = 0; i < n; i++) {
		add_member(g, pool, &g->strata[members[i]]);
	}
	for (size_t i = 0; i < n; i++) {
		struct groups_stratum *s = &g->strata[members[i]];

		if (lacks_something(pool, s)) {
			s->pool = g->n_pools;
			pool->seen += strata_seen(s);
			pool->lacking[pool->n_lacking++] = members[i];
		}
	}
	return true;
}

/* How the strata of one kind differ, taken over all kinds. */
static bool add_up_among(struct groups *g)
{
	g->among_plain = calloc(groups_n_samples(g), sizeof(*g->among_plain));
	g->among_sized = calloc(groups_n_samples(g), sizeof(*g->among_sized));
	if (!g->among_plain || !g->among_sized) {
		return false;
	}
	for (size_t i = 0; i < g->n_pools; i++) {
		for (size_t k = 0; k < g->pools[i].n_samples; k++) {
			estimate_among_add(&g->among_plain[k], &g->pools[i].plain[k]);
			estimate_among_add(&g->among_sized[k], &g->pools[i].sized[k]);
		}
	}
	return true;
}

/* Only strata that the process has reported: the kind of others is not known. */
static size_t list_members(struct groups *g, size_t *members)
{
	size_t n = 0;

	for (size_t i = 0; i < g->strata_index.n; i++) {
		if (g->strata[i].told && g->strata[i].kind.kernel) {
			members[n++] = i;
		}
	}
	qsort_r(members, n, sizeof(*members), compare_members, g);
	return n;
}

int pools_make(struct groups *g)
{
	size_t *members, n;
	bool ok;

	strata_free_pools(g);
	if (g->strata_index.n == 0) {
		return 0;
	}
	members = calloc(g->strata_index.n, sizeof(*members));
	g->pools = calloc(g->strata_index.n, sizeof(*g->pools));
	ok = members && g->pools;
	n = ok ? list_members(g, members) : 0;
	ok = ok && sizes_make(g, members, n) == 0;
	for (size_t i = 0, next; i < n && ok; i = next) {
		next = strata_end_of_kind(g, members, n, i);
		ok = pool_kind(g, members + i, next - i);
	}
	free(members);
	ok = ok && add_up_among(g);
	return ok ? 0 : -ENOMEM;
}

/* Strata of a pool that lack a sample: those that have no size, and those that have one. */
struct lacking {
	struct estimate_lacking plain, sized;
};

/* Adds the stratum by its size if that is known, and so are the sizes of two others of its kind, or
 * of at least half of them. */
static void add_lacking(const struct groups *g, const struct stratum_pool *pool,
			const struct groups_stratum *s, size_t sample, struct lacking *lacking)
{
	double sized = pool->sized[sample].means.weight, plain = pool->plain[sample].means.weight;
	uint64_t launches = strata_seen(s);
	struct estimate_size size;

	if ((sized >= 2 || 2 * sized >= plain) && sizes_of(g, pool, s, sample, &size)) {
		estimate_lacking_add(&lacking->sized, &s->samples[sample], launches, &size);
	} else {
		estimate_lacking_add(&lacking->plain, &s->samples[sample], launches, NULL);
	}
}

static void predict(const struct groups *g, const struct stratum_pool *pool, size_t sample,
		    const struct lacking *lacking, struct estimate_total *total)
{
	const struct estimate_like plain = { &pool->plain[sample], &lacking->plain,
					     &g->among_plain[sample] };
	const struct estimate_like sized = { &pool->sized[sample], &lacking->sized,
					     &g->among_sized[sample] };
	struct estimate_pair p = estimate_pair_like(plain.class, plain.lacking, plain.among);
	struct estimate_pair s = estimate_pair_like(sized.class, sized.lacking, sized.among);

	if (p.kind == ESTIMATE_GUESS && s.kind == ESTIMATE_GUESS) {
		estimate_pair_share(&p, &plain, &sized);
	}
	if (lacking->plain.seen > 0) {
		estimate_total_add(total, &p);
	}
	if (lacking->sized.seen > 0) {
		estimate_total_add(total, &s);
	}
}

void pools_add(const struct groups *g, const struct stratum_pool *pool, size_t sample,
	       struct estimate_total *total)
{
	struct lacking lacking = { .plain = { .seen = 0 } };
	struct estimate_pair p;

	if (sample >= pool->n_samples) { /* a measure of another capture */
		p = estimate_pair(&lacking.plain.own, pool->seen);
		estimate_total_add(total, &p);
		return;
	}
	for (size_t i = 0; i < pool->n_lacking; i++) {
		const struct groups_stratum *s = &g->strata[pool->lacking[i]];

		if (strata_predict(g, s, sample)) {
			add_lacking(g, pool, s, sample, &lacking);
		} else {
			p = estimate_pair_among(&s->samples[sample], strata_seen(s),
						&g->priors[sample]);
			estimate_total_add(total, &p);
		}
	}
	predict(g, pool, sample, &lacking, total);
}
