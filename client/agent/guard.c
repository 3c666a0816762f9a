/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/flag.h"
#include "client/agent/guard_wait.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* What waits because of a range, on an H200 with CUPTI 2025.3:
 *
 * - The beginning of a range waits for all work given to the context before it, in every stream.
 *   All work given after the range's end waits likewise, also copies and kernels without a range.
 *   With memory metrics the GPU waits; with SM metrics the CPU waits, within push and pop. Start,
 *   Stop and the configuration wait on the CPU with any metrics.
 * - While a range is open no work waits: a kernel in the range runs beside other kernels.
 *
 * So a kernel that waits for another one launched later never ends once its range is closed, and a
 * range that is opened while such a kernel runs never begins. A program with one stream, whose
 * kernels wait for nothing, cannot deadlock in this way: the guard opens and closes its ranges
 * without asking the driver. For other programs it asks:
 *
 * - The guard opens a range when all streams are idle. If the push of the metrics does not wait and
 *   launches go into one stream only, that stream may be busy.
 * - It closes the range when the kernel has ended. Once kernels of a function have ended PROOFS
 *   times before any other stream got work, it no longer asks for that function while launches go
 *   into one stream only.
 *
 * To wait, the guard asks again and again. But a kernel may wait for the very thread that asks:
 * autotuners launch, before each kernel that they time, a kernel that spins until the CPU sets a
 * flag. So a launch waits for a moment only. It waits longer while the GPU shows progress (it
 * passes marks, streams run empty), and up to twice the longest time after which work ended while a
 * launch waited. Once several launches have waited in vain, each further launch doubles the limit.
 *
 * After a wait in vain the range stays open (held), and other launches run unmeasured, until a
 * later launch finds that the kernel has ended and no other work is under way. The held kernel's
 * values are not used, because its time may contain the wait. A function to which this happens
 * twice is a suspect: launches no longer wait for its kernels, and with SM metrics, which wait
 * within CUPTI, its kernels get no range. If a process uses several contexts, launches do not wait
 * for known collectives, because one thread often launches them for one GPU after another. */

enum { PROOFS = 4 };

void guard_init(struct guard *g)
{
	*g = (struct guard){ 0 };
	streams_init(&g->streams);
}

/* Forgets events that were destroyed, or ended with their context. */
static void forget_events(struct guard *g)
{
	memset(g->marks, 0, sizeof(g->marks));
	g->n_marks = 0;
	g->probe = g->begin = NULL;
	g->probed = g->began = false;
	g->awaited = (struct awaited){ 0 };
}

void guard_deinit(struct guard *g)
{
	streams_deinit(&g->streams);
	free((char *)(uintptr_t)g->held.name);
	g->held.name = NULL;
	g->holds = false;
	forget_events(g);
}

static void destroy(const struct profiler *p, CUevent event)
{
	if (event) {
		p->cuEventDestroy(event);
	}
}

