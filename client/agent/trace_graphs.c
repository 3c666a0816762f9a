/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/trace_graphs.h"

#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/devices.h"
#include "client/agent/functions.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

/* A launch of a graph is noted like any other launch, and CUPTI reports its kernels when they have
 * ended. When the launch's batch is delivered, the kernels that have come take the launch's place,
 * with its correlation id, thread and NVTX ranges; later kernels follow in a batch of their own. So
 * instead of the launch its kernels count as seen, measured, filtered (by --kernel, which compares
 * the names of kernels) or dropped. If no kernel has come by then, the launch gives one record
 * without a time.
 *
 * Skipping and counting of launches (--skip, --count) happens earlier, and counts a graph as one
 * launch. */

enum {
	CROWD_PATIENCE_MS = 1,
	/* Launches without any kernel's record before graphs are traced whole, in a program whose
	 * graphs may be older than the capture. */
	UNSEEN_MAX = 4,
};

/* --- names --- */

/* The cache of functions belongs to the thread, and CUPTI has few threads. The address of the name
 * serves as handle, because functions_find() also compares the name. Kernels of one name may differ
 * between modules. */
static bool name_kernel(void *userdata, const char *name, struct launch *l,
			uint32_t static_shared_bytes, uint32_t registers)
{
	struct capture *c = userdata;
	struct function *f = functions_find(c, (CUfunction)name, l->context, name);
	uint32_t generation = c->intern.generation;

	if (!f) {
		return true; /* without an id the kernel is dropped */
	}
	if (f->id == 0 || f->generation != generation ||
	    f->static_shared_bytes != static_shared_bytes || f->registers != registers) {
		f->id = intern_function(&c->intern, name, static_shared_bytes, registers);
		f->generation = generation;
		f->static_shared_bytes = static_shared_bytes;
		f->registers = registers;
	}
	l->function = f->id;
	return f->selected;
}

static void on_crowd(void *userdata)
{
	struct capture *c = userdata;

	deliver_kick(&c->deliver, clock_now_ns() + CROWD_PATIENCE_MS * CLOCK_NS_PER_MS);
}

void trace_graphs_begin(struct capture *c)
{
	bool split = c->welcome.trace && !c->welcome.selection.whole_graphs;

	c->activity->name_kernel = split ? name_kernel : NULL;
	c->activity->on_crowd = split ? on_crowd : NULL;
	c->activity->graphs.counters = &c->counters;
}

/* --- telling --- */

static void add(struct capture *c, struct graph_kernels *s, const struct launch *l)
{
	if (array_make_room(&s->v, sizeof(*s->v), s->n, &s->max)) {
		s->v[s->n++] = *l;
	} else {
		atomic_fetch_add(&c->counters.dropped, 1);
	}
}

