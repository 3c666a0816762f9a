/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "client/report/trace.h"

static void read_trace(struct trace *t, const char *events)
{
	char path[] = "/tmp/test_trace.XXXXXX";
	struct trace_text *text;
	struct buf why = { 0 };
	const char *remedy;
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	fprintf(file, "{\"traceEvents\":[%s]}\n", events);
	assert_int_equal(fclose(file), 0);
	text = trace_text_open(path);
	assert_non_null(text);
	*t = (struct trace){ 0 };
	assert_int_equal(trace_read(t, text, &why, &remedy), 0);
	trace_text_close(text);
	unlink(path);
	buf_deinit(&why);
}

/* Whatever stands before it, each number is of its own field. */
TEST(fields_come_in_any_order)
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

	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		read_trace(&t, launches[i]);
		assert_int_equal(t.n_launches, 1);
		assert_true(t.launches[0].place.begin == 100 && t.launches[0].us == 5);
		assert_int_equal(t.launches[0].correlation, 9);
		assert_string_equal(t.launches[0].place.thread, "\"pid\":1,\"tid\":2");
		trace_deinit(&t);
	}
}

/* A moment is no span, nor is a length without a begin. */
TEST(a_span_has_a_begin_and_a_length)
{
	struct trace t;

	read_trace(&t, "{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"ts\":100},"
		       "{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"dur\":100}");
	assert_int_equal(t.n_ops, 0);
	trace_deinit(&t);
}

/* As torch.profiler writes them: control characters in names, NaN and Infinity; what follows is
 * read as ever, at its own offset. */
TEST(what_is_no_json_is_taken)
{
	static const char odd[] = "{\"cat\":\"x\",\"name\":\"a\n\tb\\\\\",\"ts\":Infinity,\"args\":"
				  "{\"a\":NaN,\"b\":[-Infinity,NaN]}},";
	static const char kernel[] = "{\"cat\":\"Kernel\",\"name\":\"k\x01k\",\"dur\":5,"
				     "\"args\":{\"x\":NaN,\"correlation\":9}}";
	char both[sizeof(odd) + sizeof(kernel)];
	struct trace t;

	snprintf(both, sizeof(both), "%s%s", odd, kernel);
	read_trace(&t, both);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.kernels[0].text, "k k");
	assert_int_equal(t.kernels[0].correlation, 9);
	assert_int_equal(t.kernels[0].at,
			 strlen("{\"traceEvents\":[") + strlen(both) - strlen("}}"));
	trace_deinit(&t);
	read_trace(&t, "{\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":Infinity,\"dur\":1},"
		       "{\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":NaN,\"dur\":1}");
	assert_int_equal(t.n_ops, 0);
	trace_deinit(&t);
}
