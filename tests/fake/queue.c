/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake GPU has not done yet.
 *
 * Work is done in the order of its stream, GPUCTR_FAKE_LATE_US after it could begin (0: as soon as
 * it is given), and three streams that follow each other take one, two and three times as long. So
 * what is launched later may end earlier. Counters and activity records learn of work when it ends.
 *
 * A few kernels wait, as real ones do that spin on a flag; the names of their functions say so
 * (queue.h). Work behind such a kernel in its stream waits with it. So does what the range profiler
 * puts around a range, a barrier: it waits for all earlier work of the context, and all later work
 * waits for it (seen on an H200, CUPTI 2025.3).
 *
 * Nothing runs in the background: each call that needs the state goes through the list first, and
 * what would have ended meanwhile ends at the time when it would have. Listeners are called with
 * the lock held, so nobody sees work as done before they have heard of it. */

#include "tests/fake/queue.h"
#include "tests/fake/left.h"
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum item_kind { ITEM_WORK, ITEM_WAIT, ITEM_BARRIER };

enum { MAX_STREAMS = 256 };

struct item {
	struct item *next;
	uint64_t number;
	CUcontext context;
	uint32_t stream;
	enum item_kind kind;
	const volatile uint32_t *flag;
	const struct CUevent_st *event; /* of a wait: instead of a flag */
	volatile uint32_t *set;
	uint64_t limit_ns;	     /* it waits no longer; 0: for ever */
	volatile uint32_t *gave_up;  /* counts those that waited so long */
	struct fake_run run;	     /* but for its begin */
	struct fake_barrier barrier; /* pass NULL: its owner was forgotten */
	bool is_open;		     /* a barrier whose owner was gone when it was forgotten */
	uint64_t given_ns, begin_ns, takes_ns; /* begin 0: earlier work is not done */
	uint64_t lasts_ns;		       /* the part of that which the kernel tells of */
};

struct CUevent_st {
	CUevent next;
	CUcontext home; /* the context with which the event ends */
	CUcontext context;
	uint32_t stream; /* 0: all of the context */
	uint64_t number; /* of the last item before the event */
};