void guard_give_back(struct guard *g, const struct profiler *p)
{
	destroy(p, g->probe);
	destroy(p, g->awaited.end);
	destroy(p, g->begin);
	for (size_t i = 0; i < GUARD_MARKS; i++) {
		destroy(p, g->marks[i]);
	}
	forget_events(g);
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

void guard_tell(struct capture *c, uintptr_t work, const char *name)
{
	struct suspect *e = suspects_find(&c->suspects, work);

	if (!suspect_is_certain(e) || atomic_exchange(&e->told, true)) {
		return;
	}
	deliver_tell(
		&c->deliver, GPUCTR_E_KERNEL_WAITS,
		"Leave such kernels out with --kernel to measure the others; see "
		"docs/troubleshooting.md.",
		"%.300s did not end while it was waited for: it may wait for what is launched "
		"later, or for the CPU. It is not waited for again, and what runs beside it is "
		"not measured",
		name ? name : "a kernel");
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

/* May the launch be measured without a query of any stream? Not in a pass whose push and pop block,
 * because work under way may wait for a later launch. */
static bool is_alone(const struct capture *c, struct guard *g, CUstream stream, uint32_t pass)
{
	return !c->passes.may_block[pass] && !guard_wait_is_wide(c) &&
	       !streams_has_others(&g->streams, stream);
}

bool guard_may_open(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;
	bool blocks = c->passes.may_block[r->pass];

	follow(g, l->stream);
	if (blocks && suspect_is_certain(suspects_find(&c->suspects, l->work))) {
		guard_tell(c, l->work, l->name);
		return false;
	}
	if (!gate_others_have_ended(&r->gate)) {
		return false;
	}
	atomic_store(&g->elsewhere, false);
	if (is_alone(c, g, l->stream, r->pass)) {
		return true;
	}
	return guard_wait_may_ask(c) &&
	       guard_wait_for_streams(c, r, blocks || g->several ? NULL : l->stream, r->pass) &&
	       gate_nobody_came(&r->gate);
}

static bool is_believed(struct capture *c, const struct guard *g, const struct guard_launch *l,
			uint32_t pass)
{
	const struct suspect *e;

	if (c->passes.may_block[pass] || g->several || guard_wait_is_wide(c)) {
		return false;
	}
	e = suspects_find(&c->suspects, l->work);
	return (*l->proofs >= PROOFS || (e && atomic_load(&e->proofs) >= PROOFS)) &&
	       (!e || atomic_load(&e->in_vain) == 0);
}

/* Records the event only for launches that the guard asks about, to save others the call. */
void guard_note_begin(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;

	g->began = false;
	if (is_alone(c, g, l->stream, r->measured_pass) || is_believed(c, g, l, r->measured_pass) ||
	    !guard_wait_may_ask(c) || !guard_wait_make_event(c, &g->begin)) {
		return;
	}
	g->began = streams_record(&g->streams, c->profiler, r->context, l->stream, g->begin);
}

bool guard_has_begun(struct capture *c, const struct guard *g)
{
	return !g->began || c->profiler->cuEventQuery(g->begin) != CUDA_ERROR_NOT_READY;
}

/* Leaves the range open. waited: a launch waited for its kernel in vain. */
static void hold(struct capture *c, struct ranges *r, const struct guard_launch *l, bool waited)
{
	struct guard *g = &r->guard;

	free((char *)(uintptr_t)g->held.name);
	g->held = *l;
	g->held.name = strdup(l->name);
	g->held.proofs = NULL;
	g->holds = true;
	g->held_waited = waited;
	guard_wait_watch(c, r, l->work, l->stream, waited);
}

/* Did a kernel of the function end only after the thread that had waited for it in vain went on?
 * That thread may have released the kernel. */
static bool has_ended_later(struct capture *c, const struct guard_launch *l)
{
	const struct suspect *e = suspects_find(&c->suspects, l->work);

	return e && atomic_load(&e->proofs) > 0;
}

/* Has the launch's kernel ended, or is it known to end without later launches? */
static bool has_ended(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;
	uint64_t limit_ns;

	if (is_alone(c, g, l->stream, r->measured_pass)) {
		return true;
	}
	if (is_believed(c, g, l, r->measured_pass)) {
		if (has_ended_later(c, l)) {
			g->doubtful = r->batch->n;
		}
		return true;
	}
	if (!guard_wait_may_ask(c)) {
		hold(c, r, l, false);
		return false;
	}
	limit_ns = l->collective && guard_wait_is_wide(c)
			   ? 0
			   : guard_wait_limit_ns(c, r->measured_pass, l->work);
	if (guard_wait_for(c, r, l->stream, NULL, limit_ns)) {
		*l->proofs += *l->proofs < PROOFS;
		return true;
	}
	hold(c, r, l, limit_ns > 0);
	if (limit_ns > 0) {
		guard_wait_note_in_vain(c, r, limit_ns);
	}
	return false;
}

/* Work given after a range's end waits for all work given before it, and with SM metrics so does
 * the thread that ends the range. Other work that began beside the range may itself wait for later
 * work: so the range is closed only when no such work is under way. */
static bool nothing_is_beside(struct capture *c, struct ranges *r)
{
	if (gate_is_disturbed(&r->gate)) {
		gate_shut(&r->gate);
		if (!guard_wait_may_ask(c) || !gate_others_have_ended(&r->gate) ||
		    !guard_wait_is_done(c, r, NULL, NULL)) {
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
		hold(c, r, l, false);
		return false;
	}
	return true;
}

bool guard_may_release(struct capture *c, struct ranges *r, bool patient)
{
	struct guard *g = &r->guard;

	if (!guard_wait_may_ask(c) || (!patient && !guard_wait_is_done(c, r, NULL, NULL))) {
		return false;
	}
	if (!guard_wait_for_streams(c, r, NULL, r->measured_pass)) {
		if (g->awaited.is_set) {
			guard_tell(c, g->held.work, g->held.name);
		}
		return false;
	}
	return nothing_is_beside(c, r);
}

void guard_mark(struct capture *c, struct ranges *r, const struct guard_launch *l)
{
	struct guard *g = &r->guard;

	if (r->state != RANGES_STARTED || !guard_wait_may_ask(c)) {
		return;
	}
	if (r->batch->n == 1) {
		g->n_marks = 0;
	}
	if (r->batch->n + GUARD_MARKS <= r->limit || g->n_marks == GUARD_MARKS) {
		return;
	}
	if (guard_wait_make_event(c, &g->marks[g->n_marks]) &&
	    c->profiler->cuEventRecord(g->marks[g->n_marks], l->stream) == CUDA_SUCCESS) {
		g->marked[g->n_marks++] = r->batch->n;
	}
}

bool guard_is_past_last(struct capture *c, struct ranges *r)
{
	struct guard *g = &r->guard;

	if (!guard_wait_may_ask(c) || !guard_wait_make_event(c, &g->probe)) {
		return false;
	}
	if (!g->probed) {
		g->probed = streams_record(&g->streams, c->profiler, r->context, g->last, g->probe);
	}
	return g->probed && c->profiler->cuEventQuery(g->probe) != CUDA_ERROR_NOT_READY;
}

bool guard_is_quiet(struct capture *c, struct ranges *r, bool patient)
{
	if (!guard_wait_may_ask(c)) {
		return false;
	}
	return patient ? guard_wait_for_streams(c, r, NULL, r->measured_pass)
		       : guard_wait_is_done(c, r, NULL, NULL);
}

bool guard_may_block(struct capture *c, struct ranges *r, bool patient)
{
	return gate_others_have_ended(&r->gate) && guard_is_quiet(c, r, patient) &&
	       gate_block(&r->gate);
}

void guard_drain(struct capture *c, struct ranges *r)
{
	uint64_t patience_ns = gate_patience_ns(&c->patience), begin_ns = clock_now_ns();

	while (guard_wait_may_ask(c) && !guard_wait_is_done(c, r, NULL, NULL)) {
		if (clock_now_ns() - begin_ns >= patience_ns) {
			gate_spend(&c->patience, patience_ns);
			return;
		}
		guard_wait_pause(begin_ns);
	}
}

void guard_disturb(struct ranges *r, const struct guard_work *work)
{
	struct guard *g = &r->guard;
	CUstream used = atomic_load(&g->used);

	gate_disturb(&r->gate);
	if (used != work->stream) {
		flag_raise(&g->elsewhere);
	}
	if (work->launch && used && used != work->stream) {
		flag_raise(&g->several);
	}
	if (work->launch && atomic_load(&g->other) != work->work) {
		atomic_store(&g->other, work->work);
	}
	if (work->launch && atomic_load(&g->other_stream) != work->stream) {
		atomic_store(&g->other_stream, work->stream);
	}
	if (work->stream) {
		streams_touch(&g->streams, work->stream);
	} else {
		streams_touch_any(&g->streams);
	}
}
