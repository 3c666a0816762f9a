/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/capture.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* What a range makes wait, on an H200 with CUPTI 2025.3:
 *
 * - The beginning of a range waits for all work given to the context before it, in every stream,
 *   and so does all work given after the range's end: copies and kernels without a range as well.
 *   With memory metrics the GPU waits, with SM metrics the CPU does, within push and pop. Start,
 *   Stop and the configuration wait on the CPU with any metrics.
 * - While a range is open nothing waits: a kernel in it runs beside others.
 *
 * So a kernel that waits for another one launched later, or for the CPU, never ends once its range
 * is closed, and a range that is opened while such a kernel runs never begins. A program with one
 * stream of kernels that wait for nothing cannot show it, and pays nothing: its ranges are opened
 * and closed without asking. Everybody else is asked:
 *
 * - A range is opened when the streams have nothing under way: the other streams, with metrics
 *   whose push does not wait, and all with the others.
 * - It is closed when its kernel has ended. A function whose kernels have ended by themselves
 *   PROOFS times is believed, as long as launches go into one stream only.
 *
 * Waiting is asking again, for as long as gate_patience_ns() says. When it was in vain the range
 * stays open (held), the function is a suspect, whose kernels are not waited for again, and what is
 * launched meanwhile runs unmeasured. A held range is closed at a later launch, when its kernel has
 * ended and nothing else is under way either; it counts if nothing else was given to the GPU since.
 * Known collectives are not waited for where a process uses several GPUs: one thread often launches
 * them one after another. */

enum { PROOFS = 4, SPIN_US = 200, PAUSE_US = 50 };

void guard_init(struct guard *g)
{
	*g = (struct guard){ 0 };
	streams_init(&g->streams);
}

void guard_deinit(struct guard *g)
{
	streams_deinit(&g->streams);
	free((char *)(uintptr_t)g->held.name);
	g->held.name = NULL;
	g->holds = false;
	g->n_marks = g->made_marks =
		0; /* events that were given back, or that ended with their context */
	g->probe = NULL;
	g->probed = false;
}

void guard_give_back(struct guard *g, const struct profiler *p)
{
	for (unsigned i = 0; i < g->made_marks; i++) {
		p->cuEventDestroy(g->marks[i]);
	}
	if (g->probe) {
		p->cuEventDestroy(g->probe);
	}
	g->probe = NULL;
	g->probed = false;
	g->n_marks = g->made_marks = 0;
	streams_give_back(&g->streams, p);
}

bool guard_name_is_collective(const char *name)
{
	static const char *const parts[] = { "ncclDevKernel",
					     "ncclKernel",
					     "nvshmem",
					     "cross_device_reduce",
					     "one_shot_all_reduce",
					     "two_shot_all_reduce",
					     "multimem_all_reduce",
					     "deep_ep" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (strstr(name, parts[i])) {
			return true;
		}
	}
	return false;
}

/* --- suspects --- */

/* The index of the handle among the suspects; a number beyond them: it is none. Handles are even;
 * an odd one marks a suspect that was forgiven. */
static size_t find_suspect(const struct suspects *s, uintptr_t work)
{
	size_t n = atomic_load(&s->n), i = 0;

	n = n < GUARD_SUSPECTS_MAX ? n : GUARD_SUSPECTS_MAX;
	while (i < n && (atomic_load(&s->v[i]) | 1) != (work | 1)) {
		i++;
	}
	return i < n ? i : GUARD_SUSPECTS_MAX;
}

static bool is_suspect(const struct suspects *s, uintptr_t work)
{
	size_t i = find_suspect(s, work);

	return i < GUARD_SUSPECTS_MAX && atomic_load(&s->v[i]) == work;
}

/* The kernel ended by itself after all. From now on it is waited for again. */
static void forgive(struct suspects *s, uintptr_t work)
{
	size_t i = find_suspect(s, work);

	if (i < GUARD_SUSPECTS_MAX) {
		atomic_store(&s->v[i], work | 1);
	}
}

static void tell_suspect(struct capture *c, const struct guard_launch *l)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "%.300s on stream %llu did not end while it was waited for: it may wait for what "
		 "is "
		 "launched later, or for the CPU. It is not waited for again, and what runs beside "
		 "it "
		 "is not measured",
		 l->name ? l->name : "a kernel", (unsigned long long)l->stream_number);
	deliver_notice(&c->deliver, GPUCTR_E_KERNEL_WAITS, text,
		       "Leave such kernels out with --kernel to measure the others; see "
		       "docs/troubleshooting.md.");
}

