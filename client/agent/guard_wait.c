/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/guard_wait.h"

#include <stddef.h>
#include <time.h>

#include "client/agent/capture.h"
#include "proto/base/clock.h"

/* To wait, a thread asks the driver again and again, with a limit (head of guard.c).
 *
 * After a wait in vain for a kernel, an event is recorded behind the kernel. If a later launch
 * finds the event passed at its first query, the kernel ended while the program ran, and the
 * program may have released it. If it passes while a launch waits, the kernel has ended by itself.
 */

enum { WAITS = 3, SPIN_US = 200, PAUSE_US = 50 };

#define MOMENT_NS (400 * UINT64_C(1000))
#define MOMENT_WITHIN_CUPTI_NS (20 * CLOCK_NS_PER_MS) /* if push and pop wait */
#define SETTLES_NS (100 * UINT64_C(1000))    /* until the CPU sees that a kernel has ended */
#define KNOWN_MOST_NS (16 * CLOCK_NS_PER_MS) /* limit derived from other functions */
#define LONG_NS (250 * CLOCK_NS_PER_MS)

/* --- suspects --- */

struct suspect *suspects_find(struct suspects *l, uintptr_t work)
{
	for (size_t i = 0; i < SUSPECTS_MAX; i++) {
		uintptr_t found = atomic_load(&l->v[i].work);

		if (found == work || found == 0) {
			return found == work && work != 0 ? &l->v[i] : NULL;
		}
	}
	return NULL;
}

/* Makes an entry. NULL: there is no room. */
static struct suspect *note_suspect(struct suspects *l, uintptr_t work)
{
	for (size_t i = 0; work != 0 && i < SUSPECTS_MAX; i++) {
		uintptr_t found = 0;

		if (atomic_compare_exchange_strong(&l->v[i].work, &found, work) || found == work) {
			return &l->v[i];
		}
	}
	return NULL;
}

/* A kernel ended while a launch waited for it, so not because the launching thread released it. */
static void ended_by_itself(struct suspects *l, uintptr_t work, uint64_t takes_ns)
{
	struct suspect *e = note_suspect(l, work);

	if (e) {
		atomic_store(&e->in_vain, 0);
	}
	if (e && takes_ns > atomic_load(&e->takes_ns)) {
		atomic_store(&e->takes_ns, takes_ns);
	}
}

/* A kernel ended after a launch had waited for it in vain. alone: it ended before any other stream
 * got work, so it does not wait for later launches. */
static void ended_later(struct suspects *l, uintptr_t work, bool alone)
{
	struct suspect *e = note_suspect(l, work);

	if (e && alone) {
		atomic_fetch_add(&e->proofs, 1);
	} else if (e) {
		atomic_store(&e->proofs, 0);
		atomic_fetch_add(&e->in_vain, 1);
	}
}

/* --- waiting --- */

bool guard_wait_is_wide(const struct capture *c)
{
	return atomic_load(&c->n_contexts) > 1;
}

bool guard_wait_may_ask(const struct capture *c)
{
	return !stream_captures_any(&c->stream_captures);
}

bool guard_wait_is_done(struct capture *c, struct ranges *r, CUstream only, CUstream except)
{
	if (only && only != CU_STREAM_PER_THREAD) {
		return streams_is_idle(&r->guard.streams, c->profiler, r->context, only);
	}
	return streams_are_idle(&r->guard.streams, c->profiler, r->context, except);
}

