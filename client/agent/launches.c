/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/launches.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/functions.h"
#include "client/agent/nvtx.h"
#include "client/agent/section.h"
#include "client/agent/unwatched.h"
#include "client/agent/wanted.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* Before a launch the agent decides whether to measure it, notes it and pushes a range, with the
 * context's lock held; after the launch it pops the range and unlocks. Meanwhile other work is kept
 * out. */

/* --- one launch --- */

/* No callback has reported a stream capture that began before ours, so each stream is asked once,
 * when the thread first launches into it. */
static bool stream_is_capturing(struct capture *c, struct section *v, CUstream stream)
{
	bool first = c->late && !v->last_stream.asked, is_capturing;
	uint64_t id;

	if (!first && !stream_captures_any(&c->stream_captures)) {
		return false;
	}
	id = stream_captures_find(c->profiler, stream, &is_capturing);
	v->last_stream.asked = !is_capturing;
	if (is_capturing && c->late) {
		stream_captures_meet(&c->stream_captures, id);
	}
	return is_capturing;
}

/* The context of a launch, which is in most cases that of the thread's last launch. */
static struct ranges *find_context(struct capture *c, struct section *v, CUcontext context)
{
	if (!v->last_context || v->last_context->context != context) {
		v->last_context = contexts_find(c, context);
	}
	return v->last_context;
}

/* The same, without making a new one: NULL if no launch has gone into this context. */
static struct ranges *find_known_context(struct capture *c, struct section *v, CUcontext context)
{
	struct ranges *r = v->last_context;

	if (r && r->context == context) {
		return r;
	}
	r = atomic_load(&c->n_contexts) > 0 ? contexts_known(c, context) : NULL;
	v->last_context = r ? r : v->last_context;
	return r;
}

/* CUPTI's number of a stream, queried only when the thread changes streams. Until then a new stream
 * at the address of an old one may get the old one's number. */
static void find_stream(struct capture *c, struct section *v, CUcontext context, CUstream stream,
			bool per_thread)
{
	uint32_t number;

	if (v->last_stream.known && v->last_stream.context == context &&
	    v->last_stream.stream == stream && v->last_stream.per_thread == per_thread) {
		return;
	}
	v->last_stream.known = true;
	v->last_stream.asked = false;
	v->last_stream.context = context;
	v->last_stream.stream = stream;
	v->last_stream.per_thread = per_thread;
	v->last_stream.number = c->profiler->cuptiGetStreamIdEx(context, stream, per_thread,
								&number) == CUPTI_SUCCESS
					? number
					: (uintptr_t)stream;
}

static void note_launch(struct capture *c, struct section *v, struct launch *l,
			const struct ranges *r, const struct function *f, const struct arguments *g,
			const CUpti_CallbackData *data)
{
	if (v->thread_id == 0) {
		v->thread_id = (uint32_t)syscall(SYS_gettid);
	}
	*l = (struct launch){
		.function = f->id,
		.dynamic_shared_bytes = g->dynamic_shared_bytes,
		.device = r->device,
		.context = data->contextUid,
		.stream = v->last_stream.number,
		.correlation = data->correlationId,
		.thread = v->thread_id,
		.range = nvtx_current_range(&c->intern),
		.set = nvtx_active_set(&c->intern),
		.start_ns = clock_wall_ns(), /* until it is known when the kernel began */
		.kind = g->kind,
		.stratum = v->chosen.stratum,
		.chance = v->chosen.choice.chance,
		.pass = (uint8_t)v->chosen.pass,
	};
	memcpy(l->grid, g->grid, sizeof(l->grid));
	memcpy(l->block, g->block, sizeof(l->block));
	if (g->kind == GPUCTR_LAUNCH_GRAPH) {
		activity_expect_graph(c->activity, l, (uintptr_t)g->graph);
	} else {
		activity_expect(c->activity, data->correlationId);
	}
}

