/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "client/report/torch.h"

#define BASE "\"baseTimeNanoseconds\":1754654528000000000,"
#define SPAN(cat, name, tid, ts, dur, args)                                                \
	"{\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid ",\"ts\":" ts \
	",\"dur\":" dur ",\"args\":{" args "}}"
#define KERNEL(name, ts, dur, args) SPAN("kernel", name, 7, ts, dur, args)
#define LAUNCH(tid, ts, n) \
	SPAN("cuda_runtime", "cudaLaunchKernel", tid, ts, "2", "\"correlation\":" #n)

static int read_whole(struct torch *t, const char *text, struct buf *why)
{
	char path[] = "/tmp/test_torch.XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	int r;

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	*t = (struct torch){ 0 };
	r = torch_read(t, path, why);
	unlink(path);
	return r;
}

static void read_torch(struct torch *t, const char *around, const char *events)
{
	struct buf text = { 0 }, why = { 0 };

	buf_printf(&text, "{%s\"traceEvents\":[%s]}", around, events);
	assert_int_equal(read_whole(t, buf_string(&text), &why), 0);
	buf_deinit(&text);
	buf_deinit(&why);
}

static struct gpuctr_record record_of(const struct torch *t, size_t i)
{
	struct gpuctr_record r;

	torch_record(t, i, &r);
	return r;
}

/* A double has no room for them. */
static void times_are_exact(void **state)
{
	struct torch t;

	(void)state;
	read_torch(&t, BASE, KERNEL("k", "5086000123.457", "12.003", "\"device\":0"));
	assert_true(record_of(&t, 0).start_ns == INT64_C(1754654528000000000) + 5086000123457);
	assert_true(record_of(&t, 0).duration_ns == 12003);
	torch_deinit(&t);
	read_torch(&t, "", KERNEL("k", "1754654533086123.4567", "1e2", "\"device\":0"));
	assert_true(record_of(&t, 0).start_ns == INT64_C(1754654533086123456));
	assert_true(record_of(&t, 0).duration_ns == 100000);
	assert_false(t.has_base);
	torch_deinit(&t);
}

static void what_a_kernel_says_of_itself(void **state)
{
	struct torch t;
	struct gpuctr_record r;

	(void)state;
	read_torch(&t, "\"deviceProperties\":[{\"id\":1,\"name\":\"NVIDIA H100\"}],",
		   KERNEL("k", "1", "2",
			  "\"grid\":[4,5,6],\"block\":[7,8,9],\"stream\":20,\"device\":1,"
			  "\"context\":3,\"shared memory\":64,\"registers per thread\":40"));
	r = record_of(&t, 0);
	assert_true(r.grid[0] == 4 && r.grid[2] == 6 && r.block[1] == 8);
	assert_true(r.stream == 20 && r.device == 1 && r.context == 3);
	assert_true(r.dynamic_shared_bytes == 64 && r.kernel->registers == 40);
	assert_string_equal(r.kernel->name, "k");
	assert_string_equal(t.process.devices[0].name, "NVIDIA H100");
	torch_deinit(&t);
}

/* The innermost first, as messages of emit_nvtx(). */
static void operators_are_around_launches(void **state)
{
	struct torch t;
	const struct gpuctr_range *g;

	(void)state;
	read_torch(
		&t, "",
		SPAN("cpu_op", "aten::mm", 2, "10", "20", "\"Sequence number\":7,\"Input Dims\":[[2,3],[]]") "," SPAN(
			"user_annotation", "ProfilerStep#4", 2, "5", "100",
			"") "," SPAN("python_function", "nn.Module: Linear_0", 2, "6", "50",
				     "") "," SPAN("python_function", "net.py(3): forward", 2, "7",
						  "40",
						  "") "," SPAN("cpu_op", "aten::of_another_thread",
							       3, "1", "100",
							       "") "," SPAN("cpu_op",
									    "aten::before", 2, "8",
									    "1",
									    "") "," LAUNCH(2, "12",
											   9) "," KERNEL("k",
													 "50",
													 "5",
													 "\"correlation\":9") "," KERNEL("alone",
																	 "60",
																	 "5",
																	 "\"correlation\":10"));
	g = record_of(&t, 0).range;
	assert_string_equal(g->message, "aten::mm, seq = 7, sizes = [[2, 3], []]");
	assert_int_equal(g->depth, 2);
	assert_string_equal(g->parent->message, "Linear_0");
	assert_string_equal(g->parent->parent->message, "ProfilerStep#4");
	assert_true(g->parent->parent->id < g->parent->id && g->parent->id < g->id);
	assert_int_equal(record_of(&t, 0).thread, 2);
	assert_null(record_of(&t, 1).range);
	torch_deinit(&t);
}

/* They come in the order of their launches; those of a graph share one. */
static void kernels_of_a_graph_have_its_launch(void **state)
{
	struct torch t;

	(void)state;
	read_torch(
		&t, "",
		KERNEL("late", "90", "1", "\"correlation\":12") "," SPAN(
			"cpu_op", "aten::op", 2, "1", "9",
			"") "," SPAN("cuda_runtime", "cudaGraphLaunch", 2, "2", "1",
				     "\"correlation\":11") "," KERNEL("a", "20", "1",
								      "\"correlation\":"
								      "11") "," KERNEL("b",
										       "2"
										       "2",
										       "1",
										       "\"correlati"
										       "on\":11"));
	assert_string_equal(record_of(&t, 0).kernel->name, "a");
	assert_string_equal(record_of(&t, 1).kernel->name, "b");
	assert_string_equal(record_of(&t, 2).kernel->name, "late");
	assert_non_null(record_of(&t, 0).range);
	assert_ptr_equal(record_of(&t, 0).range, record_of(&t, 1).range);
	torch_deinit(&t);
}

static void copies_and_fills_are_apart(void **state)
{
	struct torch t;
	struct gpuctr_copy c;

	(void)state;
	read_torch(&t, BASE,
		   SPAN("gpu_memcpy", "Memcpy", 7, "3", "2", "\"bytes\":64,\"device\":2") "," SPAN(
			   "gpu_memset", "Memset", 8, "4", "1",
			   "\"bytes\":5") ","
					  "{\"cat\":\"gpu_memset\",\"name\":\"no time\"}," KERNEL(
						  "k", "9", "1", "\"device\":0"));
	assert_int_equal(t.n_copies, 2);
	assert_int_equal(t.timeless_copies, 1);
	torch_copy(&t, 0, &c);
	assert_true(c.kind == GPUCTR_COPY_MEMORY && c.bytes == 64 && c.device == 2 &&
		    c.stream == 7);
	assert_true(c.start_ns == INT64_C(1754654528000003000) && c.duration_ns == 2000);
	torch_copy(&t, 1, &c);
	assert_true(c.kind == GPUCTR_COPY_SET && c.bytes == 5);
	assert_int_equal(t.process.n_devices, 2);
	torch_deinit(&t);
}

static void what_is_no_trace_is_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "", "not whole JSON" },
		{ "{\"traceEvents\":[" KERNEL("k", "1", "1", ""), "not whole JSON" },
		{ "{\"traceEvents\":[]}", "no kernel" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct buf why = { 0 };
		struct torch t;

		assert_true(read_whole(&t, bad[i][0], &why) < 0);
		assert_non_null(strstr(buf_string(&why), bad[i][1]));
		torch_deinit(&t);
		buf_deinit(&why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_exact),
		cmocka_unit_test(what_a_kernel_says_of_itself),
		cmocka_unit_test(operators_are_around_launches),
		cmocka_unit_test(kernels_of_a_graph_have_its_launch),
		cmocka_unit_test(copies_and_fills_are_apart),
		cmocka_unit_test(what_is_no_trace_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
