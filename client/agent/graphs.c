/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/graphs.h"

#include <stdlib.h>

#include "proto/base/array.h"

/* CUPTI gives each kernel of a graph a record with the correlation id of the launch (H200, CUPTI
 * 2025.3), in no promised order, and does not say how many records there will be. So the agent
 * waits for as many as at the graph's last launch.
 *
 * Launches are in a set-associative cache, as in spans.c. The number of kept kernels is bounded;
 * kernels beyond the bound are dropped and counted. */

static struct graph_launch *find_set(struct graphs *g, uint32_t correlation)
{
	return g->v[(correlation * UINT32_C(0x9e3779b1)) >> (32 - GRAPHS_BITS)];
}

static struct graph_launch *find(struct graphs *g, uint32_t correlation)
{
	struct graph_launch *set;

	if (correlation == 0 || !g->v) {
		return NULL;
	}
	set = find_set(g, correlation);
	for (size_t i = 0; i < GRAPHS_WAYS; i++) {
		if (set[i].correlation == correlation) {
			return &set[i];
		}
	}
	return NULL;
}

const struct graph_launch *graphs_find(struct graphs *g, uint32_t correlation)
{
	return find(g, correlation);
}

size_t graph_kernels_free(struct graph_kernels *list)
{
	size_t n = list->n;

	free(list->v);
	*list = (struct graph_kernels){ 0 };
	return n;
}

/* If its batch is still to be delivered, the launch is reported as one, in place of one of its
 * kernels in the counts; if all of these are counted already, it counts as one more. */
static void evict(struct graphs *g, struct graph_launch *l)
{
	size_t n = graph_kernels_free(&l->kernels);

	g->n_kernels -= n;
	if (n > 0) {
		atomic_fetch_add(&g->counters->dropped, n - 1);
	} else if (l->n_came > 0 && l->fate == GRAPH_WAITS) {
		atomic_fetch_add(&g->counters->seen, 1);
	}
	*l = (struct graph_launch){ 0 };
}

void graphs_deinit(struct graphs *g)
{
	size_t n = graph_kernels_free(&g->late);

	for (size_t i = 0; g->v && i < (size_t)1 << GRAPHS_BITS; i++) {
		for (size_t k = 0; k < GRAPHS_WAYS; k++) {
			n += graph_kernels_free(&g->v[i][k].kernels);
		}
	}
	if (n > 0) {
		atomic_fetch_add(&g->counters->dropped, n);
	}
	free(g->v);
	*g = (struct graphs){ .counters = g->counters };
}

static struct graph_launch *find_slot(struct graphs *g, uint32_t correlation)
{
	struct graph_launch *set = find_set(g, correlation), *oldest = set;

	for (size_t i = 0; i < GRAPHS_WAYS; i++) {
		if (set[i].correlation == 0) {
			return &set[i];
		}
		if (correlation - set[i].correlation > correlation - oldest->correlation) {
			oldest = &set[i];
		}
	}
	return oldest;
}

void graphs_expect(struct graphs *g, const struct launch *l, uintptr_t graph)
{
	struct graph_launch *slot;

	if (!g->v) {
		g->v = calloc((size_t)1 << GRAPHS_BITS, sizeof(*g->v));
	}
	if (!g->v || l->correlation == 0) {
		return;
	}
	slot = find_slot(g, l->correlation);
	evict(g, slot);
	*slot = (struct graph_launch){
		.correlation = l->correlation,
		.thread = l->thread,
		.path = l->path,
		.set = l->set,
		.start_ns = l->start_ns,
		.graph = graph,
	};
}

void graphs_forget(struct graphs *g, uint32_t correlation)
{
	struct graph_launch *l = find(g, correlation);

	if (l) {
		evict(g, l);
	}
}

/* --- how many kernels a graph has --- */

static struct graph_size *size_slot(struct graphs *g, uintptr_t graph)
{
	return &g->sizes[(graph >> 4 ^ graph >> 14) % GRAPHS_SIZES];
}

