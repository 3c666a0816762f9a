/* SPDX-License-Identifier: Apache-2.0 */

/* Reverse Cuthill-McKee (George and Liu, Computer Solution of Large Sparse Positive Definite
 * Systems, chapter 4): unknowns are numbered by their distance from one that is far from the
 * others. The end of a step meets its beginning, so N is a ring, of which this makes a band twice
 * as wide as the ring's. Unknowns that are coupled with very many others come last, because nearly
 * all unknowns are their neighbours (as in AMD, Amestoy, Davis and Duff, TOMS 30, 2004). */

#include "client/attribution/order.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/attribution/normal.h"

/* More neighbours than this times the root of the number of unknowns are very many. */
#define DENSE 10
/* Searches for an unknown that is far from the others. */
#define SEARCHES 2
/* Cost in operations of effort.h: of a neighbour that is looked at, and of a place in the queue. */
#define COST 4

struct graph {
	uint32_t nodes;
	size_t *start; /* of each node's neighbours */
	uint32_t *neighbours;
	uint32_t *queue; /* nodes in the order in which they were found */
	unsigned char *found;
	struct effort *effort;
};

static uint32_t row_of(const struct normal_pair *p)
{
	return (uint32_t)(p->key >> 32);
}

static uint32_t column_of(const struct normal_pair *p)
{
	return (uint32_t)p->key - 1;
}

size_t order_envelope(const struct normal *n, const uint32_t *rows, uint32_t *first)
{
	size_t entries = 0;

	for (uint32_t i = 0; i < n->unknowns; i++) {
		first[i] = i;
	}
	for (size_t i = 0; i < n->pairs_size; i++) {
		const struct normal_pair *p = &n->pairs[i];
		uint32_t a, b, row, column;

		if (p->key == 0) {
			continue;
		}
		a = rows[row_of(p)];
		b = rows[column_of(p)];
		row = a > b ? a : b;
		column = a > b ? b : a;
		first[row] = column < first[row] ? column : first[row];
	}
	for (uint32_t i = 0; i < n->unknowns; i++) {
		entries += i - first[i];
	}
	return entries;
}

static void graph_deinit(struct graph *g)
{
	free(g->start);
	free(g->neighbours);
	free(g->queue);
	free(g->found);
}

static int graph_init(struct graph *g, const struct normal *n)
{
	*g = (struct graph){ .nodes = n->unknowns, .effort = n->effort };
	g->start = calloc((size_t)n->unknowns + 2, sizeof(*g->start));
	g->neighbours = malloc((2 * n->pairs_used + 1) * sizeof(*g->neighbours));
	g->queue = malloc(((size_t)n->unknowns + 1) * sizeof(*g->queue));
	g->found = calloc((size_t)n->unknowns + 1, 1);
	if (!g->start || !g->neighbours || !g->queue || !g->found) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n->pairs_size; i++) {
		if (n->pairs[i].key != 0) {
			g->start[row_of(&n->pairs[i]) + 2]++;
			g->start[column_of(&n->pairs[i]) + 2]++;
		}
	}
	for (uint32_t i = 2; i < n->unknowns + 2; i++) {
		g->start[i] += g->start[i - 1];
	}
	for (size_t i = 0; i < n->pairs_size; i++) {
		const struct normal_pair *p = &n->pairs[i];

		if (p->key != 0) {
			g->neighbours[g->start[row_of(p) + 1]++] = column_of(p);
			g->neighbours[g->start[column_of(p) + 1]++] = row_of(p);
		}
	}
	return 0;
}

static size_t degree(const struct graph *g, uint32_t node)
{
	return g->start[node + 1] - g->start[node];
}

static int comes_before(const struct graph *g, uint32_t a, uint32_t b)
{
	size_t x = degree(g, a), y = degree(g, b);

	return x != y ? x < y : a < b;
}

/* Inserts a node into the queue, which is sorted from `from` on. Returns the number of writes. */
static size_t insert(struct graph *g, size_t from, size_t end, uint32_t node)
{
	size_t last = end;

	while (end > from && comes_before(g, node, g->queue[end - 1])) {
		g->queue[end] = g->queue[end - 1];
		end--;
	}
	g->queue[end] = node;
	return last - end + 1;
}

/* Queues all nodes that this node reaches, from queue[from] on. Returns the end of the queue. It
 * stops early when the effort is over, which order_rows() reports. */
static size_t search(struct graph *g, uint32_t node, size_t from)
{
	size_t end = from;

	g->queue[end++] = node;
	g->found[node] = 1;
	for (size_t at = from; at < end; at++) {
		uint32_t of = g->queue[at];
		size_t sorted_from = end, work = g->start[of + 1] - g->start[of];

		for (size_t i = g->start[of]; i < g->start[of + 1]; i++) {
			uint32_t next = g->neighbours[i];

			if (!g->found[next]) {
				g->found[next] = 1;
				work += insert(g, sorted_from, end++, next);
			}
		}
		if (effort_spend(g->effort, COST * (double)work)) {
			break;
		}
	}
	return end;
}

/* Searches again from the last node that a search finds, because that one is far from the first. */
static size_t search_from_afar(struct graph *g, uint32_t node, size_t from)
{
	size_t end = search(g, node, from);

	for (int i = 0; i < SEARCHES; i++) {
		uint32_t last = g->queue[end - 1];

		for (size_t at = from; at < end; at++) {
			g->found[g->queue[at]] = 0;
		}
		end = search(g, last, from);
	}
	return end;
}

/* Gives each node its row. Dense nodes get the last rows, and count as found already. */
static void number(struct graph *g, uint32_t *rows)
{
	double dense = DENSE * sqrt(g->nodes);
	uint32_t last = g->nodes, count;
	size_t end = 0;

	for (uint32_t i = g->nodes; i-- > 0;) {
		if ((double)degree(g, i) > dense) {
			g->found[i] = 1;
			rows[i] = --last;
		}
	}
	for (uint32_t i = 0; i < g->nodes; i++) {
		end = g->found[i] ? end : search_from_afar(g, i, end);
	}
	count = (uint32_t)end;
	for (uint32_t i = 0; i < count; i++) {
		rows[g->queue[i]] = count - 1 - i;
	}
}

int order_rows(const struct normal *n, uint32_t *rows)
{
	struct graph g;
	int r = graph_init(&g, n);

	if (r == 0) {
		number(&g, rows);
		r = effort_spend(n->effort, 0);
	}
	graph_deinit(&g);
	return r;
}