static bool lock_for_launch(struct capture *c, struct ranges *r, const struct arguments *g)
{
	bool locked;

	if (c->method->beside) {
		return true;
	}
	locked = guard_lock(c, r, streams_normal(g->stream, g->per_thread_stream));
	if (locked) {
		gate_shut(&r->gate);
	}
	return locked;
}

static void unlock_after_launch(struct capture *c, struct ranges *r)
{
	if (!c->method->beside) {
		gate_leave(&r->gate);
	}
}

static void note_for_guard(struct section *v, struct function *f, const struct arguments *g,
			   struct ranges *r)
{
	v->launched = (struct guard_launch){
		.stream = streams_normal(g->stream, g->per_thread_stream),
		.work = g->function ? (uintptr_t)g->function : (uintptr_t)g->graph,
		.name = f->name,
		.collective = f->collective,
		.proofs = &f->proofs,
		.stream_number = v->last_stream.number,
	};
	snprintf(r->last_kernel, sizeof(r->last_kernel), "%s", f->name);
	r->last_stream = v->launched.stream_number;
	r->last_launch_ns = clock_now_ns();
	r->reported_stuck = false;
}

/* The caller holds the context's lock, unless the method lets launches run beside each other. True:
 * a range is open, and the lock stays held. False: the lock is released. */
static bool open_range(struct capture *c, struct section *v, struct function *f,
		       const struct arguments *g, const CUpti_CallbackData *data, struct ranges *r)
{
	struct launch *l;

	/* The capture has stopped, or the next pass has begun since the launch was chosen. */
	if (!capture_is_measuring(c) || v->chosen.pass != r->pass) {
		atomic_fetch_add(&c->counters.unready, 1);
		unlock_after_launch(c, r);
		return false;
	}
	functions_prepare(c, f);
	find_stream(c, v, data->context, g->stream, g->per_thread_stream);
	if (!c->method->beside) {
		note_for_guard(v, f, g, r);
	}
	if (!c->method->open(c, r, &v->launched, &l)) {
		unlock_after_launch(c, r);
		return false;
	}
	note_launch(c, v, l, r, f, g, data);
	v->launching = r;
	return true;
}

/* False: the launch is not measured; its counter was incremented. */
static bool measure(struct capture *c, struct section *v, struct function *f,
		    const struct arguments *g, const CUpti_CallbackData *data, struct ranges *r)
{
	if (!r || !lock_for_launch(c, r, g)) {
		atomic_fetch_add(&c->counters.unready, 1);
		return false;
	}
	return open_range(c, v, f, g, data, r);
}

static void on_launch_enter(struct capture *c, struct section *v, CUpti_CallbackId id,
			    const CUpti_CallbackData *data)
{
	struct arguments g;
	struct function *f;
	struct ranges *r;

	if (!data->context || !arguments_read(id, data->functionParams, &g) ||
	    (g.kind != GPUCTR_LAUNCH_GRAPH && unwatched_leaves(c))) {
		return;
	}
	atomic_fetch_add(&c->counters.seen, 1);
	f = functions_find(c, g.function, data->contextUid,
			   g.kind == GPUCTR_LAUNCH_GRAPH ? "(CUDA graph)"
			   : data->symbolName		 ? data->symbolName
							 : "(unnamed)");
	if (!f) {
		atomic_fetch_add(&c->counters.unready, 1);
		return;
	}
	if (c->late) {
		find_stream(c, v, data->context, g.stream, g.per_thread_stream);
	}
	if (stream_is_capturing(c, v, streams_normal(g.stream, g.per_thread_stream))) {
		atomic_fetch_add(&c->counters.capturing, 1);
		return;
	}
	/* With a budget nothing is chosen before (choosing.c), and a trace starts nothing. */
	if (c->late && !c->choosing.on && !c->method->beside) {
		stream_captures_observe(&c->stream_captures);
	}
	if (!wanted_by_filter(c, f, &g)) {
		return;
	}
	r = find_context(c, v, data->context);
	if (r && !wanted_by_budget(c, v, r, f, &g)) {
		return;
	}
	if (!filter_reserve(&c->filter)) {
		atomic_fetch_add(&c->counters.filtered, 1);
	} else if (!measure(c, v, f, &g, data, r)) {
		filter_give_back(&c->filter);
	}
}