/* NULL: the graph's size is unknown. */
static const struct graph_size *size_of(struct graphs *g, const struct graph_launch *l)
{
	const struct graph_size *s = size_slot(g, l->graph);

	return l->graph != 0 && s->graph == l->graph ? s : NULL;
}

static void note_size(struct graphs *g, const struct graph_launch *l)
{
	const struct graph_size *known = size_of(g, l);
	uint32_t most = known && known->most > l->n_came ? known->most : l->n_came;

	*size_slot(g, l->graph) = (struct graph_size){ l->graph, l->n_came, most };
}

enum graph_here graphs_look(struct graphs *g, uint32_t correlation, uint64_t *n_came)
{
	const struct graph_launch *l = find(g, correlation);
	const struct graph_size *known = l ? size_of(g, l) : NULL;

	if (!l) {
		return GRAPH_ALL; /* forgotten, so no record is kept */
	}
	*n_came += l->n_came;
	if (known) {
		return l->n_came >= known->kernels ? GRAPH_ALL
		       : l->n_came > 0		   ? GRAPH_SOME
						   : GRAPH_NOTHING;
	}
	return l->n_came > 0 || l->copied ? GRAPH_SOME : GRAPH_NOTHING;
}

/* --- records --- */

/* False: the kernel is dropped. */
static bool keep(struct graphs *g, struct graph_launch *l, const struct launch *k)
{
	struct graph_kernels *list = l->fate == GRAPH_WAITS ? &l->kernels : &g->late;
	struct launch *kept;

	if (g->n_kernels >= GRAPHS_KERNELS_MAX || k->function == 0 ||
	    !array_make_room(&list->v, sizeof(*list->v), list->n, &list->max)) {
		atomic_fetch_add(&g->counters->dropped, 1);
		return false;
	}
	g->n_kernels++;
	kept = &list->v[list->n++];
	*kept = *k;
	kept->thread = l->thread;
	kept->path = l->path;
	kept->set = l->set;
	if (k->clock == GPUCTR_CLOCK_NONE) {
		kept->start_ns = l->start_ns;
	}
	return true;
}

bool graphs_add(struct graphs *g, const struct launch *k, bool selected)
{
	struct graph_launch *l = find(g, k->correlation);
	bool first;

	if (!l) {
		return false;
	}
	g->came = true;
	first = l->n_came++ == 0;
	atomic_fetch_add(&g->counters->seen, !first);
	if (l->fate != GRAPH_WAITS) { /* the graph has more kernels than were known */
		note_size(g, l);
	}
	if (l->fate == GRAPH_ONE) {
		atomic_fetch_add(&g->counters->dropped, !first);
		return false;
	}
	if (!selected) {
		atomic_fetch_add(&g->counters->filtered, 1);
		return false;
	}
	return keep(g, l, k);
}

void graphs_add_copy(struct graphs *g, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns)
{
	struct graph_launch *l = find(g, correlation);

	if (!l) {
		return;
	}
	l->begin_ns = !l->copied || begin_ns < l->begin_ns ? begin_ns : l->begin_ns;
	l->end_ns = end_ns > l->end_ns ? end_ns : l->end_ns;
	l->copied = true;
}

/* --- telling --- */

struct graph_told graphs_take(struct graphs *g, uint32_t correlation)
{
	struct graph_launch *l = find(g, correlation);
	const struct graph_size *known;
	struct graph_told told = { 0 };

	if (!l) {
		return told;
	}
	note_size(g, l);
	known = size_of(g, l);
	told.kernels = l->kernels;
	told.n_came = l->n_came;
	told.lacks = known ? known->most - l->n_came : 0;
	l->fate = l->n_came > 0 ? GRAPH_SPLIT : GRAPH_ONE;
	l->kernels = (struct graph_kernels){ 0 };
	g->n_kernels -= told.kernels.n;
	return told;
}

struct graph_kernels graphs_take_late(struct graphs *g)
{
	struct graph_kernels taken = g->late;

	g->late = (struct graph_kernels){ 0 };
	g->n_kernels -= taken.n;
	return taken;
}