static void suspect(struct capture *c, const struct guard_launch *l)
{
	struct suspects *s = &c->suspects;
	size_t i = find_suspect(s, l->work), n = atomic_load(&s->n);

	if (i < GUARD_SUSPECTS_MAX) {
		atomic_store(&s->v[i], l->work); /* the user was told of it already */
	} else if (n < GUARD_SUSPECTS_MAX && atomic_compare_exchange_strong(&s->n, &n, n + 1)) {
		atomic_store(&s->v[n], l->work);
		tell_suspect(c, l);
	}
}

/* --- asking --- */

static bool process_is_wide(const struct capture *c)
{
	return atomic_load(&c->n_contexts) > 1;
}

static bool is_awaited(const struct capture *c, const struct guard_launch *l)
{
	return !is_suspect(&c->suspects, l->work) && !(l->collective && process_is_wide(c));
}

/* Streams may be asked only while none captures a graph: it would be spoilt. */
static bool may_ask(const struct capture *c)
{
	return !stream_captures_any(&c->stream_captures);
}

static bool is_done(struct capture *c, struct ranges *r, CUstream only, CUstream except)
{
	if (only && only != CU_STREAM_PER_THREAD) {
		return streams_is_idle(&r->guard.streams, c->profiler, r->context, only);
	}
	return streams_are_idle(&r->guard.streams, c->profiler, r->context, except);
}

static void pause_between(uint64_t since_ns)
{
	struct timespec t = { 0, PAUSE_US * 1000L };

	if (clock_now_ns() - since_ns > SPIN_US * UINT64_C(1000)) {
		nanosleep(&t, NULL);
	}
}

/* Has the GPU passed another mark of the batch since *at was set? */
static bool has_moved(struct capture *c, struct guard *g, unsigned *at)
{
	unsigned before = *at;

	while (*at < g->n_marks && c->profiler->cuEventQuery(g->marks[*at]) == CUDA_SUCCESS) {
		++*at;
	}
	return *at != before;
}

/* A wait stalls a stream that has ended its work and would get more by now, or one that has none
 * while a thread with work for it waits at the gate. */
struct wait {
	size_t busy;	    /* streams that had work at first */
	uint64_t begin_ns;  /* of the wait */
	uint64_t looked_ns; /* the last time that no stream was stalled */
	bool stalls;
};

/* only: the kernel of the range that is open is waited for. */
static struct wait begin_wait(struct guard *g, CUstream only)
{
	struct wait s = { .begin_ns = clock_now_ns() };

	s.looked_ns = s.begin_ns;
	if (only) {
		s.stalls = g->crowded;
	} else {
		s.busy = streams_count_busy(&g->streams);
		s.stalls = s.busy == SIZE_MAX;
		g->crowded = g->crowded || s.busy > 1;
	}
	return s;
}

static void look_at_wait(struct wait *s, struct ranges *r, CUstream only)
{
	if (!s->stalls) {
		s->stalls = atomic_load(&r->gate.stalled) > 0 ||
			    (!only && streams_count_busy(&r->guard.streams) < s->busy);
	}
	if (!s->stalls) {
		s->looked_ns = clock_now_ns();
	}
}

/* After a wait in vain all of it counts as a stall: what was waited for may have waited for this
 * thread. */
static void end_wait(const struct wait *s, struct guard *g, bool in_vain)
{
	uint64_t now_ns = clock_now_ns();

	g->wait.waited_ns += now_ns - s->begin_ns;
	g->wait.stalled_ns += now_ns - (in_vain ? s->begin_ns : s->looked_ns);
}

struct guard_wait guard_take_wait(struct guard *g)
{
	struct guard_wait wait = g->wait;

	g->wait = (struct guard_wait){ 0 };
	return wait;
}

/* While the GPU works off what it was given, patience begins anew. */
static bool wait_patiently(struct capture *c, struct ranges *r, CUstream only, CUstream except,
			   uint64_t patience_ns, struct wait *s)
{
	uint64_t begin_ns = s->begin_ns, waited_ns;
	unsigned mark = 0;

	while (clock_now_ns() - begin_ns < patience_ns && capture_is_measuring(c)) {
		pause_between(begin_ns);
		if (is_done(c, r, only, except)) {
			return true;
		}
		look_at_wait(s, r, only);
		if (has_moved(c, &r->guard, &mark)) {
			begin_ns = clock_now_ns();
		}
	}
	/* A process that was stopped meanwhile has not looked for long, and has not waited for
	 * long. */
	if (patience_ns > 0 && capture_is_measuring(c) && is_done(c, r, only, except)) {
		return true;
	}
	waited_ns = clock_now_ns() - begin_ns;
	gate_spend(&c->patience, waited_ns < patience_ns ? waited_ns : patience_ns);
	return false;
}

