/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/rests.h"

#include <time.h>

#include "client/agent/activity_records.h"
#include "client/agent/capture.h"
#include "proto/base/clock.h"

/* A kernel's record costs a launch 1 us in CUPTI, and what CUPTI does with records in other threads
 * slows launches as well: a ResNet-18 whose launches take 25 us each by 4 to 16 % (H100, CUPTI
 * 2025.3). A program that keeps the GPU busy does not feel that, one that waits for its launches
 * does. So where a capture has joined such a program, tracing rests for up to three quarters of the
 * time. Steps recur: kernels that recur have their values from the steps that are traced.
 *
 * From the beginning of a rest on kernels run that have no record, and are unknown to whoever
 * divides samples among kernels: so each rest is told as a span of time. Behind its end run kernels
 * that were launched before it. On a stream they end before the first kernel that has a record, and
 * that one has waited for as long as launches run ahead of the GPU; other streams are given the
 * same time again.
 *
 * Of graphs that are made in a rest CUPTI never tells the kernels, and of those that are made while
 * one ends, some. So before the first graph is made the program's thread waits until tracing goes
 * on, and there is no rest any more. */

enum {
	COST_NS = 3000,	      /* of a launch, with a record */
	MAY_COST_PPM = 25000, /* of the program's time */
	BUSY_PERCENT = 90,    /* of the GPU: launches do not matter from here on */
	GOES_ON_MS = 240,     /* a tick of the delivering thread: no time is shorter */
	RESTS_MOST = 3,	      /* as many times as long */
	MARGIN_NS = 1000000,
	KERNELS_LEAST = 1000, /* which tell a rate */
	PREVENT_MS = 500,     /* the delivering thread may hang */
};

void rests_begin(struct capture *c)
{
	c->trace.rests.may = c->trace.may_leave && c->welcome.selection.may_rest;
}

static struct tally tally_of(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return v->tally;
}

static void tell(struct activity *v, const struct tally *t, uint64_t begin_ns, uint64_t end_ns)
{
	LOCK_SCOPE(&v->lock);
	records_add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_UNTRACED,
						 .device = t->device,
						 .start_ns = begin_ns,
						 .duration_ns = end_ns - begin_ns });
}

/* Of the time since the last rest all is known. Without a kernel since, the rest goes on. */
static void tell_last(struct capture *c, uint64_t until_ns)
{
	struct rests *r = &c->trace.rests;
	struct tally t = tally_of(c->activity);
	uint64_t end_ns;

	if (t.n > 0) {
		r->known = t;
	}
	if (r->stopped_ns == 0 || t.n == 0) {
		return;
	}
	end_ns = 2 * t.begin_ns - r->resumed_ns + MARGIN_NS;
	tell(c->activity, &t, r->stopped_ns, end_ns < until_ns ? end_ns : until_ns);
	r->stopped_ns = 0;
}

static void rest(struct capture *c)
{
	struct rests *r = &c->trace.rests;

	atomic_store(&r->resting, true);
	if (atomic_load(&r->are_over)) { /* who has just said so may have seen no rest */
		atomic_store(&r->resting, false);
		return;
	}
	r->rested_ns = clock_wall_ns();
	activity_trace(c->activity, false);
}

static void resume(struct capture *c)
{
	struct rests *r = &c->trace.rests;
	struct activity *v = c->activity;

	activity_flush(v);
	tell_last(c, r->rested_ns);
	activity_trace(v, true);
	r->resumed_ns = clock_wall_ns();
	r->stopped_ns = r->stopped_ns ? r->stopped_ns : r->rested_ns;
	atomic_store(&r->resting, false);
	LOCK_SCOPE(&v->lock);
	v->tally = (struct tally){ .since_ns = r->resumed_ns };
}

/* How long tracing rests after each GOES_ON_MS, in as many of them; 0: it need not. */
static unsigned count_rests(const struct tally *t)
{
	uint64_t span_ns = t->end_ns - t->begin_ns, cost_ns = t->n * COST_NS;
	uint64_t may_ns = span_ns / 1000000 * MAY_COST_PPM + 1, n;

	if (t->n < KERNELS_LEAST || t->several || cost_ns <= may_ns ||
	    t->busy_ns > span_ns / 100 * BUSY_PERCENT) {
		return 0;
	}
	n = (cost_ns - may_ns + may_ns / 2) / may_ns;
	return n < RESTS_MOST ? (unsigned)n : RESTS_MOST;
}

static bool may_rest(struct capture *c)
{
	return c->trace.rests.may && atomic_load(&c->trace.launches) == LAUNCHES_UNWATCHED &&
	       !activity_has_graphs(c->activity) && !atomic_load(&c->trace.rests.are_over) &&
	       !stream_captures_any(&c->stream_captures);
}

void rests_look(struct capture *c)
{
	struct rests *r = &c->trace.rests;
	uint64_t now = clock_now_ns();
	struct tally t;
	unsigned n;

	if (!capture_is_measuring(c)) {
		return; /* tracing is turned off once, at the end */
	}
	if (r->resting && (now >= r->until_ns || !may_rest(c))) {
		resume(c);
		r->until_ns = now + GOES_ON_MS * CLOCK_NS_PER_MS;
	} else if (!r->resting && now >= r->until_ns && may_rest(c)) {
		t = tally_of(c->activity);
		t = t.n < KERNELS_LEAST ? r->known : t;
		n = count_rests(&t);
		if (n > 0) {
			r->until_ns = now + n * GOES_ON_MS * CLOCK_NS_PER_MS;
			rest(c);
		}
	}
}

void rests_prevent(struct capture *c)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };
	struct rests *r = &c->trace.rests;
	uint64_t by_ns;

	if (!r->may) {
		return;
	}
	by_ns = clock_now_ns() + PREVENT_MS * CLOCK_NS_PER_MS;
	atomic_store(&r->are_over, true);
	if (atomic_load(&r->resting)) {
		deliver_kick(&c->deliver, by_ns);
	}
	while (atomic_load(&r->resting) && !atomic_load(&r->gave_up) && capture_is_measuring(c)) {
		if (clock_now_ns() >= by_ns && !atomic_exchange(&r->gave_up, true)) {
			deliver_notice(&c->deliver, GPUCTR_E_PROFILER,
				       "a CUDA graph was made while tracing rested: kernels of it "
				       "may be in no record",
				       "Capture again: graphs that are made already are recorded "
				       "as a whole.");
		}
		nanosleep(&pause, NULL);
	}
}

void rests_end(struct capture *c)
{
	struct rests *r = &c->trace.rests;
	uint64_t now_ns = clock_wall_ns();

	if (!r->may) {
		return;
	}
	tell_last(c, r->resting ? r->rested_ns : now_ns);
	if (r->resting || r->stopped_ns != 0) {
		tell(c->activity, &r->known, r->stopped_ns ? r->stopped_ns : r->rested_ns, now_ns);
	}
}
