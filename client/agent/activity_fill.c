/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "client/agent/activity_flush.h"
#include "proto/base/clock.h"

/* Gives a batch's launches their times, which CUPTI's records have brought into spans and graphs.
 *
 * If launches run ahead, no thread of the program waits for records, and launches must stay fast.
 * Each buffer that CUPTI returns, and each look for new records, slows the launching threads: a
 * ResNet-18 bound by launches (25 us each) by 20 % with buffers of 64 KiB and a look every 2 ms, by
 * 11 % with one of the two changed, by 8 % with buffers of 1 MiB and a look every 30 ms, of which
 * CUPTI itself takes 7 (H100, CUPTI 2025.3). If many records name wrong launches (activity.c), the
 * wait for missing ones is shorter. */

enum {
	PAUSE_MS = 1,
	PATIENCE_AHEAD_LEAST_MS = 20,
	PAUSE_AHEAD_MS = 30,
	FLUSH_AHEAD_MS = 500,
	PAUSE_ENDING_MS = 2, /* while the program or the client waits for the last records */
	FLUSH_ENDING_MS = 50,
	PAUSE_GRAPHS_MS = 20,
	REPEATS_PATIENCE_MS = 600, /* the GPU may be behind, and a buffer not full */
};

static bool is_pending(const struct launch *l)
{
	return l->fate == LAUNCH_DONE && l->clock == GPUCTR_CLOCK_NONE &&
	       l->kind != GPUCTR_LAUNCH_GRAPH_KERNEL && /* records of these are complete */
	       l->correlation != 0 && !l->timeless;
}

/* With the lock. False: the launch has no record yet. */
static bool take_span(struct activity *v, struct launch *l)
{
	struct span span;

	if (!spans_take(&v->spans, l->correlation, &span)) {
		return false;
	}
	l->timeless = span.is_shared;
	if (!span.is_shared) {
		l->start_ns = span.begin_ns;
		l->duration_ns = span.end_ns - span.begin_ns;
		l->clock = GPUCTR_CLOCK_GPU;
	}
	return true;
}

/* Result of a look at a batch's launches that have no time yet. */
struct seen {
	size_t missing;	 /* launches that have no record yet */
	size_t open;	 /* graphs of which more kernels may come */
	uint64_t n_came; /* kernels of graphs */
};

/* With the lock. */
static void look_at(struct activity *v, struct launch *l, bool split, struct seen *s)
{
	enum graph_here here;

	if (!split) {
		s->missing += !take_span(v, l);
	} else {
		here = graphs_look(&v->graphs, l->correlation, &s->n_came);
		s->missing += here == GRAPH_NOTHING;
		s->open += here == GRAPH_SOME;
	}
}

/* graphs: only launches of graphs, else only others. split: graphs are reported as kernels. */
static struct seen look(struct activity *v, struct batch *b, bool graphs, bool split)
{
	struct seen seen = { 0 };

	for (size_t i = 0; i < b->n;) {
		size_t end = b->n - i > ACTIVITY_AT_ONCE ? i + ACTIVITY_AT_ONCE : b->n;

		LOCK_SCOPE(&v->lock);
		for (; i < end; i++) {
			struct launch *l = &b->launches[i];

			if (is_pending(l) && (l->kind == GPUCTR_LAUNCH_GRAPH) == graphs) {
				look_at(v, l, split, &seen);
			}
		}
	}
	return seen;
}

/* Gives a graph of which only copies or fills have come their time. */
static void take_copied(struct activity *v, struct launch *l)
{
	const struct graph_launch *g = graphs_find(&v->graphs, l->correlation);

	if (g && g->n_came == 0 && g->copied) {
		l->start_ns = g->begin_ns;
		l->duration_ns = g->end_ns - g->begin_ns;
		l->clock = GPUCTR_CLOCK_GPU;
	}
}

/* Stops waiting for the missing records; kernels of graphs may still come late. */
static void give_up_rest(struct activity *v, const struct batch *b)
{
	LOCK_SCOPE(&v->lock);
	for (size_t i = 0; i < b->n; i++) {
		struct launch *l = &b->launches[i];

		if (is_pending(l) && l->kind == GPUCTR_LAUNCH_GRAPH && !v->whole) {
			take_copied(v, l);
		}
		if (l->clock == GPUCTR_CLOCK_NONE) {
			spans_forget(&v->spans, l->correlation);
		}
	}
}