/* only: this stream; NULL: all streams but except. A wait in vain is noted in the process's
 * account. */
static bool wait_for(struct capture *c, struct ranges *r, CUstream only, CUstream except,
		     uint64_t patience_ns)
{
	struct wait s;
	bool done = is_done(c, r, only, except);

	if (!done) {
		s = begin_wait(&r->guard, only);
		done = wait_patiently(c, r, only, except, patience_ns, &s);
		end_wait(&s, &r->guard, !done);
	}
	return done;
}

/* After a wait in vain this only looks at the streams, until they are idle. Once a second it waits
 * for a moment again, because the GPU of some programs is never idle. */
static bool wait_unless_stalled(struct capture *c, struct ranges *r, CUstream only, CUstream except,
				uint64_t patience_ns)
{
	struct guard *g = &r->guard;
	uint64_t now_ns = clock_now_ns();

	if (g->stalled) {
		patience_ns = now_ns - g->stalled_ns > CLOCK_NS_PER_S ? GATE_PATIENCE_LATER_NS : 0;
	}
	if (!g->stalled || patience_ns > 0) {
		g->stalled_ns = now_ns;
	}
	g->stalled = !wait_for(c, r, only, except, patience_ns);
	return !g->stalled;
}

/* --- ranges --- */

static void follow(struct guard *g, CUstream stream)
{
	if (g->used && g->used != stream) {
		atomic_store(&g->several, true); /* other threads set it without the lock */
	}
	g->used = stream;
	streams_add(&g->streams, stream);
}

/* May the launch be measured without asking any stream? Not in a pass whose push and pop block:
 * then nothing may be under way that waits for a later launch. */
static bool is_alone(const struct capture *c, struct guard *g, CUstream stream, uint32_t pass)
{
	return !c->passes.may_block[pass] && !process_is_wide(c) &&
	       !streams_has_others(&g->streams, stream);
}

bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;

	g->crowded = false;
	follow(g, l->stream);
	if (!gate_others_have_ended(&r->gate, &g->wait.waited_ns)) {
		return false;
	}
	if (is_alone(c, g, l->stream, r->pass)) {
		return true;
	}
	return may_ask(c) &&
	       wait_unless_stalled(c, r, NULL,
				   c->passes.may_block[r->pass] || g->several ? NULL : l->stream,
				   gate_patience_ns(&c->patience)) &&
	       gate_nobody_came(&r->gate);
}

static bool is_believed(const struct capture *c, const struct guard *g,
			const struct guard_launch *l, uint32_t pass)
{
	return !c->passes.may_block[pass] && !g->several && !process_is_wide(c) &&
	       *l->proofs >= PROOFS && !is_suspect(&c->suspects, l->work);
}

static void hold(struct guard *g, const struct guard_launch *l)
{
	free((char *)(uintptr_t)g->held.name);
	g->held = *l;
	g->held.name = strdup(l->name);
	g->held.proofs = NULL;
	g->holds = true;
}

/* Has the launch's kernel ended, or is it known that nothing waits for it? */
static bool has_ended(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;
	uint64_t patience_ns = is_awaited(c, l) ? gate_patience_ns(&c->patience) : 0;

	if (is_alone(c, g, l->stream, r->measured_pass) || is_believed(c, g, l, r->measured_pass)) {
		return true;
	}
	if (!may_ask(c)) {
		hold(g, l);
		return false;
	}
	if (wait_for(c, r, l->stream, NULL, patience_ns)) {
		*l->proofs += *l->proofs < PROOFS;
		return true;
	}
	hold(g, l);
	if (patience_ns > 0 && capture_is_measuring(c)) {
		suspect(c, l);
	}
	g->stalled = is_suspect(&c->suspects, l->work);
	return false;
}

/* Work given after a range's end waits for all work given before it, and with SM metrics so does
 * the thread that ends the range. Other work that was let in beside the range is among it, and may
 * itself wait for later work: so the range is closed only when there is none. */
static bool nothing_is_beside(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (gate_is_disturbed(&r->gate)) {
		gate_shut(&r->gate);
		if (!may_ask(c) || !gate_others_have_ended(&r->gate, &g->wait.waited_ns) ||
		    !is_done(c, r, NULL, NULL)) {
			return false;
		}
	}
	return gate_block(&r->gate);
}

bool guard_may_close(struct capture *c, struct ranges *r, const struct guard_launch *l,
		     bool launched)
{
	struct guard *g = &r->guard;

	g->last = l->stream;
	g->probed = false;
	if (launched && !has_ended(c, r, l)) {
		return false;
	}
	if (!nothing_is_beside(c, r)) {
		hold(g, l);
		return false;
	}
	return true;
}

