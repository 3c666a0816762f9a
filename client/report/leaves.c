/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the labels of a launch, and the leaf with these labels. Labels are interned, so that equal
 * labels are the same pointer. The results are kept by the launch's number: for its next records
 * only the step is looked up, if the step is a key. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "client/report/names.h"
#include "proto/base/array.h"
#include "proto/base/site_name.h"

/* Start/end ranges in the label of a record; further ranges are left out. */
enum { RANGES_MAX = 16 };

/* --- dimensions of a record ------------------------------------------------------------------ */

static const char *kernel_text(struct groups *g, const struct gpuctr_record *record)
{
	return texts_add_string(&g->texts, record->kernel ? record->kernel->name : "");
}

static const char *number_text(struct groups *g, const char *what, uint64_t number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s%llu", what, (unsigned long long)number);

	return texts_add(&g->texts, text, (size_t)n);
}

/* Launch shapes for hints; further shapes share one row, which bounds the memory. */
enum { SHAPES_MAX = 1 << 14 };

static const char *launch_shape(struct groups *g, const struct gpuctr_record *r, bool any)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "grid %ux%ux%u block %ux%ux%u", r->grid[0], r->grid[1],
			 r->grid[2], r->block[0], r->block[1], r->block[2]);
	const char *known = any || g->n_leaves < SHAPES_MAX
				    ? texts_add(&g->texts, text, (size_t)n)
				    : texts_find(&g->texts, text, (size_t)n);

	return known || any ? known : GROUPS_OTHER_SHAPES;
}

/* "iteration 12" */
static const char *step_text(struct groups *g, const struct attribution *what)
{
	CLEAN_BUF struct buf b = { 0 };

	if (!g->step.label || g->step.name != what->step || g->step.number != what->step_number) {
		site_name_format(&b, what->step, "", SITE_NUMBER_STEP, what->step_number);
		g->step.name = what->step;
		g->step.number = what->step_number;
		g->step.label = b.failed ? NULL : texts_add_string(&g->texts, buf_string(&b));
	}
	return g->step.label;
}

/* "io:load; training". The labels are sorted, whichever range was opened first. */
static const char *open_ranges(struct groups *g, const struct gpuctr_record *record)
{
	const char *labels[RANGES_MAX];
	size_t n = record->n_active < RANGES_MAX ? record->n_active : RANGES_MAX;
	CLEAN_BUF struct buf b = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct gpuctr_site *site = record->active[i];

		buf_clear(&b);
		buf_printf(&b, "%s%s%s", site->domain, *site->domain ? ":" : "", site->name);
		labels[i] = texts_add_string(&g->texts, buf_string(&b));
		if (b.failed || !labels[i]) {
			return NULL;
		}
	}
	n = names_sort_once(labels, n);
	buf_clear(&b);
	for (size_t i = 0; i < n; i++) {
		buf_text(&b, i > 0 ? "; " : "");
		buf_text(&b, labels[i]);
	}
	return b.failed ? NULL : texts_add_string(&g->texts, buf_string(&b));
}

static const char *process_text(struct groups *g, const struct groups_process *p,
				const struct gpuctr_record *record)
{
	return p ? p->label : number_text(g, "process ", record->process);
}

/* The record's label for a key; for the key that nests, its scope. */
static const void *find_dim(struct groups *g, const struct gpuctr_record *record,
			    const struct attribution *what, const struct groups_process *p,
			    unsigned key)
{
	bool nests = (int)key == g->keys.nested;
	const struct groups_device *device;

	switch (g->keys.keys[key]) {
	case KEY_KERNEL:
		return kernel_text(g, record);
	case KEY_NVTX:
		return nests ? (const void *)what->scope : what->scope ? what->scope->path : "";
	case KEY_RANGE:
		return open_ranges(g, record);
	case KEY_OP:
		return nests	  ? (const void *)(what->op ? what->op->chain : NULL)
		       : what->op ? what->op->name
				  : "";
	case KEY_LAYER:
		return !nests		   ? what->layer
		       : *what->layer == 0 ? NULL
		       : what->scope && what->scope->layer == what->layer
			       ? (const void *)what->scope
			       : what->forward;
	case KEY_SHAPE:
		return what->op ? what->op->sizes : launch_shape(g, record, true);
	case KEY_DIR:
		return attribution_direction_name(what->direction);
	case KEY_STEP:
		return step_text(g, what);
	case KEY_DEVICE:
		device = groups_find_device(p, record->device);
		return device ? device->label : number_text(g, "device ", record->device);
	case KEY_PROCESS:
		return process_text(g, p, record);
	case KEY_STREAM:
		return number_text(g, "stream ", record->stream);
	case KEY_THREAD:
		return record->thread != 0 ? number_text(g, "thread ", record->thread)
					   : "unknown thread";
	case KEY_GRAPH:
		return record->kind == GPUCTR_LAUNCH_GRAPH_KERNEL
			       ? number_text(g, "graph ", record->graph)
			       : "";
	case KEY_RANK:
		return p ? p->rank : "";
	case KEY_TASK:
		return p ? p->task : "";
	case KEY_HOST:
		return g->host;
	case KEY_GRID:
		return record->kind == GPUCTR_LAUNCH_GRAPH ? "" : launch_shape(g, record, false);
	case KEY_CAPTURE:
	case KEY_END:
		break;
	}
	return g->capture;
}

