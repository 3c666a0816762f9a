/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "client/report/trace.h"

/* The events of a trace, one of each category at most. */
struct seen {
	struct trace_event last[TRACE_END + 1];
	unsigned n[TRACE_END + 1];
	char name[64], thread[64]; /* of the last */
};

static int on_event(const struct trace_event *e, void *userdata)
{
	struct seen *s = userdata;

	s->last[e->category] = *e;
	s->n[e->category]++;
	if (e->category != TRACE_END) {
		snprintf(s->name, sizeof(s->name), "%s", e->name);
		snprintf(s->thread, sizeof(s->thread), "%s", e->thread);
	}
	return 0;
}

static struct seen read_trace(const char *events)
{
	char path[] = "/tmp/test_trace.XXXXXX";
	gzFile text;
	struct buf why = { 0 };
	struct seen seen = { 0 };
	const char *remedy;
	uint64_t bytes;
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	fprintf(file, "{\"traceEvents\":[%s]}\n", events);
	assert_int_equal(fclose(file), 0);
	text = trace_text_open(path);
	assert_non_null(text);
	assert_int_equal(trace_read(text, on_event, &seen, &bytes, &why, &remedy), 0);
	assert_int_equal(bytes, strlen("{\"traceEvents\":[]}\n") + strlen(events));
	gzclose_r(text);
	unlink(path);
	buf_deinit(&why);
	return seen;
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

	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		const struct seen seen = read_trace(launches[i]);
		const struct trace_event *e = &seen.last[TRACE_LAUNCH];

		assert_int_equal(seen.n[TRACE_LAUNCH], 1);
		assert_true(e->begin == 100 && e->us == 5);
		assert_int_equal(e->correlation, 9);
		assert_string_equal(seen.thread, "\"pid\":1,\"tid\":2");
		assert_int_equal(seen.last[TRACE_END].at,
				 strlen("{\"traceEvents\":[") + strlen(launches[i]));
	}
}

/* A moment is no span, nor is a length without a begin. */
TEST(a_span_has_a_begin_and_a_length)
{
	const struct seen seen =
		read_trace("{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"ts\":100},"
			   "{\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"tid\":2,\"dur\":100}");

	assert_int_equal(seen.n[TRACE_OP], 0);
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
	struct seen seen;

	snprintf(both, sizeof(both), "%s%s", odd, kernel);
	seen = read_trace(both);
	assert_int_equal(seen.n[TRACE_KERNEL], 1);
	assert_string_equal(seen.name, "k k");
	assert_int_equal(seen.last[TRACE_KERNEL].correlation, 9);
	assert_int_equal(seen.last[TRACE_KERNEL].args_at,
			 strlen("{\"traceEvents\":[") + strlen(both) - strlen("}}"));
	seen = read_trace("{\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":Infinity,\"dur\":1},"
			  "{\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":NaN,\"dur\":1}");
	assert_int_equal(seen.n[TRACE_OP], 0);
}
