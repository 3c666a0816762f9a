/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/launches.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/functions.h"
#include "client/agent/nvtx.h"
#include "client/agent/section.h"
#include "client/agent/thread.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* Before a launch the agent takes the context's lock, decides whether to measure the launch, notes
 * it and pushes a range; after the launch it pops the range and unlocks. Meanwhile it keeps other
 * work out. */

/* --- which launches are measured --- */

static bool is_in_ranges(struct capture *c)
{
	nvtx_filter_note_launch(&c->filter.nvtx);
	if (!phase_is_on(&c->filter.phase)) {
		return false;
	}
	return !nvtx_filter_is_used(&c->filter.nvtx) || nvtx_selects(&c->filter.nvtx, c->number);
}

/* The device of the calling thread's context, on which the launch will run; UINT32_MAX: there is no
 * context. */
static uint32_t current_device(const struct capture *c)
{
	CUdevice current;

	return c->profiler->cuCtxGetDevice(&current) == CUDA_SUCCESS ? (uint32_t)current
								     : UINT32_MAX;
}

/* The group in which the filter counts the launch, if it counts by group. */
static uint64_t group_of(const struct capture *c, const struct function *f)
{
	return c->filter.mode == GPUCTR_FILTER_PER_GPU ? current_device(c) + UINT64_C(1) : f->hash;
}

/* If a graph's kernels are reported one by one, the filter compares their names later, so any graph
 * is selected here. */
static bool is_selected(const struct capture *c, const struct function *f,
			const struct arguments *g)
{
	return f->selected || (g->kind == GPUCTR_LAUNCH_GRAPH && c->activity->name_kernel);
}

/* Do the filter, the NVTX ranges around it, the phase, skip and count select this launch? If not,
 * counts it as filtered. */
static bool is_wanted(struct capture *c, const struct function *f, const struct arguments *g)
{
	if (is_selected(c, f, g) && is_in_ranges(c) && filter_takes(&c->filter, group_of(c, f))) {
		return true;
	}
	atomic_fetch_add(&c->counters.filtered, 1);
	return false;
}

/* Never 0. */
static uint32_t thread_of(struct section *v)
{
	if (v->thread_id == 0) {
		v->thread_id = (uint32_t)thread_number();
	}
	return v->thread_id;
}

/* Reports a step that begins with this launch, which need not be measured. */
static void note_step(struct capture *c, struct section *v, const struct function *f,
		      const struct arguments *g)
{
	uint64_t kernel = f->hash ^ (uintptr_t)g->graph, shaped = kernel;
	struct recurrence_launch launch = { .keys = { [RECURRENCE_KERNELS] = kernel } };

	if (!c->recurrence.is_used || phase_is_finished(&c->filter.phase) ||
	    !recurrence_observes(&c->recurrence, thread_of(v))) {
		return;
	}
	for (int i = 0; i < 3; i++) {
		shaped = recurrence_add(shaped, (uint64_t)g->grid[i] << 32 | g->block[i]);
	}
	launch.keys[RECURRENCE_SHAPED] = recurrence_add(shaped, g->dynamic_shared_bytes);
	launch.ns = clock_now_ns();
	if (recurrence_on_launch(&c->recurrence, &launch)) {
		phase_on_step(&c->filter.phase);
	}
}

/* --- one launch --- */

/* No callback has reported a stream capture that began before a late capture of ours, so each
 * stream is queried when the thread turns to it. */
static bool stream_is_capturing(struct capture *c, struct section *v, CUcontext context,
				CUstream stream)
{
	bool first = c->late && !v->last_stream.asked, is_capturing;
	struct stream_capture met = { .context = context, .stream = stream };

	if (!first && !stream_captures_any(&c->stream_captures)) {
		return false;
	}
	met.id = stream_captures_find(c->profiler, stream, &is_capturing);
	v->last_stream.asked = !is_capturing;
	if (is_capturing && c->late) {
		stream_captures_meet(&c->stream_captures, &met);
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
	memset(l, 0, sizeof(*l));
	l->function = f->id;
	l->dynamic_shared_bytes = g->dynamic_shared_bytes;
	l->device = atomic_load_explicit(&r->device, memory_order_relaxed);
	l->context = data->contextUid;
	l->stream = v->last_stream.number;
	l->correlation = data->correlationId;
	l->thread = thread_of(v);
	nvtx_current_path(&c->intern, &l->path);
	l->set = nvtx_active_set(&c->intern);
	l->start_ns = clock_wall_ns(); /* replaced later by the kernel's own time */
	l->kind = g->kind;
	l->pass = (uint8_t)r->measured_pass;
	memcpy(l->grid, g->grid, sizeof(l->grid));
	memcpy(l->block, g->block, sizeof(l->block));
	if (g->kind == GPUCTR_LAUNCH_GRAPH) {
		activity_expect_graph(c->activity, l, (uintptr_t)g->graph);
	} else {
		activity_expect(c->activity, data->correlationId);
	}
}

static bool lock_for_launch(struct capture *c, struct ranges *r)
{
	if (c->method->beside) {
		return true;
	}
	if (!gate_lock(&r->gate, &c->patience)) {
		return false;
	}
	gate_shut(&r->gate);
	return true;
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

	/* The capture has stopped meanwhile, so the launch no longer counts as seen. */
	if (!capture_is_measuring(c)) {
		atomic_fetch_sub(&c->counters.seen, 1);
		unlock_after_launch(c, r);
		return false;
	}
	functions_prepare(c, f);
	find_stream(c, v, data->context, g->stream, g->per_thread_stream);
	if (!c->method->beside) {
		note_for_guard(v, f, g, r);
	}
	if (!c->method->open(c, r, v, &l)) {
		unlock_after_launch(c, r);
		return false;
	}
	note_launch(c, v, l, r, f, g, data);
	v->launching = r;
	return true;
}

/* False: the launch is not measured, and is counted, or no longer counts as seen. */
static bool measure(struct capture *c, struct section *v, struct function *f,
		    const struct arguments *g, const CUpti_CallbackData *data, struct ranges *r)
{
	if (!r || !lock_for_launch(c, r)) {
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

	if (!data->context || !arguments_read(id, data->functionParams, &g)) {
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
	if (stream_is_capturing(c, v, data->context,
				streams_normal(g.stream, g.per_thread_stream))) {
		atomic_fetch_add(&c->counters.capturing, 1);
		return;
	}
	if (c->late && !c->method->beside) { /* a trace starts nothing */
		stream_captures_observe(&c->stream_captures);
	}
	note_step(c, v, f, &g);
	if (!is_wanted(c, f, &g)) {
		return;
	}
	r = find_context(c, v, data->context);
	if (!measure(c, v, f, &g, data, r)) {
		filter_give_back(&c->filter);
	}
}

static void on_launch_exit(struct capture *c, struct section *v, const CUpti_CallbackData *data)
{
	struct ranges *r = v->launching;
	const CUresult *result = data->functionReturnValue;

	if (c->method->beside || r->state == RANGES_STARTED) {
		c->method->close(c, r, v, !result || *result == CUDA_SUCCESS);
	}
	v->launching = NULL;
	unlock_after_launch(c, r);
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
			other_work_on_call(c, v, id, data);
		}
	} else if (v->launching) {
		on_launch_exit(c, v, data);
	} else {
		other_work_on_call(c, v, id, data);
	}
}
