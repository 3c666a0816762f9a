/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/stream_captures.h"

/* How many stream captures are under way. One too many, and nothing is measured any more; one too
 * few, and one is invalidated. */

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))
/* Streams with numbers of the same hundreds are in one. */
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x100000 + (n) / 100))

static struct stream_captures s;
static CUstreamCaptureStatus status;

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id)
{
	if (stream != STREAM(0)) {
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	*ret = status;
	*id = 17;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	stream_captures_init(&s);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(atomic_load(&s.n), 0); /* all have ended, and are forgotten */
	assert_int_equal(s.n_known, 0);
	assert_int_equal(s.unnamed, 0);
	stream_captures_deinit(&s);
	return 0;
}

static void began(unsigned stream, uint64_t id, bool success)
{
	stream_captures_began(&s,
			      &(struct stream_capture){ .id = id,
							.context = CONTEXT(stream),
							.stream = STREAM(stream) },
			      success, true);
}

static void meet(unsigned stream, uint64_t id)
{
	stream_captures_meet(&s, &(struct stream_capture){ .id = id,
							   .context = CONTEXT(stream),
							   .stream = STREAM(stream) });
}

static void make(unsigned stream, uint64_t id)
{
	stream_captures_begin(&s);
	began(stream, id, true);
}

static void expect(unsigned n)
{
	assert_int_equal(atomic_load(&s.n), n);
	assert_int_equal(stream_captures_any(&s), n > 0);
}

#define CAPTURES_TEST(f) TEST_WITH(f, begin, end)

CAPTURES_TEST(cuda_tells_the_number_of_active_ones)
{
	const struct profiler p = { .stream_capture_info = capture_info };
	bool captures;

	status = CU_STREAM_CAPTURE_STATUS_NONE;
	assert_int_equal(stream_captures_find(&p, STREAM(0), &captures), 0);
	assert_false(captures);
	status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	assert_int_equal(stream_captures_find(&p, STREAM(0), &captures), 17);
	assert_true(captures);
	status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	assert_int_equal(stream_captures_find(&p, STREAM(0), &captures), 0);
	assert_true(captures);
	assert_int_equal(stream_captures_find(&p, STREAM(1), &captures), 0);
	assert_false(captures);
}

CAPTURES_TEST(they_are_counted_before_they_begin)
{
	assert_true(stream_captures_begin(&s));
	expect(1);
	assert_false(stream_captures_begin(&s));
	began(1, 0, false);
	expect(1);
	began(0, 5, true);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 5, true);
	expect(0);
}

/* The end of one that nobody has met is not the end of another. */
CAPTURES_TEST(early_ones_are_known_by_their_number)
{
	meet(50 + 3, 3);
	meet(50 + 4, 4);
	meet(50 + 3, 3); /* in a stream that has joined it */
	expect(2);
	stream_captures_ended(&s, STREAM(9), 2, true);
	expect(2);
	stream_captures_ended(&s, STREAM(0), 4, true);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 3, true);
	expect(0);
	stream_captures_ended(&s, STREAM(0), 3, true);
	expect(0);
}

/* Another thread's launch may see it before the call that begins it has returned. */
CAPTURES_TEST(one_that_was_met_as_it_began_is_counted_once)
{
	stream_captures_begin(&s);
	meet(50 + 8, 8);
	expect(2);
	began(0, 8, true);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 0, true); /* it was invalidated */
	expect(0);
}

CAPTURES_TEST(invalidated_ones_end_without_a_number)
{
	meet(50 + 0, 0); /* nothing to know it by */
	expect(0);
	make(0, 5);
	make(1, 6);
	meet(50 + 4, 4);
	stream_captures_ended(&s, STREAM(1), 0, true);
	expect(2);
	stream_captures_ended(&s, STREAM(0), 5, true); /* the other one's number is found */
	expect(1);
	stream_captures_ended(&s, STREAM(2), 0, true);
	expect(0);
}

/* --- destroyed --- */

/* id: what CUDA says of the stream. */
static void destroy(unsigned stream, uint64_t id, bool success)
{
	uint32_t number = stream_captures_find_in(&s, STREAM(stream), id);

	if (success) {
		stream_captures_destroyed(&s, number);
	}
}

CAPTURES_TEST(one_ends_with_the_stream_it_began_in)
{
	make(0, 5);
	make(1, 6);
	make(2, 0);
	make(3, 7);
	expect(4);
	destroy(9, 0, true);
	destroy(9, 6, true); /* it has joined another one's, which goes on */
	destroy(1, 6, false);
	expect(4);
	destroy(1, 6, true);
	destroy(1, 6, true);
	expect(3);
	destroy(2, 0, true);
	destroy(3, 0, true); /* it was invalidated */
	expect(1);
	stream_captures_ended(&s, STREAM(0), 5, true);
}

/* A handle may be another stream's by the time that the call returns. */
CAPTURES_TEST(the_next_one_at_the_same_handle_goes_on)
{
	uint32_t number;

	make(0, 5);
	number = stream_captures_find_in(&s, STREAM(0), 5);
	make(0, 6);
	stream_captures_destroyed(&s, number);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 6, true);
}

CAPTURES_TEST(one_that_was_met_ends_with_its_only_stream)
{
	meet(0, 5);
	meet(0, 5);
	meet(1, 6);
	meet(2, 6); /* one of both has joined */
	destroy(0, 5, true);
	expect(1);
	destroy(1, 6, true);
	expect(1);
	stream_captures_ended(&s, STREAM(2), 6, true);
}

CAPTURES_TEST(all_of_a_context_end_with_it)
{
	make(0, 5);
	make(100, 6);
	make(101, 0);
	meet(102, 7);
	meet(3, 8);
	expect(5);
	stream_captures_end_context(&s, CONTEXT(200));
	expect(5);
	stream_captures_end_context(&s, CONTEXT(100));
	expect(2);
	stream_captures_end_context(&s, CONTEXT(0));
}
