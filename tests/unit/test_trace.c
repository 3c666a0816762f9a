/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "client/report/trace.h"

static void read_trace(struct trace *t, const char *events)
{
	char path[] = "/tmp/test_trace.XXXXXX";
	struct trace_text *text;
	struct buf why = { 0 };
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	fprintf(file, "{\"traceEvents\":[%s]}\n", events);
	assert_int_equal(fclose(file), 0);
	text = trace_open(path);
	assert_non_null(text);
	*t = (struct trace){ 0 };
	assert_int_equal(trace_read(t, text, &why), 0);
	trace_close(text);
	unlink(path);
	buf_deinit(&why);
}

/* Whatever stands before it, each number is of its own field. */
static void fields_come_in_any_order(void **state)
{
	static const char *const launches[] = {
		"{\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":2,"
		"\"ts\":100,\"dur\":5,\"args\":{\"correlation\":9}}",
		"{\"dur\":5,\"ts\":100,\"tid\":2,\"pid\":1,\"args\":{\"correlation\":9},"
		"\"name\":\"cudaLaunchKernel\",\"cat\":\"cuda_runtime\"}",
		"{\"tid\":2,\"dur\":5,\"pid\":1,\"ts\":100,\"cat\":\"cuda_runtime\","
		"\"name\":\"cudaLaunchKernel\",\"s\":77,\"args\":{\"correlation\":9}}",
	};
	struct trace t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		read_trace(&t, launches[i]);
		assert_int_equal(t.n_launches, 1);
		assert_true(t.launches[0].begin == 100 && t.launches[0].us == 5);
		assert_int_equal(t.launches[0].correlation, 9);
		assert_string_equal(t.launches[0].thread, "\"pid\":1,\"tid\":2");
		trace_deinit(&t);
	}
}

/* A moment is no span, nor is a length without a begin. */
static void a_span_has_a_begin_and_a_length(void **state)
{
	struct trace t;

	(void)state;
	read_trace(&t, "{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"ts\":100},"
		       "{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"dur\":100}");
	assert_int_equal(t.n_ops, 0);
	trace_deinit(&t);
}

/* What is of none of the categories is left alone, with all its fields. */
static void other_events_are_left_out(void **state)
{
	struct trace t;

	(void)state;
	read_trace(&t, "{\"cat\":\"user_annotation\",\"name\":\"cudaLaunchKernel\",\"ts\":1,"
		       "\"dur\":5,\"args\":{\"correlation\":9}},"
		       "{\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":5,"
		       "\"args\":{\"correlation\":9}}");
	assert_int_equal(t.n, 1);
	assert_int_equal(t.n_launches + t.n_ops + t.n_ranges, 0);
	trace_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_come_in_any_order),
		cmocka_unit_test(a_span_has_a_begin_and_a_length),
		cmocka_unit_test(other_events_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