struct pace {
	unsigned pause_ms, flush_ms; /* between two looks, and between two flushes */
};

static struct pace pace_of(const struct activity *v, bool split)
{
	return split		       ? (struct pace){ PAUSE_GRAPHS_MS, PAUSE_GRAPHS_MS }
	       : !v->patient	       ? (struct pace){ PAUSE_MS, PAUSE_MS }
	       : activity_is_ending(v) ? (struct pace){ PAUSE_ENDING_MS, FLUSH_ENDING_MS }
				       : (struct pace){ PAUSE_AHEAD_MS, FLUSH_AHEAD_MS };
}

/* Are the missing records to be given up, because many records name wrong launches? Not before
 * REPEATS_PATIENCE_MS after the last launch without one: records of other threads may still come.
 */
static bool is_hopeless(struct activity *v, const struct batch *b)
{
	uint64_t launched_ns = 0; /* Unix time of the last launch without a record */

	if (activity_repeated(v).n == 0) {
		return false;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct launch *l = &b->launches[i];

		if (is_pending(l) && l->start_ns > launched_ns) {
			launched_ns = l->start_ns;
		}
	}
	return clock_wall_ns() > launched_ns + REPEATS_PATIENCE_MS * CLOCK_NS_PER_MS;
}

static void pause_for(struct activity *v, unsigned ms)
{
	nanosleep(&(struct timespec){ 0, ms * CLOCK_NS_PER_MS }, NULL);
	if (v->on_wait) {
		v->on_wait(v->userdata);
	}
}

/* Waits, until until_ns at most, for the records of all kernels outside graphs, or of all graphs.
 * For a graph's kernels it waits until as many have come as at the last launch, or no more come. A
 * graph may have several records, so graphs are collected after the kernels. Returns how many
 * launches have no record. */
static size_t collect(struct activity *v, struct batch *b, bool graphs, uint64_t until_ns)
{
	bool split = graphs && !v->whole, settled = false, hopeless = false;
	struct seen before, now = look(v, b, graphs, split);
	unsigned unflushed_ms = 0;

	/* If launches run ahead, CUPTI returns buffers by itself as they fill up. */
	while (now.missing + now.open > 0 && clock_now_ns() < until_ns && !hopeless && !settled &&
	       !(split && activity_is_crowded(v))) {
		struct pace pace = pace_of(v, split);

		pause_for(v, pace.pause_ms);
		unflushed_ms += pace.pause_ms;
		hopeless = !split && is_hopeless(v, b);
		if (unflushed_ms >= pace.flush_ms || hopeless) {
			unflushed_ms = 0;
			activity_flush_quietly(v);
		}
		before = now;
		now = look(v, b, graphs, split);
		settled = now.missing == 0 && now.n_came == before.n_came;
	}
	if (now.missing > 0 && v->patient && !hopeless) {
		activity_flush_forced(v);
		now = look(v, b, graphs, split);
	}
	return now.missing;
}

/* Records that CUPTI drops or gives to another user of CUPTI never come, so later batches wait for
 * a shorter time. */
static unsigned next_patience(const struct activity *v, bool missing)
{
	unsigned half = v->patience_ms / 2;

	if (!missing) {
		return v->patient ? ACTIVITY_PATIENCE_AHEAD_MS : ACTIVITY_PATIENCE_MS;
	}
	return v->patient && half < PATIENCE_AHEAD_LEAST_MS ? PATIENCE_AHEAD_LEAST_MS : half;
}

void activity_fill(struct activity *v, struct batch *b)
{
	uint64_t until_ns;
	size_t missing, kernels;

	if (!v->spans.v) {
		return;
	}
	until_ns = clock_now_ns() + v->patience_ms * CLOCK_NS_PER_MS;
	kernels = missing = collect(v, b, false, until_ns);
	missing += collect(v, b, true, until_ns);
	give_up_rest(v, b);
	activity_look_for_others(v, kernels > 0, OTHERS_BATCHES);
	v->patience_ms = next_patience(v, missing > 0 && activity_repeated(v).n == 0);
}
