/* SPDX-License-Identifier: Apache-2.0 */

/* Questions about one stratum, or about strata of one kind, that several files ask. */

#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"

uint64_t strata_seen(const struct groups_stratum *s)
{
	uint64_t measured = s->samples[SAMPLE_LAUNCHES].n;

	if (!s->told) {
		return measured + 1;
	}
	return s->seen > measured ? s->seen : measured;
}

bool strata_lacks(const struct groups_stratum *s, size_t sample)
{
	return estimate_lacks(&s->samples[sample], strata_seen(s));
}

bool strata_predict(const struct groups *g, const struct groups_stratum *s, size_t sample)
{
	struct estimate_pair p =
		estimate_pair_among(&s->samples[sample], strata_seen(s), &g->priors[sample]);

	return strata_lacks(s, sample) && p.kind != ESTIMATE_GUESS;
}

/* Compares by what strata have in common, then by the order in which they were met. */
int strata_compare_kinds(const struct groups_stratum *a, const struct groups_stratum *b)
{
	if (a->capture != b->capture) {
		return a->capture < b->capture ? -1 : 1;
	}
	if (a->process != b->process) {
		return a->process < b->process ? -1 : 1;
	}
	return memcmp(&a->kind, &b->kind, sizeof(a->kind));
}

size_t strata_end_of_kind(const struct groups *g, const size_t *order, size_t n, size_t i)
{
	size_t end = i + 1;

	while (end < n && strata_compare_kinds(&g->strata[order[i]], &g->strata[order[end]]) == 0) {
		end++;
	}
	return end;
}

void strata_free_pools(struct groups *g)
{
	for (size_t i = 0; i < g->n_pools; i++) {
		free(g->pools[i].plain);
		free(g->pools[i].sized);
		free(g->pools[i].centres);
		free(g->pools[i].lacking);
	}
	for (size_t i = 0; i < g->strata_index.n; i++) {
		g->strata[i].pool = 0;
	}
	free(g->pools);
	free(g->among_plain);
	free(g->among_sized);
	free(g->size_rules);
	g->pools = NULL;
	g->among_plain = g->among_sized = NULL;
	g->size_rules = NULL;
	g->n_pools = 0;
}