static int compare_starts(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Sorts the launches from `from` on by their start. */
static void sort(struct graph_kernels *s, size_t from)
{
	if (s->n > from) {
		qsort(s->v + from, s->n - from, sizeof(*s->v), compare_starts);
	}
}

static void add_kernels(struct capture *c, struct graph_kernels *s, struct graph_kernels list)
{
	size_t from = s->n;

	for (size_t i = 0; i < list.n; i++) {
		add(c, s, &list.v[i]);
	}
	graph_kernels_free(&list);
	sort(s, from);
}

/* CUPTI does not know the kernels of graphs that were made before the capture: traces whole graphs,
 * or tells the user why kernels are missing. If tracing is off, the user knows that already. */
static void note_unseen(struct capture *c)
{
	if (!c->late || !activity_is_started(c->activity) || c->trace.n_unseen == UNSEEN_MAX ||
	    ++c->trace.n_unseen < UNSEEN_MAX) {
		return;
	}
	if (!activity_want_whole_graphs(c->activity)) {
		deliver_notice(
			&c->deliver, GPUCTR_OK,
			"of some launches of CUDA graphs CUPTI tells no kernel, and they have no "
			"time: the graphs were made before the capture, have no kernels, or these "
			"end late",
			"Start the program with gpuctr-client, or record graphs as a whole: "
			"--graphs whole.");
		return;
	}
	deliver_notice(
		&c->deliver, GPUCTR_OK,
		"CUPTI does not tell of the kernels of CUDA graphs that the program has made "
		"before: graphs are recorded as a whole from now on",
		"Start the program with gpuctr-client, or let it make its graphs anew.");
}

/* Adds a launch of which no kernel has come. */
static void add_whole(struct capture *c, struct graph_kernels *s, struct launch *l)
{
	if (filter_chooses_kernels(&c->filter) && !filter_selects(&c->filter, "(CUDA graph)")) {
		activity_leave_out(c->activity, l);
		filter_give_back(&c->filter);
		l->fate = LAUNCH_FILTERED;
	} else if (l->clock == GPUCTR_CLOCK_NONE) {
		note_unseen(c);
	}
	add(c, s, l);
}

static void split(struct capture *c, struct graph_kernels *s, struct launch *l)
{
	struct graph_told told;

	if (l->kind != GPUCTR_LAUNCH_GRAPH || l->fate != LAUNCH_DONE) {
		add(c, s, l);
		return;
	}
	told = activity_take_graph(c->activity, l);
	if (told.n_came == 0) {
		add_whole(c, s, l);
		return;
	}
	if (told.kernels.n == 0) {
		filter_give_back(&c->filter);
	}
	add_kernels(c, s, told.kernels);
}

static bool has_graphs(const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		if (b->launches[i].kind == GPUCTR_LAUNCH_GRAPH) {
			return true;
		}
	}
	return false;
}

void trace_graphs_split(struct capture *c, struct batch *b)
{
	struct graph_kernels late, s = { 0 };

	if (!c->activity->name_kernel) {
		return;
	}
	late = activity_take_late(c->activity);
	if (late.n > 0 || has_graphs(b)) {
		for (size_t i = 0; i < b->n; i++) {
			split(c, &s, &b->launches[i]);
		}
		add_kernels(c, &s, late);
		free(b->launches);
		b->launches = s.v;
		b->n = s.n;
		b->room = s.max;
	}
}

void trace_graphs_flush(struct capture *c)
{
	struct graph_kernels late;
	struct batch *b;

	if (!c->activity->name_kernel) {
		return;
	}
	late = activity_take_late(c->activity);
	b = late.n > 0 ? deliver_new_batch(&c->deliver, late.n) : NULL;
	if (b) {
		sort(&late, 0);
		memcpy(b->launches, late.v, late.n * sizeof(*late.v));
		b->n = late.n;
		deliver_put(&c->deliver, b, 0);
	} else {
		atomic_fetch_add(&c->counters.dropped, late.n);
	}
	graph_kernels_free(&late);
}

void trace_graphs_finish(struct capture *c)
{
	if (c->activity->name_kernel) {
		activity_flush(c->activity);
	}
	trace_graphs_flush(c);
}

/* --- dropping --- */

/* Counts the launch's kernels as dropped. False: no kernel has come, so the launch itself counts.
 */
static bool leave_out_graph(struct capture *c, const struct launch *l)
{
	struct graph_told told = activity_take_graph(c->activity, l);

	for (size_t i = 0; i < told.kernels.n; i++) {
		activity_leave_out(c->activity, &told.kernels.v[i]);
	}
	atomic_fetch_add(&c->counters.dropped, graph_kernels_free(&told.kernels));
	return told.n_came > 0;
}

void trace_graphs_leave_out(struct capture *c, struct batch *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct launch *l = &b->launches[i];

		if (l->kind == GPUCTR_LAUNCH_GRAPH && c->activity->name_kernel &&
		    leave_out_graph(c, l)) {
			continue;
		}
		activity_leave_out(c->activity, l);
		b->launches[kept++] = *l;
	}
	b->n = kept;
}

void trace_graphs_end(struct capture *c)
{
	struct graph_kernels late = activity_take_late(c->activity);

	atomic_fetch_add(&c->counters.dropped, graph_kernels_free(&late));
}