static void on_launch_exit(struct capture *c, struct section *v, const CUpti_CallbackData *data)
{
	struct ranges *r = v->launching;
	const CUresult *result = data->functionReturnValue;

	if (c->method->beside || r->state == RANGES_STARTED) {
		c->method->close(c, r, &v->launched, !result || *result == CUDA_SUCCESS);
	}
	v->launching = NULL;
	unlock_after_launch(c, r);
}

/* --- work that is not measured --- */

/* A launch; or a copy, a fill, or something to wait for. */
static struct guard_work read_work(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	struct arguments g;
	CUstream stream;
	bool per_thread;

	if (arguments_read(id, data->functionParams, &g)) {
		return (struct guard_work){ streams_normal(g.stream, g.per_thread_stream), true };
	}
	if (arguments_read_stream(id, data->functionParams, &stream, &per_thread)) {
		return (struct guard_work){ streams_normal(stream, per_thread), false };
	}
	return (struct guard_work){ .stream = NULL };
}

/* The GPU gets the work at an unknown time between the two callbacks, and an open range of another
 * thread would count it. So the call waits until that thread's launch is over, which takes
 * microseconds, or until its patience is spent. A thread does not wait for a launch of its own, and
 * a call within such a call is a part of it. */
static void on_other_enter(struct capture *c, struct section *v, CUpti_CallbackId id,
			   const CUpti_CallbackData *data)
{
	struct ranges *r;
	bool insist = v->launching != NULL;

	if (c->method->beside) {
		return;
	}
	r = find_known_context(c, v, data->context);
	if (v->other) {
		v->others_within++;
		return;
	}
	v->other = r;
	while (r && !gate_other_begins(&r->gate, insist)) {
		insist = !guard_lock(c, r, read_work(id, data).stream);
		if (!insist) {
			lock_release(&r->gate.lock);
		}
	}
}

static void on_other_exit(struct capture *c, struct section *v, CUpti_CallbackId id,
			  const CUpti_CallbackData *data)
{
	const struct guard_work work = read_work(id, data);
	struct ranges *r = v->other;

	if (c->method->beside) {
		return;
	}
	if (r && v->others_within == 0) {
		v->other = NULL;
		guard_other_ends(r, &work);
		return;
	}
	r = find_known_context(c, v, data->context);
	if (v->others_within > 0) {
		v->others_within--;
		if (r) {
			guard_disturb(r, &work);
		}
	} else if (r) {
		guard_untracked_ends(r, &work);
	}
}

/* --- the calls --- */

void launches_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data)
{
	if (data->callbackSite == CUPTI_API_ENTER && v->launching) {
		v->nested++; /* a launch within a launch is a part of it */
	} else if (data->callbackSite == CUPTI_API_EXIT && v->nested > 0) {
		v->nested--;
	} else if (data->callbackSite == CUPTI_API_ENTER) {
		if (capture_is_measuring(c)) {
			on_launch_enter(c, v, id, data);
		}
		if (!v->launching) {
			on_other_enter(c, v, id, data);
		}
	} else if (v->launching) {
		on_launch_exit(c, v, data);
	} else {
		on_other_exit(c, v, id, data);
	}
}

void launches_on_other_work(struct capture *c, struct section *v, CUpti_CallbackId id,
			    const CUpti_CallbackData *data)
{
	if (data->callbackSite == CUPTI_API_ENTER) {
		on_other_enter(c, v, id, data);
	} else {
		on_other_exit(c, v, id, data);
	}
}