/* --- leaves ---------------------------------------------------------------------------------- */

uint64_t groups_hash(const void *const *dims, unsigned n)
{
	uint64_t hash = n;

	for (unsigned i = 0; i < n; i++) {
		hash = map_mix(hash, (uintptr_t)dims[i]);
	}
	return hash;
}

struct wanted_leaf {
	const void *const *dims;
	unsigned n;
	const struct kind *kind;
};

static bool is_leaf(const void *item, const void *key)
{
	const struct wanted_leaf *w = key;
	const struct leaf *leaf = item;

	return leaf->kind == w->kind && memcmp(leaf->dims, w->dims, w->n * sizeof(*w->dims)) == 0;
}

static struct leaf *find_leaf(struct groups *g, const void *const *dims, struct kind *kind)
{
	const struct wanted_leaf wanted = { dims, g->keys.n, kind };
	uint64_t hash = map_mix(groups_hash(dims, g->keys.n), (uintptr_t)kind);
	struct leaf *leaf = map_find(&g->known_leaves, hash, is_leaf, &wanted);

	if (leaf) {
		return leaf;
	}
	if (!array_make_room(&g->leaves, sizeof(*g->leaves), g->n_leaves, &g->max_leaves)) {
		return NULL;
	}
	leaf = calloc(1, sizeof(*leaf));
	if (!leaf) {
		return NULL;
	}
	leaf->stats = calloc(g->n_measures, sizeof(*leaf->stats));
	leaf->timed = calloc(g->n_measures, sizeof(*leaf->timed));
	if (!leaf->stats || !leaf->timed || map_add(&g->known_leaves, hash, leaf)) {
		free(leaf->stats);
		free(leaf->timed);
		free(leaf);
		return NULL;
	}
	memcpy(leaf->dims, dims, g->keys.n * sizeof(*dims));
	leaf->kind = kind;
	g->leaves[g->n_leaves++] = leaf;
	return leaf;
}

/* --- launches -------------------------------------------------------------------------------- */

static void find_device(struct groups_launch *l, const struct groups_process *p,
			const struct gpuctr_record *record)
{
	double blocks = (double)record->grid[0] * record->grid[1] * record->grid[2];

	l->device = groups_find_device(p, record->device);
	l->is_small = l->device && record->kind != GPUCTR_LAUNCH_GRAPH &&
		      blocks < l->device->multiprocessors;
}

/* is_known: all but the step is known already. False: out of memory. */
static bool find_launch(struct groups *g, struct groups_launch *l,
			const struct gpuctr_record *record, const struct attribution *what,
			bool is_known)
{
	const struct groups_process *p = is_known ? NULL : groups_find_process(g, record->process);
	struct kind *kind = is_known ? l->leaf->kind : NULL;

	for (unsigned i = 0; i < g->keys.n; i++) {
		if (!is_known || g->keys.keys[i] == KEY_STEP) {
			l->dims[i] = find_dim(g, record, what, p, i);
		}
		if (!l->dims[i] && (int)i != g->keys.nested) {
			return false;
		}
	}
	if (!is_known) {
		find_device(l, p, record);
	}
	if (!is_known && g->takes_turns) {
		const char *kernel = kernel_text(g, record);

		kind = kernel ? kinds_find(g, record, kernel) : NULL;
	}
	l->leaf = kind || !g->takes_turns ? find_leaf(g, l->dims, kind) : NULL;
	return l->leaf != NULL;
}

const struct groups_launch *groups_find(struct groups *g, const struct gpuctr_record *record,
					const struct attribution *what)
{
	static const struct attribution none = { .layer = "", .step = "", .seq = -1 };
	struct groups_launch *l = &g->launches[(what ? what->launch : 0) % GROUPS_LAUNCHES];
	bool is_known;

	what = what ? what : &none;
	is_known = what->launch && l->launch == what->launch && l->announced == g->announced &&
		   l->graph == record->graph;
	if (is_known && (l->step == what->step_number || !g->by_step)) {
		return l;
	}
	l->launch = 0;
	if (!find_launch(g, l, record, what, is_known)) {
		return NULL;
	}
	l->launch = what->launch;
	l->announced = g->announced;
	l->graph = record->graph;
	l->step = what->step_number;
	l->leaf->op = l->leaf->op ? l->leaf->op : what->op;
	return l;
}