void guard_wait_pause(uint64_t since_ns)
{
	struct timespec t = { 0, PAUSE_US * 1000L };

	if (clock_now_ns() - since_ns > SPIN_US * UINT64_C(1000)) {
		nanosleep(&t, NULL);
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What a thread has seen during its wait. */
struct wait {
	uint64_t begin_ns; /* beginning of the wait */
	uint64_t asked_ns; /* last time when the awaited work had not ended */
	uint64_t moved_ns; /* last time when the GPU showed progress */
	uint64_t gap_ns;   /* longest time between two signs of progress */
	uint64_t first_ns; /* time to the first mark, before which are many launches */
	unsigned mark;	   /* the batch's first mark that the GPU has not passed */
	size_t busy;	   /* number of busy streams */
};

static bool pass_marks(struct capture *c, const struct guard *g, unsigned *at)
{
	unsigned before = *at;

	while (*at < g->n_marks && c->profiler->cuEventQuery(g->marks[*at]) == CUDA_SUCCESS) {
		++*at;
	}
	return *at != before;
}

static struct wait begin_wait(struct capture *c, struct guard *g)
{
	struct wait s = { .begin_ns = clock_now_ns() };

	s.asked_ns = s.moved_ns = s.begin_ns;
	pass_marks(c, g, &s.mark);
	s.busy = streams_count_busy(&g->streams);
	return s;
}

/* Notes that work ended while a launch waited for it. */
static void note_moved(struct capture *c, uint64_t after_ns)
{
	if (after_ns > atomic_load(&c->patience.moves_ns)) {
		atomic_store(&c->patience.moves_ns, after_ns);
	}
}

bool guard_wait_make_event(struct capture *c, CUevent *event)
{
	if (!*event && c->profiler->cuEventCreate(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		*event = NULL;
	}
	return *event != NULL;
}

void guard_wait_watch(struct capture *c, struct ranges *r, uintptr_t work, CUstream stream,
		      bool waited)
{
	struct guard *g = &r->guard;
	struct awaited *a = &g->awaited;

	if (!guard_wait_may_ask(c) || !guard_wait_make_event(c, &a->end)) {
		return;
	}
	a->work = work;
	a->since_ns = clock_now_ns();
	a->waited = waited;
	a->is_alone = g->holds && work == g->held.work && !c->passes.may_block[r->measured_pass];
	a->is_set = streams_record(&g->streams, c->profiler, r->context, stream, a->end);
}

/* True: the awaited work has ended. s: the caller's wait; NULL: the caller has not waited. */
static bool look_at_awaited(struct capture *c, struct guard *g, const struct wait *s)
{
	struct awaited *a = &g->awaited;

	if (!a->is_set || c->profiler->cuEventQuery(a->end) == CUDA_ERROR_NOT_READY) {
		return false;
	}
	a->is_set = false;
	if (s && s->asked_ns - s->begin_ns > SETTLES_NS) {
		ended_by_itself(&c->suspects, a->work, s->asked_ns - a->since_ns);
	} else if (!s && a->waited) {
		ended_later(&c->suspects, a->work,
			    a->is_alone && !g->several && !atomic_load(&g->elsewhere));
		g->in_vain = 0;
	}
	return true;
}

/* Has the GPU shown progress since the last call of this function? */
static bool has_moved(struct capture *c, struct guard *g, struct wait *s)
{
	size_t busy = streams_count_busy(&g->streams);
	bool moved = pass_marks(c, g, &s->mark);

	moved = look_at_awaited(c, g, s) || moved || busy < s->busy;
	s->busy = busy;
	return moved;
}

/* Is the GPU still before the batch's first mark? Many launches precede that mark. */
static bool is_before_marks(const struct guard *g, const struct wait *s)
{
	return s->mark == 0 && g->n_marks > 0;
}

/* May the wait go on? Launches before the first mark may take as long as gate_patience_ns(). */
static bool is_patient(struct capture *c, const struct guard *g, const struct wait *s,
		       CUstream only, uint64_t limit_ns)
{
	uint64_t waited_ns = clock_now_ns() - s->moved_ns;

	limit_ns = !only && is_before_marks(g, s) ? gate_patience_ns(&c->patience)
						  : most(limit_ns, s->first_ns);
	return waited_ns < limit_ns && capture_is_measuring(c);
}

/* Counts time only up to the last query that found work: the thread may have had no CPU since. */
static void note_look(struct capture *c, struct guard *g, struct wait *s, uint64_t now_ns,
		      bool done)
{
	uint64_t *longest_ns = is_before_marks(g, s) ? &s->first_ns : &s->gap_ns;

	if (has_moved(c, g, s) || done) {
		*longest_ns = s->asked_ns > s->moved_ns
				      ? most(*longest_ns, s->asked_ns - s->moved_ns)
				      : *longest_ns;
		s->moved_ns = clock_now_ns();
	}
	s->asked_ns = now_ns;
}

static bool wait_patiently(struct capture *c, struct ranges *r, CUstream only, CUstream except,
			   uint64_t limit_ns, struct wait *s)
{
	uint64_t waited_ns, now_ns;
	bool done = false;

	while (!done && is_patient(c, &r->guard, s, only, limit_ns)) {
		guard_wait_pause(s->begin_ns);
		now_ns = clock_now_ns();
		done = guard_wait_is_done(c, r, only, except);
		note_look(c, &r->guard, s, now_ns, done);
	}
	/* The process may have been stopped during the wait: so the thread queries once more, and
	 * spends no more than the limit. */
	if (done || (capture_is_measuring(c) && guard_wait_is_done(c, r, only, except))) {
		return true;
	}
	waited_ns = clock_now_ns() - s->moved_ns;
	gate_spend(&c->patience, waited_ns < limit_ns ? waited_ns : limit_ns);
	return false;
}

/* Marks a launch whose kernel may wait for this thread, because the kernel's time then contains the
 * thread's wait. n: number of the launch in the batch, from 1; 0: none. */
static void spoil(struct ranges *r, size_t n)
{
	struct batch *b = r->state == RANGES_STARTED ? r->batch : NULL;

	if (b && n > 0 && n <= b->n && b->launches[n - 1].fate == LAUNCH_DONE) {
		b->launches[n - 1].fate = LAUNCH_DISTURBED;
	}
}

/* After a wait. A kernel that guard.c believes to end without later launches may still wait for the
 * CPU. A kernel that has ended meanwhile did not wait for this thread. */
static void spoil_doubtful(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (g->doubtful > 0 && !guard_wait_is_done(c, r, g->last, NULL)) {
		spoil(r, g->doubtful);
	}
	g->doubtful = 0;
}

bool guard_wait_for(struct capture *c, struct ranges *r, CUstream only, CUstream except,
		    uint64_t limit_ns)
{
	struct wait s;
	bool done;

	if (guard_wait_is_done(c, r, only, except)) {
		return true;
	}
	if (limit_ns == 0) {
		return false;
	}
	s = begin_wait(c, &r->guard);
	done = wait_patiently(c, r, only, except, limit_ns, &s);
	spoil_doubtful(c, r);
	if (!done && s.mark < r->guard.n_marks) {
		spoil(r, r->guard.marked[s.mark]); /* the kernel that runs without progress */
	}
	note_moved(c, s.gap_ns);
	return done;
}

uint64_t guard_wait_limit_ns(struct capture *c, uint32_t pass, uintptr_t work)
{
	const struct suspect *e = suspects_find(&c->suspects, work);
	uint64_t limit_ns = c->passes.may_block[pass] ? MOMENT_WITHIN_CUPTI_NS : MOMENT_NS;

	if (suspect_is_certain(e)) {
		return 0;
	}
	if (!e || atomic_load(&e->in_vain) == 0) {
		limit_ns = most(limit_ns,
				least(2 * atomic_load(&c->patience.moves_ns), KNOWN_MOST_NS));
	}
	if (e) {
		limit_ns = most(limit_ns, 2 * atomic_load(&e->takes_ns));
	}
	return least(limit_ns, gate_patience_ns(&c->patience));
}

/* The work that does not end: the awaited one, or the last launch without a range. */
static uintptr_t find_culprit(const struct guard *g)
{
	return g->awaited.is_set ? g->awaited.work : atomic_load(&g->other);
}

void guard_wait_note_in_vain(struct capture *c, struct ranges *r, uint64_t limit_ns)
{
	struct guard *g = &r->guard;
	uintptr_t work = find_culprit(g);
	struct suspect *e;

	g->in_vain++;
	g->held_waited = g->holds;
	if (g->awaited.is_set) {
		g->awaited.waited = true;
	} else if (work != 0) {
		guard_wait_watch(c, r, work, atomic_load(&g->other_stream), true);
	}
	if (limit_ns >= LONG_NS && capture_is_measuring(c)) {
		e = note_suspect(&c->suspects, work);
		if (e) {
			atomic_store(&e->in_vain, SUSPECT_CERTAIN);
		}
		g->stalled = true;
		g->stalled_ns = clock_now_ns();
	}
}

static uint64_t limit_ns_of_streams(struct capture *c, struct guard *g, uint32_t pass)
{
	uint64_t limit_ns = guard_wait_limit_ns(c, pass, find_culprit(g));
	unsigned more = g->in_vain > WAITS ? g->in_vain - WAITS : 0;

	if (g->stalled) {
		bool again = clock_now_ns() - g->stalled_ns > CLOCK_NS_PER_S;

		g->stalled_ns = again ? clock_now_ns() : g->stalled_ns;
		return again ? least(limit_ns, GATE_PATIENCE_LATER_NS) : 0;
	}
	return least(limit_ns << (more < 16 ? more : 16), gate_patience_ns(&c->patience));
}

/* After long waits in vain this function only queries the streams, until they are idle. Once a
 * second it waits for a moment again, because the GPU of some programs is never idle. */
bool guard_wait_for_streams(struct capture *c, struct ranges *r, CUstream except, uint32_t pass)
{
	struct guard *g = &r->guard;
	uint64_t limit_ns;
	bool done;

	look_at_awaited(c, g, NULL);
	limit_ns = limit_ns_of_streams(c, g, pass);
	done = guard_wait_for(c, r, NULL, except, limit_ns);
	if (!done && limit_ns > 0) {
		guard_wait_note_in_vain(c, r, limit_ns);
	} else if (done) {
		g->in_vain = 0;
		g->stalled = false;
		if (!except) {
			atomic_store(&g->other, 0);
		}
	}
	return done;
}
