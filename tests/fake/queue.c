/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake GPU has not done yet.
 *
 * Most work is done as soon as it is given. A few kernels wait, as real ones do that spin on a
 * flag: the names of functions say so (queue.h). Work behind such a kernel in its stream waits with
 * it, and so does what the range profiler puts around a range (a barrier): it waits for all work of
 * the context that came before, and all that comes after waits for it (seen on an H200, CUPTI
 * 2025.3).
 *
 * Nobody runs in the background: each call that wants to know goes through the list first. */

#include "tests/fake/queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum item_kind { ITEM_WORK, ITEM_WAIT, ITEM_BARRIER };

struct item {
	struct item *next;
	uint64_t number;
	CUcontext context;
	uint32_t stream;
	enum item_kind kind;
	const volatile uint32_t *flag;
	volatile uint32_t *set;
};

struct CUevent_st {
	CUcontext context;
	uint32_t stream; /* 0: all of the context */
	uint64_t number; /* of the last item before it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *items; /* oldest first */
static uint64_t last_number;

static uint32_t stream_id(CUstream stream)
{
	const struct CUstream_st *s = gpu_stream(stream);

	if (s) {
		return s->id;
	}
	return stream == CU_STREAM_PER_THREAD ? STREAM_ID_PER_THREAD : STREAM_ID_DEFAULT;
}

static bool comes_first(const struct item *earlier, const struct item *i)
{
	return earlier->context == i->context &&
	       (earlier->stream == i->stream || earlier->kind == ITEM_BARRIER ||
		i->kind == ITEM_BARRIER);
}

static bool can_end(const struct item *i)
{
	for (const struct item *e = items; e != i; e = e->next) {
		if (comes_first(e, i)) {
			return false;
		}
	}
	return i->kind != ITEM_WAIT || *i->flag != 0;
}

/* With the lock held. */
static void advance(void)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (struct item **at = &items; *at;) {
			struct item *i = *at;

			if (i->set && i->kind == ITEM_WAIT) {
				*i->set = 1; /* it runs, and says so before it waits */
			}
			if (!can_end(i)) {
				at = &i->next;
				continue;
			}
			if (i->set) {
				*i->set = 1;
			}
			*at = i->next;
			free(i);
			moved = true;
		}
	}
}

static void give(const struct item *what)
{
	struct item *i = malloc(sizeof(*i)), **at = &items;

	if (!i) {
		abort();
	}
	*i = *what;
	i->next = NULL;
	pthread_mutex_lock(&lock);
	i->number = ++last_number;
	while (*at) {
		at = &(*at)->next;
	}
	*at = i;
	advance();
	pthread_mutex_unlock(&lock);
}

static volatile uint32_t *argument(void **arguments, size_t n)
{
	return *(volatile uint32_t **)arguments[n];
}

void queue_kernel(CUcontext context, CUstream stream, const char *name, void **arguments)
{
	struct item i = { .context = context, .stream = stream_id(stream), .kind = ITEM_WORK };

	if (arguments && strstr(name, QUEUE_WAITS)) {
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

void queue_barrier(CUcontext context)
{
	const struct item i = { .context = context, .kind = ITEM_BARRIER };

	give(&i);
}

/* Has everything of the context up to that number ended? stream 0: in all of them. */
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
	const struct timespec pause = { 0, 1000 * 1000 };

	while (!is_over(context, stream, UINT64_MAX)) {
		nanosleep(&pause, NULL);
	}
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
	if (gpu_stream(stream) && gpu_stream(stream)->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return is_over(c, stream_id(stream), UINT64_MAX) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	CUcontext c = gpu_stream(stream) ? gpu_stream(stream)->context : gpu_current();
	CUresult r = gpu_ready();

	if (r == CUDA_SUCCESS && c) {
		wait_over(c, stream_id(stream));
	}
	return r;
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

/* In the stream's order, until the CPU or a kernel writes a number to addr that is not 0. */
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags)
{
	cuStreamWaitValue32_v2_params params = { stream, addr, value, flags };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32_v2,
		    "cuStreamWaitValue32_v2", &params, NULL);
	return trace_exit(&trace, wait_value(stream, addr));
}

CUresult cuEventCreate(CUevent *ret, unsigned int flags)
{
	(void)flags;
	*ret = calloc(1, sizeof(**ret));
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	free(event);
	return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
	pthread_mutex_lock(&lock);
	*event = (struct CUevent_st){ context, 0, last_number };
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUcontext c = gpu_stream(stream) ? gpu_stream(stream)->context : gpu_current();

	pthread_mutex_lock(&lock);
	*event = (struct CUevent_st){ c, stream_id(stream), last_number };
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	return is_over(event->context, event->stream, event->number) ? CUDA_SUCCESS
								     : CUDA_ERROR_NOT_READY;
}
