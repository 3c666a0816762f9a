/* SPDX-License-Identifier: Apache-2.0 */

/* Finds a record's labels, and the leaf with these labels by one look-up in a hash table. Labels
 * are interned, so that equal labels are the same pointer. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/groups_internal.h"
#include "proto/base/array.h"

/* --- dimensions of a record ------------------------------------------------------------------ */

static const char *find_kernel(struct groups *g, const struct gpuctr_record *record)
{
	unsigned kernel = record->kernel ? record->kernel->id : 0;
	size_t slot = (kernel + record->process * 97u) % GROUPS_SLOTS;

	if (!g->kernels[slot].name || g->kernels[slot].process != record->process ||
	    g->kernels[slot].kernel != kernel) {
		g->kernels[slot].process = record->process;
		g->kernels[slot].kernel = kernel;
		g->kernels[slot].name =
			texts_add_string(&g->texts, record->kernel ? record->kernel->name : "");
	}
	return g->kernels[slot].name;
}

static const char *number_text(struct groups *g, const char *what, uint64_t number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s%llu", what, (unsigned long long)number);

	return texts_add(&g->texts, text, (size_t)n);
}

static const char *launch_shape(struct groups *g, const struct gpuctr_record *r)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "grid %ux%ux%u block %ux%ux%u", r->grid[0], r->grid[1],
			 r->grid[2], r->block[0], r->block[1], r->block[2]);

	return texts_add(&g->texts, text, (size_t)n);
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
		return find_kernel(g, record);
	case KEY_NVTX:
		return nests ? (const void *)what->scope : what->scope ? what->scope->path : "";
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
		return what->op ? what->op->sizes : launch_shape(g, record);
	case KEY_DIR:
		return attribution_direction_name(what->direction);
	case KEY_STEP:
		return what->step;
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
	case KEY_CALL_SITE:
		return g->site ? g->site : "";
	case KEY_CAPTURE:
	case KEY_END:
		break;
	}
	return g->capture;
}

bool groups_knows_of_strata(enum key key)
{
	return key == KEY_KERNEL || key == KEY_DEVICE || key == KEY_PROCESS || key == KEY_CAPTURE ||
	       key == KEY_RANK || key == KEY_TASK || key == KEY_HOST;
}

void groups_dims_of_stratum(struct groups *g, const struct gpuctr_stratum *s, const void **dims)
{
	const struct groups_process *p = groups_find_process(g, s->process);
	const struct gpuctr_record like = { .process = s->process,
					    .kernel = s->kernel,
					    .device = s->device };

	for (unsigned i = 0; i < g->keys.n; i++) {
		enum key key = g->keys.keys[i];

		if (key == KEY_KERNEL && !s->kernel) {
			dims[i] = texts_add_string(&g->texts, "(several kernels)");
		} else if (groups_knows_of_strata(key)) {
			dims[i] = find_dim(g, &like, NULL, p, i);
		} else {
			dims[i] = (int)i == g->keys.nested ? NULL : texts_add_string(&g->texts, "");
		}
	}
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
};

static bool is_leaf(const void *item, const void *key)
{
	const struct wanted_leaf *w = key;

	return memcmp(((const struct leaf *)item)->dims, w->dims, w->n * sizeof(*w->dims)) == 0;
}

struct leaf *groups_find_leaf(struct groups *g, const void *const *dims)
{
	const struct wanted_leaf wanted = { dims, g->keys.n };
	uint64_t hash = groups_hash(dims, g->keys.n);
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
	g->leaves[g->n_leaves++] = leaf;
	return leaf;
}

void groups_dims(struct groups *g, const struct gpuctr_record *record,
		 const struct attribution *what, const void **ret)
{
	const struct groups_process *p = groups_find_process(g, record->process);

	for (unsigned i = 0; i < g->keys.n; i++) {
		ret[i] = find_dim(g, record, what, p, i);
	}
}

int groups_labels(struct groups *g, const struct gpuctr_record *record,
		  const struct attribution *what, const char **ret)
{
	const void *dims[KEYS_MAX];

	groups_dims(g, record, what, dims);
	for (unsigned i = 0; i < g->keys.n; i++) {
		ret[i] = dims[i];
		if (!ret[i]) {
			return -ENOMEM;
		}
	}
	return 0;
}
