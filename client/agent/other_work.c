/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/launches.h"

#include <stdio.h>

#include <cupti_driver_cbid.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/section.h"

/* The context, mostly that of the thread's last launch; NULL: no launch has gone into it. */
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

/* Describes the call's work: a launch; or a copy, a fill or a wait. */
static struct guard_work read_work(CUpti_CallbackId id, const CUpti_CallbackData *data)
{
	struct arguments g;
	CUstream stream;
	bool per_thread;

	if (arguments_read(id, data->functionParams, &g)) {
		return (struct guard_work){ streams_normal(g.stream, g.per_thread_stream), true,
					    g.function ? (uintptr_t)g.function
						       : (uintptr_t)g.graph };
	}
	if (arguments_read_stream(id, data->functionParams, &stream, &per_thread)) {
		return (struct guard_work){ streams_normal(stream, per_thread), false, 0 };
	}
	return (struct guard_work){ .stream = NULL };
}

/* The GPU gets the work at an unknown time between the two callbacks, and an open range of another
 * thread would count it. So this call waits until that thread's launch is over, which takes
 * microseconds, or until gate_lock() gives up. A thread does not wait for a launch of its own, and
 * a call within such a call is a part of it. */
static void on_enter(struct capture *c, struct section *v, const CUpti_CallbackData *data)
{
	struct ranges *r = find_known_context(c, v, data->context);
	bool insist = v->launching != NULL;

	if (v->other) {
		v->others_within++;
		return;
	}
	v->other = r;
	if (r && !insist) {
		ranges_settle(c, r);
	}
	while (r && !gate_other_begins(&r->gate, insist)) {
		insist = !gate_lock(&r->gate, &c->patience);
		if (!insist) {
			lock_release(&r->gate.lock);
		}
	}
}

static void on_leave(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data)
{
	const struct guard_work work = read_work(id, data);
	struct ranges *r = v->other;

	if (r && v->others_within == 0) {
		v->other = NULL;
		guard_disturb(r, &work);
		gate_other_ends(&r->gate);
		if (work.launch) {
			guard_tell(c, work.work, data->symbolName);
		}
		return;
	}
	r = find_known_context(c, v, data->context);
	if (v->others_within > 0) {
		v->others_within--;
		if (r) {
			guard_disturb(r, &work);
		}
	} else if (r) {
		guard_disturb(r, &work);
		gate_untracked_ends(&r->gate);
	}
}

void other_work_on_call(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data)
{
	if (c->method->beside) {
		return;
	}
	if (data->callbackSite == CUPTI_API_ENTER) {
		on_enter(c, v, data);
	} else {
		on_leave(c, v, id, data);
	}
}

/* For cuLaunch() and cuLaunchGrid() CUDA does not report the shape of a block, which earlier calls
 * have set. cuLaunchCooperativeKernelMultiDevice() launches kernels on several GPUs at once that
 * wait for each other, so ranges around them would hang. */

/* Reports the work to all contexts but the current one, which other_work_on_call() handles. */
static void disturb_others(struct capture *c, CUcontext current)
{
	contexts_for_each(r, c) {
		if (r->context != current) {
			guard_disturb(r, &(struct guard_work){ .launch = true });
		}
	}
}

void apart_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data)
{
	unsigned n = arguments_count(id, data->functionParams);
	bool several = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice;

	if (data->callbackSite == CUPTI_API_ENTER && capture_is_measuring(c) && !v->launching) {
		atomic_fetch_add(&c->counters.seen, n);
		atomic_fetch_add(&c->counters.unready, n);
		atomic_fetch_add(&c->n_apart, n);
	}
	other_work_on_call(c, v, id, data);
	if (several && !c->method->beside) { /* before and after the call: when the GPU gets the
						work is unknown */
		disturb_others(c, data->context);
	}
}

bool apart_describe(struct capture *c, char *text, size_t bytes)
{
	unsigned long long launches = atomic_load(&c->n_apart);
	bool contexts = atomic_load(&c->has_too_many);
	int n = 0;

	if (launches > 0) {
		n = snprintf(
			text, bytes,
			"%llu launches by cuLaunch(), cuLaunchGrid() or "
			"cuLaunchCooperativeKernelMultiDevice() are counted as not ready: CUDA "
			"does not tell their shape, or they are of several GPUs at once",
			launches);
	}
	if (contexts) {
		snprintf(
			text + n, bytes - (size_t)n,
			"%sthe program has more than %d CUDA contexts at a time: launches in those "
			"that came later are counted as not ready",
			n > 0 ? "; " : "", CONTEXTS_MAX);
	}
	return launches > 0 || contexts;
}
