/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/streams.h"

/* Which streams are asked whether they have work, and what follows from the answers. */

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))

static bool busy[64]; /* of the made ones */
static unsigned n_asked;
static struct streams *told; /* of another one, while one is asked */

static CUresult query(CUstream stream)
{
	n_asked++;
	if (told) {
		streams_note(told, STREAM(9), false);
		told = NULL;
	}
	if (stream == CU_STREAM_LEGACY) {
		return CUDA_SUCCESS;
	}
	return busy[(uintptr_t)stream - 0x1000] ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static struct profiler profiler;

static struct streams *begin(size_t n)
{
	static struct streams s;

	profiler.cuStreamQuery = query;
	memset(busy, 0, sizeof(busy));
	streams_init(&s);
	for (size_t i = 0; i < n; i++) {
		streams_add(&s, STREAM(i));
	}
	assert_true(streams_are_idle(&s, &profiler, NULL, NULL)); /* what was there before us */
	n_asked = 0;
	return &s;
}

static bool are_idle(struct streams *s, CUstream except)
{
	return streams_are_idle(s, &profiler, NULL, except);
}

TEST(only_those_with_work_are_asked)
{
	struct streams *s = begin(40);

	busy[7] = busy[8] = true; /* nobody has said so */
	assert_true(are_idle(s, NULL));
	assert_int_equal(n_asked, 0);
	streams_touch(s, STREAM(7));
	streams_touch(s, STREAM(7));
	assert_false(are_idle(s, NULL));
	assert_int_equal(n_asked, 1);
	busy[7] = false;
	assert_true(are_idle(s, NULL));
	assert_int_equal(n_asked, 2);
	assert_true(are_idle(s, NULL)); /* idle until it is given work again */
	assert_int_equal(n_asked, 2);
	streams_deinit(s);
}

/* Without the lock a stream is given more work; what was looked at since is asked again. */
TEST(work_after_a_look_is_asked_for)
{
	struct streams *s = begin(3);

	for (int i = 0; i < 3; i++) {
		streams_touch(s, STREAM(1));
		busy[1] = true;
		assert_false(are_idle(s, NULL));
		busy[1] = false;
		assert_true(are_idle(s, NULL));
	}
	streams_touch(s, STREAM(1));
	streams_remove(s, STREAM(1));
	streams_touch(s, STREAM(1)); /* another one, at the same address */
	busy[1] = true;
	assert_false(are_idle(s, NULL));
	streams_deinit(s);
}

TEST(work_of_an_unknown_stream_is_looked_for)
{
	struct streams *s = begin(40);

	busy[33] = true;
	streams_touch_any(s);
	assert_false(are_idle(s, NULL));
	assert_int_equal(n_asked, 41);	 /* and the default stream */
	assert_false(are_idle(s, NULL)); /* from now on that one alone */
	assert_int_equal(n_asked, 42);
	busy[33] = false;
	assert_true(are_idle(s, NULL));
	streams_deinit(s);
}

TEST(one_may_be_excepted)
{
	struct streams *s = begin(3);

	busy[0] = true;
	streams_touch(s, STREAM(0));
	assert_true(are_idle(s, STREAM(0)));
	assert_false(are_idle(s, STREAM(1)));
	busy[1] = true;
	streams_touch(s, STREAM(1));
	assert_false(are_idle(s, STREAM(0)));
	assert_false(are_idle(s, STREAM(1)));
	streams_deinit(s);
}

/* Wherever it stands among those with work, the others are asked as before. */
TEST(one_of_several_with_work_ends)
{
	enum { N = 3 };

	for (size_t ended = 0; ended < N; ended++) {
		struct streams *s = begin(N + 2); /* two have none */

		for (size_t i = 0; i < N; i++) {
			streams_touch(s, STREAM(i));
			busy[i] = true;
		}
		assert_int_equal(streams_count_busy(s), N);
		streams_remove(s, STREAM(ended));
		assert_int_equal(streams_count_busy(s), N - 1);
		for (size_t last = 0; last < N; last++) {
			if (last == ended) {
				continue;
			}
			assert_false(are_idle(s, NULL));
			n_asked = 0;
			busy[last] = false;
			are_idle(s, NULL);
			assert_in_range(n_asked, 1, N - 1); /* never the one that ended */
		}
		busy[ended] = true;
		assert_true(are_idle(s, NULL));
		for (size_t i = N; i < N + 2; i++) { /* those without work are there as well */
			busy[i] = true;
			streams_touch(s, STREAM(i));
			assert_false(are_idle(s, NULL));
			busy[i] = false;
		}
		streams_deinit(s);
	}
}

TEST(streams_come_and_go)
{
	struct streams *s = begin(0);

	assert_false(streams_has_others(s, STREAM(1)));
	streams_touch(s, STREAM(1)); /* the default stream, by its first launch */
	assert_false(streams_has_others(s, STREAM(1)));
	streams_add(s, STREAM(2));
	assert_true(streams_has_others(s, STREAM(1)));
	busy[1] = busy[2] = true;
	streams_touch(s, STREAM(2));
	streams_remove(s, STREAM(2));
	assert_false(streams_has_others(s, STREAM(1)));
	assert_true(are_idle(s, STREAM(1)));
	streams_remove(s, STREAM(1));
	assert_true(are_idle(s, NULL));
	streams_remove(s, STREAM(5));
	streams_deinit(s);
}

/* --- what no handle asks for --- */

static struct {
	uint64_t given, ended; /* pieces of work, in the order of the context */
	uint64_t event;	       /* behind so many of them */
	unsigned n_recorded;
} context;

static CUresult create_event(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult record_event(CUcontext unused, CUevent event)
{
	(void)unused;
	(void)event;
	context.event = context.given;
	context.n_recorded++;
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
	(void)event;
	return context.ended >= context.event ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static size_t count(struct streams *s)
{
	streams_has_others(s, NULL); /* reads what is noted */
	return s->n;
}

/* The driver tells of streams while it holds what a query waits for. */
TEST(who_is_told_takes_no_lock)
{
	struct streams *s = begin(2);

	told = s;
	streams_touch(s, STREAM(0));
	assert_true(are_idle(s, NULL));
	assert_null(told);
	assert_int_equal(count(s), 3);
	streams_touch(s, STREAM(9));
	busy[9] = true;
	assert_false(are_idle(s, NULL));
	streams_note(s, STREAM(9), true);
	n_asked = 0;
	assert_true(are_idle(s, NULL)); /* it is not asked any more */
	assert_int_equal(n_asked, 0);
	assert_int_equal(count(s), 2);
	streams_deinit(s);
}

/* A new stream may be where an old one was. */
TEST(what_is_told_is_read_in_its_order)
{
	struct streams *s = begin(0);

	for (int i = 0; i < 3; i++) {
		streams_note(s, STREAM(4), false);
		streams_note(s, STREAM(4), true);
	}
	assert_int_equal(count(s), 0);
	streams_note(s, STREAM(4), false);
	streams_note(s, STREAM(4), true);
	streams_note(s, STREAM(4), false);
	assert_int_equal(count(s), 1);
	streams_note(s, STREAM(5), false); /* and nobody reads it */
	streams_deinit(s);
}

static void give(struct streams *s)
{
	context.given++;
	streams_touch(s, CU_STREAM_PER_THREAD);
}

/* Streams that were made before us may have work of which nobody has told. Once that has ended the
 * others are asked as ever. */
TEST(what_was_given_before_a_late_capture_is_waited_for)
{
	struct streams *s = begin(2);

	context.given = 1;
	context.ended = context.event = 0;
	profiler.cuEventCreate = create_event;
	profiler.cuEventDestroy = destroy_event;
	profiler.cuCtxRecordEvent = record_event;
	profiler.cuEventQuery = query_event;
	context.n_recorded = 0;
	s->late = true;
	busy[1] = true;
	streams_touch(s, STREAM(1));
	assert_false(are_idle(s, NULL));
	assert_int_equal(context.n_recorded, 0); /* that is not done for nothing */
	busy[1] = false;
	assert_false(are_idle(s, NULL));
	assert_int_equal(context.n_recorded, 1);
	context.ended = 1;
	assert_true(are_idle(s, NULL));
	n_asked = context.n_recorded = 0;
	streams_touch(s, STREAM(1));
	assert_true(are_idle(s, NULL));
	assert_int_equal(n_asked, 1);
	assert_int_equal(context.n_recorded, 0);
	streams_deinit(s);
	s->late = false;
}

/* An event is behind all that was given before it, and behind nothing that came since. */
TEST(default_streams_of_threads_are_asked_for_by_an_event)
{
	struct streams *s = begin(1);

	memset(&context, 0, sizeof(context));
	profiler.cuEventCreate = create_event;
	profiler.cuEventDestroy = destroy_event;
	profiler.cuCtxRecordEvent = record_event;
	profiler.cuEventQuery = query_event;
	give(s);
	assert_false(are_idle(s, NULL));
	give(s);
	assert_false(are_idle(s, NULL)); /* the last one has not come: another says no more */
	assert_int_equal(context.n_recorded, 1);
	context.ended = 1;
	assert_false(are_idle(s, NULL)); /* it has, and something was given since */
	assert_int_equal(context.n_recorded, 2);
	context.ended = 2;
	assert_true(are_idle(s, NULL));
	assert_true(are_idle(s, NULL));
	assert_int_equal(context.n_recorded, 2);
	give(s);
	assert_false(are_idle(s, NULL));
	context.ended = 3;
	assert_true(are_idle(s, NULL));
	streams_give_back(s, &profiler);
	streams_deinit(s);
}