bool guard_may_release(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;
	bool all, ended;

	if (!may_ask(c)) {
		return false;
	}
	all = wait_unless_stalled(c, r, NULL, NULL, GATE_PATIENCE_LATER_NS);
	ended = all || is_done(c, r, g->held.stream, NULL);
	if (ended && !gate_is_disturbed(&r->gate)) {
		forgive(&c->suspects, g->held.work);
	} else if (!ended && capture_is_measuring(c)) {
		suspect(c, &g->held);
	}
	return all && nothing_is_beside(c, r);
}

void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;
	size_t each = r->room > GUARD_MARKS ? r->room / GUARD_MARKS : 1;

	if (r->state != RANGES_STARTED || !may_ask(c)) {
		return;
	}
	g->n_marks = r->batch->n == 1 ? 0 : g->n_marks;
	if (r->batch->n % each != 0 || g->n_marks == GUARD_MARKS) {
		return;
	}
	if (g->n_marks == g->made_marks) {
		if (c->profiler->cuEventCreate(&g->marks[g->n_marks], CU_EVENT_DISABLE_TIMING) !=
		    CUDA_SUCCESS) {
			return;
		}
		g->made_marks++;
	}
	if (c->profiler->cuEventRecord(g->marks[g->n_marks], l->stream) == CUDA_SUCCESS) {
		g->n_marks++;
	}
}

bool guard_is_past_last(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (!may_ask(c) ||
	    (!g->probe &&
	     c->profiler->cuEventCreate(&g->probe, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)) {
		return false;
	}
	if (!g->probed) {
		g->probed = streams_record(&g->streams, c->profiler, r->context, g->last, g->probe);
	}
	return g->probed && c->profiler->cuEventQuery(g->probe) != CUDA_ERROR_NOT_READY;
}

bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient)
{
	if (!may_ask(c)) {
		return false;
	}
	return patient ? wait_unless_stalled(c, r, NULL, NULL, gate_patience_ns(&c->patience))
		       : is_done(c, r, NULL, NULL);
}

/* When the capture closes, calls may go unnoticed, and no launching thread waits at the gate. */
bool guard_may_block(struct capture *c, struct ranges *r, bool patient)
{
	struct guard *g = &r->guard;

	if (capture_is_closing(c)) {
		return guard_is_quiet(c, r, patient);
	}
	return gate_others_have_ended(&r->gate, &g->wait.waited_ns) &&
	       guard_is_quiet(c, r, patient) && gate_block(&r->gate);
}

void guard_drain(struct capture *c, struct ranges *r)
{
	uint64_t patience_ns = gate_patience_ns(&c->patience), begin_ns = clock_now_ns();

	while (may_ask(c) && !is_done(c, r, NULL, NULL)) {
		if (clock_now_ns() - begin_ns >= patience_ns) {
			gate_spend(&c->patience, patience_ns);
			return;
		}
		pause_between(begin_ns);
	}
}

void guard_disturb(struct ranges *r, const struct guard_work *work)
{
	struct guard *g = &r->guard;
	CUstream used = atomic_load(&g->used);

	gate_disturb(&r->gate);
	if (work->launch && used && used != work->stream && !atomic_load(&g->several)) {
		atomic_store(&g->several, true);
	}
	if (work->stream) {
		streams_touch(&g->streams, work->stream);
	} else {
		streams_touch_any(&g->streams);
	}
}

bool guard_begin_stall(struct ranges *r, CUstream stream)
{
	bool stalls = !stream || !streams_has_work(&r->guard.streams, stream);

	atomic_fetch_add(&r->gate.stalled, stalls);
	return stalls;
}

void guard_end_stall(struct ranges *r)
{
	atomic_fetch_sub(&r->gate.stalled, 1);
}

bool guard_lock(struct capture *c, struct ranges *r, CUstream stream)
{
	bool locked = lock_try(&r->gate.lock), stalls;

	if (!locked) {
		stalls = guard_begin_stall(r, stream);
		locked = gate_lock(&r->gate, &c->patience);
		if (stalls) {
			guard_end_stall(r);
		}
	}
	return locked;
}

void guard_other_ends(struct ranges *r, const struct guard_work *work)
{
	guard_disturb(r, work);
	gate_other_ends(&r->gate);
}

void guard_untracked_ends(struct ranges *r, const struct guard_work *work)
{
	guard_disturb(r, work);
	gate_untracked_ends(&r->gate);
}
