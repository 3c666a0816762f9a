/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/stream_captures.h"

/* How many stream captures are under way. One too many, and nothing is measured any more; one too
 * few, and one is invalidated. */

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))

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

static void make(unsigned stream, uint64_t id)
{
	stream_captures_begin(&s);
	stream_captures_began(&s, STREAM(stream), id, true, true);
}

static void expect(unsigned n)
{
	assert_int_equal(atomic_load(&s.n), n);
	assert_int_equal(stream_captures_any(&s), n > 0);
}

static void cuda_tells_the_number_of_active_ones(void **state)
{
	const struct profiler p = { .stream_capture_info = capture_info };
	bool captures;

	(void)state;
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

static void they_are_counted_before_they_begin(void **state)
{
	(void)state;
	assert_true(stream_captures_begin(&s));
	expect(1);
	assert_false(stream_captures_begin(&s));
	stream_captures_began(&s, STREAM(1), 0, false, true);
	expect(1);
	stream_captures_began(&s, STREAM(0), 5, true, true);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 5, true);
	expect(0);
}

/* The end of one that nobody has met is not the end of another. */
static void early_ones_are_known_by_their_number(void **state)
{
	(void)state;
	stream_captures_meet(&s, 3);
	stream_captures_meet(&s, 4);
	stream_captures_meet(&s, 3); /* in a stream that has joined it */
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
static void one_that_was_met_as_it_began_is_counted_once(void **state)
{
	(void)state;
	stream_captures_begin(&s);
	stream_captures_meet(&s, 8);
	expect(2);
	stream_captures_began(&s, STREAM(0), 8, true, true);
	expect(1);
	stream_captures_ended(&s, STREAM(0), 0, true); /* it was invalidated */
	expect(0);
}

static void invalidated_ones_end_without_a_number(void **state)
{
	(void)state;
	stream_captures_meet(&s, 0); /* nothing to know it by */
	expect(0);
	make(0, 5);
	make(1, 6);
	stream_captures_meet(&s, 4);
	stream_captures_ended(&s, STREAM(1), 0, true);
	expect(2);
	stream_captures_ended(&s, STREAM(0), 5, true); /* the other one's number is found */
	expect(1);
	stream_captures_ended(&s, STREAM(2), 0, true);
	expect(0);
}

/* More than there is room for, and those that CUDA tells no number of. */
static void unnamed_ones_are_counted(void **state)
{
	const unsigned n = STREAM_CAPTURES_MAX + 10;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		make(i, 100 + i);
	}
	make(n, 0);
	expect(n + 1);
	stream_captures_meet(&s, 99); /* there is no room to know it again */
	expect(n + 1);
	stream_captures_ended(&s, STREAM(n), 0, true);
	for (unsigned i = n; i-- > 0;) {
		expect(i + 1);
		stream_captures_ended(&s, STREAM(i), 100 + i, true);
	}
	expect(0);
	stream_captures_ended(&s, STREAM(0), 100, true);
	expect(0);
}

#define CAPTURES_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPTURES_TEST(cuda_tells_the_number_of_active_ones),
		CAPTURES_TEST(they_are_counted_before_they_begin),
		CAPTURES_TEST(early_ones_are_known_by_their_number),
		CAPTURES_TEST(one_that_was_met_as_it_began_is_counted_once),
		CAPTURES_TEST(invalidated_ones_end_without_a_number),
		CAPTURES_TEST(unnamed_ones_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
