/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/unit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/guard.h"
#include "client/agent/watch.h"
#include "proto/base/clock.h"
#include "proto/wire/frame.h"
#include "tests/unit/made_clock.h"

/* A capture of one context for the tests of its guard. The GPU is a time for each stream at which
 * its work ends; time itself is the test's, and passes by sleeping. */

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))
#define WORK(n) ((uintptr_t)(0x2000 + 2 * (n)))
#define MS CLOCK_NS_PER_MS
#define US UINT64_C(1000)

enum { STREAMS = 4, EVENTS = 64 };

static struct {
	uint64_t ends_ns[STREAMS];
	unsigned n_asked, n_events, n_recorded;
	unsigned moves_each_us; /* marks are passed one after the other; 0: none is */
	unsigned stands_at;	/* this one is not, nor are those behind it; 0: all are */
	uint64_t begin_ns;
	uint64_t passes_ns[EVENTS]; /* an event, where marks are not moved */
} gpu;

/* --- the GPU --- */

static inline CUresult query(CUstream stream)
{
	size_t i = (uintptr_t)stream - 0x1000; /* default streams have nothing to do */

	gpu.n_asked++;
	return i < STREAMS && made_clock.now_ns < gpu.ends_ns[i] ? CUDA_ERROR_NOT_READY
								 : CUDA_SUCCESS;
}

static inline CUresult create_event(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)(uintptr_t)++gpu.n_events;
	return CUDA_SUCCESS;
}

static inline CUresult destroy_event(CUevent event)
{
	(void)event;
	gpu.n_events--;
	return CUDA_SUCCESS;
}

static inline CUresult record_event(CUevent event, CUstream stream)
{
	assert_in_range((uintptr_t)event, 1, EVENTS - 1);
	gpu.passes_ns[(uintptr_t)event] = gpu.ends_ns[(uintptr_t)stream - 0x1000];
	gpu.n_recorded++;
	return CUDA_SUCCESS;
}

/* Behind the work of all streams. */
static inline CUresult record_context(CUcontext context, CUevent event)
{
	uint64_t *at_ns = &gpu.passes_ns[(uintptr_t)event];

	(void)context;
	*at_ns = 0;
	for (unsigned i = 0; i < STREAMS; i++) {
		*at_ns = gpu.ends_ns[i] > *at_ns ? gpu.ends_ns[i] : *at_ns;
	}
	return CUDA_SUCCESS;
}

static inline CUresult query_event(CUevent event)
{
	uint64_t at_ns = gpu.begin_ns + (uintptr_t)event * gpu.moves_each_us * US;

	if (gpu.stands_at > 0 && (uintptr_t)event >= gpu.stands_at) {
		return CUDA_ERROR_NOT_READY;
	}
	at_ns = gpu.moves_each_us > 0 ? at_ns : gpu.passes_ns[(uintptr_t)event];
	return made_clock.now_ns >= at_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static inline CUresult push_context(CUcontext context)
{
	(void)context;
	return CUDA_SUCCESS;
}

static inline CUresult pop_context(CUcontext *context)
{
	*context = NULL;
	return CUDA_SUCCESS;
}

static const struct profiler profiler = {
	.cuStreamQuery = query,
	.cuEventCreate = create_event,
	.cuEventDestroy = destroy_event,
	.cuEventRecord = record_event,
	.cuEventQuery = query_event,
	.cuCtxRecordEvent = record_context,
	.cuCtxPushCurrent = push_context,
	.cuCtxPopCurrent = pop_context,
};

/* --- a capture of one context --- */

static struct capture c;
static struct ranges r;
static struct batch batch;
static uint8_t proofs;

static inline int begin(void **state)
{
	static const struct wire_agent_welcome welcome;

	(void)state;
	memset(&gpu, 0, sizeof(gpu));
	made_clock = (struct made_clock){ 0, 1000 };
	memset(&c, 0, sizeof(c));
	memset(&r, 0, sizeof(r));
	made_clock.now_ns = gpu.begin_ns = 1000 * CLOCK_NS_PER_S;
	proofs = 0;
	c.profiler = &profiler;
	c.n_contexts = 1;
	c.contexts = &r;
	r.context = (CUcontext)&r;
	deliver_init(&c.deliver);
	c.deliver.state = CAPTURE_MEASURING;
	c.deliver.welcome = &welcome;
	guard_init(&r.guard);
	streams_add(&r.guard.streams, STREAM(0));
	r.state = RANGES_STARTED;
	r.batch = &batch;
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	guard_give_back(&r.guard, &profiler);
	assert_int_equal(gpu.n_events, 0);
	guard_deinit(&r.guard);
	assert_true(deliver_deinit(&c.deliver));
	return 0;
}

static inline struct guard_launch launch(unsigned stream, unsigned work)
{
	return (struct guard_launch){
		.stream = STREAM(stream), .work = WORK(work), .name = "kernel", .proofs = &proofs
	};
}

/* A kernel that takes so long, and its range. */
static inline bool may_close(unsigned stream, unsigned work, uint64_t takes_ns)
{
	const struct guard_launch l = launch(stream, work);

	gpu.ends_ns[stream] = made_clock.now_ns + takes_ns;
	return guard_may_close(&c, &r, &l, true);
}

static inline bool may_open(unsigned stream, unsigned work)
{
	const struct guard_launch l = launch(stream, work);

	return guard_may_open(&c, &r, &l);
}

static inline unsigned count_notices(void)
{
	const struct buffer *b = &c.deliver.notes;
	struct frame f;
	unsigned n = 0;

	for (size_t at = b->start; frame_parse(b->data + at, b->end - at, &f) == 0; n++) {
		at += FRAME_HEADER_BYTES + f.size;
	}
	return n;
}

#define GUARD_TEST(f) TEST_WITH(f, begin, end)
