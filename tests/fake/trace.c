/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery from the fake driver API to whoever listens: calls, resources, executed work.
 *
 * A call that is made from inside a delivery is not delivered again. */

#include "tests/fake/gpu.h"
#include "tests/fake/left.h"
#include "tests/fake/state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct fake_listener *_Atomic listener;
static _Atomic uint32_t next_correlation = 1;
static _Thread_local bool in_delivery;
static _Thread_local struct fake_trace *current; /* the innermost call */
static _Thread_local uint32_t last_correlation;

void trace_listen(const struct fake_listener *to);

void trace_listen(const struct fake_listener *to)
{
	left_begin(); /* who listens makes events */
	atomic_store(&listener, to);
}

/* A driver that is newer than CUPTI has calls that CUPTI does not tell of. */
static bool is_untold(const char *name)
{
	const char *untold = getenv("GPUCTR_FAKE_UNTOLD");

	return untold && strcmp(untold, name) == 0;
}

static void deliver(const struct fake_call *call)
{
	const struct fake_listener *to = atomic_load(&listener);

	if (to && !in_delivery && !is_untold(call->name)) {
		in_delivery = true;
		to->api(call);
		in_delivery = false;
	}
}

void trace_enter(struct fake_trace *trace, uint32_t cbid, const char *name, const void *params,
		 const char *symbol)
{
	CUcontext c = gpu_current();

	trace->correlation_data = 0;
	trace->call = (struct fake_call){
		.cbid = cbid,
		.name = name,
		.params = params,
		.symbol = symbol,
		.context = c,
		.context_uid = c ? c->uid : 0,
		.correlation_id = atomic_fetch_add(&next_correlation, 1),
		.correlation_data = &trace->correlation_data,
	};
	deliver(&trace->call);
	trace->outer = current;
	current = trace;
}

CUresult trace_exit(struct fake_trace *trace, CUresult result)
{
	current = trace->outer;
	trace->call.result = &result;
	deliver(&trace->call);
	last_correlation = trace->call.correlation_id;
	return result;
}

uint32_t trace_last_correlation(void)
{
	return last_correlation;
}

/* The driver's own, of a context: held where streams are made and ended, while that is told. Other
 * threads' calls wait for it. */
static pthread_mutex_t driver_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void trace_wait_for_driver(void)
{
	pthread_mutex_lock(&driver_lock);
	pthread_mutex_unlock(&driver_lock);
}

static void tell(uint32_t cbid, CUcontext context, CUstream stream)
{
	const struct fake_listener *to = atomic_load(&listener);
	bool outer = in_delivery;

	if (to) {
		in_delivery = true;
		to->resource(cbid, context, stream);
		in_delivery = outer;
	}
}

void trace_resource(uint32_t cbid, CUcontext context, CUstream stream)
{
	const char *us = getenv("GPUCTR_FAKE_RESOURCE_US");

	if (!stream) {
		tell(cbid, context, stream);
		return;
	}
	pthread_mutex_lock(&driver_lock);
	if (us) {
		usleep((useconds_t)atoi(us));
	}
	tell(cbid, context, stream);
	pthread_mutex_unlock(&driver_lock);
}

void trace_describe(uint32_t *ret_correlation, const char **ret_symbol)
{
	*ret_correlation = current->call.correlation_id;
	*ret_symbol = current->call.symbol;
}

/* As activity records tell it: without the markers of ranges, and with the gaps of graphs. */
static uint64_t own_ns(const struct fake_work *work)
{
	uint64_t n = work->kernels;

	return n == 0 ? work->time_ns : work->time_ns - n * FAKE_MARKERS_NS + (n - 1) * FAKE_GAP_NS;
}

static uint64_t note_done(int gpu, const struct fake_work *work, uint64_t begin_ns)
{
	const struct fake_done done = {
		.begin_ns = begin_ns,
		.ns = own_ns(work),
		.threads = work->threads,
		.warps = work->warps,
		.kernels = work->kernels,
	};

	fake_done_add(gpu, &done);
	return begin_ns + done.ns;
}

void trace_executed(CUcontext context, const struct fake_run *run)
{
	const struct fake_listener *to = atomic_load(&listener);
	uint64_t at_ns = run->begin_ns;

	if (!run->graph) {
		note_done(context->gpu, &run->work, at_ns);
	}
	for (size_t i = 0; run->graph && i < run->graph->n; i++) {
		at_ns = note_done(context->gpu, &run->graph->nodes[i].work, at_ns) + FAKE_GAP_NS;
	}
	if (to) {
		to->executed(context, run);
	}
}