/* A stream as one look through the list sees it; stream 0: the barriers of a context. */
struct lane {
	CUcontext context;
	uint32_t stream;
	size_t n;	 /* items in the list */
	uint64_t end_ns; /* of the last item that ended */
	bool blocked;	 /* later items have to wait */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *items, **tail = &items; /* oldest first */
static uint64_t last_number;
static CUevent events;
static struct lane lanes[MAX_STREAMS];
static size_t n_lanes;

static uint32_t stream_id(CUstream stream)
{
	const struct CUstream_st *s = gpu_stream(stream);

	if (s) {
		return s->id;
	}
	return stream == CU_STREAM_PER_THREAD ? STREAM_ID_PER_THREAD : STREAM_ID_DEFAULT;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t takes_ns(uint32_t stream)
{
	static _Atomic long late_us = -1;

	if (late_us < 0) {
		const char *text = getenv("GPUCTR_FAKE_LATE_US");

		late_us = text ? strtol(text, NULL, 10) : 0;
	}
	return (uint64_t)late_us * 1000 * (3 - stream % 3);
}

/* Everything below is called with the lock held. */

static struct lane *lane_of(CUcontext context, uint32_t stream)
{
	struct lane *l = lanes;

	while (l < lanes + n_lanes && (l->context != context || l->stream != stream)) {
		l++;
	}
	if (l == lanes + MAX_STREAMS) {
		abort();
	}
	if (l == lanes + n_lanes) {
		*l = (struct lane){ .context = context, .stream = stream };
		n_lanes++;
	}
	return l;
}

static bool is_related(const struct lane *l, const struct item *i)
{
	return l->context == i->context &&
	       (l->stream == 0 || i->kind == ITEM_BARRIER || l->stream == i->stream);
}

/* Is earlier work not done? If all is, *ret_ns is when the last of it ended. */
static bool is_behind(const struct item *i, uint64_t *ret_ns)
{
	*ret_ns = i->given_ns;
	for (const struct lane *l = lanes; l < lanes + n_lanes; l++) {
		if (is_related(l, i) && l->blocked) {
			return true;
		}
		*ret_ns = is_related(l, i) && l->end_ns > *ret_ns ? l->end_ns : *ret_ns;
	}
	return false;
}

/* A barrier whose profiler was revoked holds nobody up. */
static bool is_open(const struct item *i)
{
	return i->is_open || (i->barrier.pass && i->barrier.is_gone(i->barrier.owner));
}

/* Has all that was recorded before the event ended? */
static bool is_passed(const struct CUevent_st *e)
{
	bool passed = true;

	for (const struct item *i = items; i && passed; i = i->next) {
		passed = i->number > e->number || i->context != e->context ||
			 (e->stream != 0 && i->stream != e->stream && i->kind != ITEM_BARRIER);
	}
	return passed;
}

static bool is_let_go(const struct item *i)
{
	return i->event ? is_passed(i->event) : *i->flag != 0;
}

static bool is_at_limit(const struct item *i, uint64_t at_ns)
{
	return i->limit_ns > 0 && at_ns - i->begin_ns >= i->limit_ns;
}

static bool has_ended(struct item *i, uint64_t at_ns)
{
	uint64_t from_ns;

	if (is_behind(i, &from_ns) && !is_open(i)) {
		return false;
	}
	if (i->begin_ns == 0) {
		i->begin_ns = from_ns;
		if (i->set && i->kind == ITEM_WAIT) {
			*i->set = 1; /* it runs, and shows that before it waits */
		}
	}
	return i->begin_ns + i->takes_ns <= at_ns &&
	       (i->kind != ITEM_WAIT || is_let_go(i) || is_at_limit(i, at_ns));
}

/* A kernel that waits runs meanwhile. */
static uint64_t end_ns(const struct item *i, uint64_t at_ns)
{
	if (i->kind != ITEM_WAIT) {
		return i->begin_ns + i->takes_ns;
	}
	return !is_let_go(i) ? i->begin_ns + i->limit_ns : at_ns;
}

static void take_effect(const struct item *i, uint64_t at_ns)
{
	struct lane *l = lane_of(i->context, i->stream);

	l->n--;
	l->end_ns = end_ns(i, at_ns);
	if (i->barrier.pass) {
		i->barrier.pass(i->barrier.owner, i->barrier.argument);
	}
	if (i->run.work.threads > 0) {
		struct fake_run run = i->run;

		run.begin_ns = i->begin_ns;
		run.work.time_ns += i->kind == ITEM_WAIT ? l->end_ns - i->begin_ns : i->lasts_ns;
		trace_executed(i->context, &run);
	}
	if (i->run.graph) {
		gpu_graph_unref(i->run.graph);
	}
	if (i->set) {
		*i->set = 1;
	}
	if (i->gave_up && !is_let_go(i)) {
		++*i->gave_up;
	}
}

/* Begins a look: nothing is blocked yet, and lanes that say nothing about later work are
 * dropped. */
static void begin_look(uint64_t at_ns)
{
	size_t n = 0;

	for (size_t l = 0; l < n_lanes; l++) {
		if (lanes[l].n > 0 || lanes[l].end_ns > at_ns) {
			lanes[n] = lanes[l];
			lanes[n++].blocked = false;
		}
	}
	n_lanes = n;
}

static bool context_is_blocked(CUcontext context)
{
	for (const struct lane *l = lanes; l < lanes + n_lanes; l++) {
		if (l->context == context && l->stream == 0 && l->blocked) {
			return true;
		}
	}
	return false;
}

/* Could nothing end? Asked first, because it saves a walk through thousands of items. */
static bool block(const struct item *i)
{
	struct lane *lane = lane_of(i->context, i->stream);

	if (lane->blocked) {
		return false;
	}
	lane->blocked = true;
	for (const struct lane *l = lanes; l < lanes + n_lanes; l++) {
		if (l->n > 0 && !l->blocked && !context_is_blocked(l->context)) {
			return false;
		}
	}
	return true;
}

/* Looks through the list once. True: something ended, which may let go what was behind it. */
static bool look(uint64_t at_ns)
{
	bool moved = false;

	begin_look(at_ns);
	for (struct item **at = &items; *at;) {
		struct item *i = *at;

		if (!has_ended(i, at_ns)) {
			if (block(i)) {
				break;
			}
			at = &i->next;
			continue;
		}
		take_effect(i, at_ns);
		*at = i->next;
		tail = tail == &i->next ? at : tail;
		free(i);
		moved = true;
	}
	return moved;
}

static void advance(void)
{
	while (items && look(now_ns())) {
	}
}

static void give(const struct item *what)
{
	struct item *i = malloc(sizeof(*i));

	if (!i) {
		abort();
	}
	*i = *what;
	i->next = NULL;
	i->given_ns = now_ns();
	pthread_mutex_lock(&lock);
	i->number = ++last_number;
	lane_of(i->context, i->stream)->n++;
	*tail = i;
	tail = &i->next;
	advance();
	pthread_mutex_unlock(&lock);
}

static volatile uint32_t *argument(void **arguments, size_t n)
{
	return *(volatile uint32_t **)arguments[n];
}

static struct item describe(CUcontext context, CUstream stream, const struct fake_work *work)
{
	struct item i = {
		.context = context,
		.stream = stream_id(stream),
		.kind = ITEM_WORK,
		.run.work = *work,
	};

	i.takes_ns = takes_ns(i.stream);
	i.run.stream = i.stream;
	trace_describe(&i.run.correlation, &i.run.symbol);
	return i;
}

void queue_graph(CUcontext context, CUstream stream, struct fake_graph *graph,
		 const struct fake_work *work)
{
	struct item i = describe(context, stream, work);

	atomic_fetch_add(&graph->references, 1);
	i.run.graph = graph;
	give(&i);
}

void queue_kernel(CUcontext context, CUstream stream, const char *name, void **arguments,
		  const struct fake_work *work, const struct fake_shape *shape)
{
	struct item i = describe(context, stream, work);

	i.run.shape = *shape;
	if (arguments && strstr(name, QUEUE_DELAYS)) {
		i.kind = ITEM_WAIT;
		i.flag = argument(arguments, 0);
		i.limit_ns = *(uint64_t *)arguments[1];
		i.gave_up = argument(arguments, 2);
	} else if (arguments && strstr(name, QUEUE_LASTS)) {
		i.lasts_ns = *(uint64_t *)arguments[0];
		i.takes_ns += i.lasts_ns;
	} else if (arguments && strstr(name, QUEUE_WAITS)) {
		i.kind = ITEM_WAIT;
		i.flag = argument(arguments, 0);
	} else if (arguments && strstr(name, QUEUE_SETS)) {
		i.set = argument(arguments, 0);
	} else if (arguments && strstr(name, QUEUE_MEETS)) {
		i.kind = ITEM_WAIT;
		i.set = argument(arguments, 0);
		i.flag = argument(arguments, 1);
	}
	give(&i);
}

void queue_barrier(CUcontext context, const struct fake_barrier *barrier)
{
	const struct item i = { .context = context, .kind = ITEM_BARRIER, .barrier = *barrier };

	give(&i);
}

void queue_forget(const void *owner)
{
	pthread_mutex_lock(&lock);
	for (struct item *i = items; i; i = i->next) {
		if (i->barrier.pass && i->barrier.owner == owner) {
			i->is_open = i->barrier.is_gone(owner);
			i->barrier.pass = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
}

void queue_wait_barriers(void)
{
	const struct timespec pause = { 0, 200 * 1000 };
	bool found;

	do {
		found = false;
		pthread_mutex_lock(&lock);
		advance();
		for (const struct item *i = items; i && !found; i = i->next) {
			found = i->kind == ITEM_BARRIER;
		}
		pthread_mutex_unlock(&lock);
		if (found) {
			nanosleep(&pause, NULL);
		}
	} while (found);
}

/* Has all work of the context up to that number ended? stream 0: in all streams. */
static bool is_over(CUcontext context, uint32_t stream, uint64_t number)
{
	bool over = true;

	pthread_mutex_lock(&lock);
	advance();
	for (const struct item *i = items; i && over; i = i->next) {
		over = i->number > number || i->context != context ||
		       (stream != 0 && i->stream != stream && i->kind != ITEM_BARRIER);
	}
	pthread_mutex_unlock(&lock);
	return over;
}

static void wait_over(CUcontext context, uint32_t stream)
{
	const struct timespec pause = { 0, 200 * 1000 };

	while (!is_over(context, stream, UINT64_MAX)) {
		nanosleep(&pause, NULL);
	}
}

bool queue_is_idle(CUcontext context)
{
	return is_over(context, 0, UINT64_MAX);
}

void queue_drain(CUcontext context)
{
	wait_over(context, 0);
}

CUresult cuStreamQuery(CUstream stream)
{
	CUcontext c = gpu_stream(stream) ? gpu_stream(stream)->context : gpu_current();
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS || !c) {
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_CONTEXT;
	}
	if (gpu_stream(stream) &&
	    gpu_stream(stream)->capture_status != CU_STREAM_CAPTURE_STATUS_NONE) {
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return is_over(c, stream_id(stream), UINT64_MAX) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	CUcontext c = gpu_stream(stream) ? gpu_stream(stream)->context : gpu_current();
	CUresult r = gpu_ready();

	if (r != CUDA_SUCCESS || !c) {
		return r;
	}
	wait_over(c, stream_id(stream));
	return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream stream, CUdeviceptr addr)
{
	const struct item i = {
		.context = gpu_current(),
		.stream = stream_id(stream),
		.kind = ITEM_WAIT,
		.flag = (const volatile uint32_t *)(uintptr_t)addr,
	};

	if (!i.context) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	give(&i);
	return CUDA_SUCCESS;
}

/* In its place in the stream, waits until the CPU or a kernel writes a number other than 0 to
 * addr. */
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags)
{
	cuStreamWaitValue32_v2_params params = { stream, addr, value, flags };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32_v2,
		    "cuStreamWaitValue32_v2", &params, NULL);
	return trace_exit(&trace, wait_value(stream, addr));
}

static CUresult wait_event(CUstream stream, CUevent event)
{
	const struct item i = {
		.context = gpu_current(),
		.stream = stream_id(stream),
		.kind = ITEM_WAIT,
		.event = event,
	};

	if (!i.context) {
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	give(&i);
	return CUDA_SUCCESS;
}

/* The event may be of another context. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	cuStreamWaitEvent_params params = { stream, event, flags };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, "cuStreamWaitEvent", &params,
		    NULL);
	return trace_exit(&trace, wait_event(stream, event));
}

CUresult cuEventCreate(CUevent *ret, unsigned int flags)
{
	CUcontext context = gpu_current();
	CUevent e = context ? calloc(1, sizeof(*e)) : NULL;

	(void)flags;
	if (!e) {
		return context ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_CONTEXT;
	}
	e->home = context;
	pthread_mutex_lock(&lock);
	e->next = events;
	events = e;
	pthread_mutex_unlock(&lock);
	left_count(LEFT_EVENTS, 1);
	*ret = e;
	return CUDA_SUCCESS;
}

/* Frees one event, or all of a context. */
static void free_events(CUevent event, CUcontext home)
{
	pthread_mutex_lock(&lock);
	for (CUevent *at = &events; *at;) {
		CUevent e = *at;

		if (e != event && e->home != home) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e);
		left_count(LEFT_EVENTS, -1);
	}
	pthread_mutex_unlock(&lock);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	free_events(event, NULL);
	return CUDA_SUCCESS;
}

void queue_end_context(CUcontext context)
{
	queue_drain(context);
	free_events(NULL, context);
}

static void mark(CUevent event, CUcontext context, uint32_t stream)
{
	pthread_mutex_lock(&lock);
	event->context = context;
	event->stream = stream;
	event->number = last_number;
	pthread_mutex_unlock(&lock);
}

/* A stream that captures is spoilt by it (H200). */
CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
	if (gpu_invalidate_stream_captures(context)) {
		fake_violation("cuCtxRecordEvent while a stream captures, which is invalidated");
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	mark(event, context, 0);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUcontext c = gpu_stream(stream) ? gpu_stream(stream)->context : gpu_current();

	mark(event, c, stream_id(stream));
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	return is_over(event->context, event->stream, event->number) ? CUDA_SUCCESS
								     : CUDA_ERROR_NOT_READY;
}
