/* SPDX-License-Identifier: Apache-2.0 */

/* What the client writes about records: JSON lines, CSV, the table, and the text functions under
 * them. Links client/cli (cli_dep) and libgpuctr. */

#include <time.h>

#include "tests/unit/text_fixture.h"

#include "client/cli/format.h"
#include "client/cli/text.h"
#include "tests/bench/synthetic.h"

static struct attributor *attributor; /* of the records of one test */

/* As whoever has the records does. */
static void write_record(const struct format *format, void *f, struct buf *b,
			 const struct gpuctr_record *record)
{
	struct attribution what;

	assert_int_equal(attributor_take(attributor, record, &what), 0);
	format->write_record(f, b, record, &what);
}

static const struct gpuctr_gpu gpu = {
	.index = 0, .uuid = "GPU-0", .name = "NVIDIA H200", .chip = "GH100"
};
static const char *const command[] = { "python", "n\"et.py", NULL };

static struct format_capture capture_of(const struct synthetic *s)
{
	attributor = attributor ? attributor : attributor_new();
	assert_non_null(attributor);
	attributor_next_capture(attributor);
	return (struct format_capture){ .capture = 7,
					.plan = &s->plan,
					.gpus = &gpu,
					.n_gpus = 1,
					.driver = "580",
					.program = "python",
					.command = command,
					.recorded_from = "",
					.width = 160 };
}

static void test_formats_are_found(void **state)
{
	(void)state;
	assert_ptr_equal(format_find("jsonl"), &format_jsonl);
	assert_ptr_equal(format_find("csv"), &format_csv);
	assert_null(format_find("xml"));
	assert_ptr_equal(format_of_path("/x/a.jsonl"), &format_jsonl);
	assert_ptr_equal(format_of_path("a.csv"), &format_csv);
	assert_ptr_equal(format_of_path("a.json"), &format_jsonl);
	assert_null(format_of_path("a.gpuctr"));
	assert_null(format_of_path(".csv"));
}

static void test_jsonl_head(void **state)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	s.plan.n_columns = s.plan.n_metrics = 1;
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	format_jsonl.write_head(f, &b);
	expect_contains(&b, "{\"type\":\"capture\",\"format\":1,\"capture\":7,\"version\":\"");
	expect_contains(
		&b,
		"\"program\":\"python\",\"command\":[\"python\",\"n\\\"et.py\"],\"chip\":\"GH100\","
		"\"driver\":\"580\",\"passes\":1,\"replayed\":false,\"caches_flushed\":false,"
		"\"recorded\":false,"
		"\"recorded_from\":\"\",\"columns\":[{\"name\":\"dram__bytes_read.sum\","
		"\"unit\":\"byte\",\"of_range\":false}],\"metrics\":[\"dram__bytes_read.sum\"],"
		"\"gpus\":[{\"index\":0,\"uuid\":\"GPU-0\",\"name\":\"NVIDIA H200\","
		"\"chip\":\"GH100\"}]}\n");
	format_jsonl.close(f);
	buf_deinit(&b);
}

/* Processes number their ranges each for itself, so the same numbers are other ranges in another
 * process. */
static void test_jsonl_active_ranges_of_two_processes(void **state)
{
	static struct synthetic s;
	struct gpuctr_range ranges[2] = {
		{ .domain = "", .message = "of one", .category = "", .id = 5 },
		{ .domain = "", .message = "of two", .category = "", .id = 5 },
	};
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	for (unsigned i = 0; i < 4; i++) {
		const struct gpuctr_range *active[] = { &ranges[i % 2] };
		struct gpuctr_record record = *synthetic_record(&s, i);

		record.process = 1 + i % 2;
		record.active = active;
		record.n_active = 1;
		write_record(&format_jsonl, f, &b, &record);
		expect_contains(&b, i % 2 ? "\"of two\"" : "\"of one\"");
		assert_null(strstr(buf_string(&b), i % 2 ? "\"of one\"" : "\"of two\""));
		buf_clear(&b);
	}
	format_jsonl.close(f);
	buf_deinit(&b);
}

static void test_jsonl_record(void **state)
{
	static struct synthetic s;
	static double values[] = { 1024, NAN, 0.25 };
	struct gpuctr_range payload = { .domain = "d\n",
					.message = "p",
					.category = "",
					.id = 999,
					.payload_type = 2,
					.payload = (uint64_t)-5 };
	const struct gpuctr_range *active[] = { &payload };
	struct format_capture capture;
	struct gpuctr_record record;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	s.kernels[3].name = "k(\"x\")";
	s.kernels[3].mangled = "_Zk";
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	format_jsonl.write_process(f, &b, &s.process);
	expect_contains(&b,
			"{\"type\":\"process\",\"process\":1,\"pid\":4711,\"program\":\"python3\"");
	buf_clear(&b);
	record = *synthetic_record(&s, 3);
	record.kind = GPUCTR_LAUNCH_COOPERATIVE;
	record.range = &s.ranges[1];
	record.active = active;
	record.n_active = 1;
	record.duration_ns = -1;
	record.clock = GPUCTR_CLOCK_NONE;
	record.values = values;
	write_record(&format_jsonl, f, &b, &record);
	expect_text(
		&b,
		"{\"type\":\"kernel\",\"index\":3,\"process\":1,\"pid\":4711,\"kind\":"
		"\"cooperative\","
		"\"kernel\":\"k(\\\"x\\\")\",\"mangled\":\"_Zk\",\"static_shared_bytes\":1024,"
		"\"registers\":32,\"grid\":[4,2,1],\"block\":[256,1,1],\"dynamic_shared_bytes\":"
		"49152,"
		"\"device\":0,\"uuid\":\"GPU-00000000-1111-2222-3333-444444444444\",\"context\":1,"
		"\"stream\":7,\"correlation\":103,\"thread\":4711,\"start_ns\":1760000000000150000,"
		"\"duration_ns\":null,\"clock\":\"none\",\"metrics\":{\"dram__bytes_read.sum\":"
		"1024,"
		"\"dram__bytes_write.sum\":null,\"gpu__time_duration.sum\":0.25},"
		"\"op\":null,\"seq\":null,\"sizes\":null,\"dir\":null,\"layer\":\"forward 0\","
		"\"nvtx\":[{\"domain\":\"\",\"message\":\"step "
		"0\",\"category\":\"\",\"color\":null,"
		"\"payload\":null},{\"domain\":\"\",\"message\":\"forward 0\",\"category\":\"\","
		"\"color\":null,\"payload\":null}],\"ranges\":[{\"domain\":\"d\\n\",\"message\":"
		"\"p\","
		"\"category\":\"\",\"color\":null,\"payload\":-5}]}\n");
	/* Another process, unknown device, the same ids: nothing of the first may show. */
	record.process = 2;
	record.kernel = &s.kernels[4];
	record.range = NULL;
	record.n_active = 0;
	record.device = 77;
	record.duration_ns = 1500;
	record.clock = GPUCTR_CLOCK_GPU;
	s.kernels[4].static_shared_bytes = s.kernels[4].registers = -1;
	write_record(&format_jsonl, f, &b, &record);
	expect_contains(&b, "\"static_shared_bytes\":null,\"registers\":null,");
	expect_contains(&b, "\"duration_ns\":1500,\"clock\":\"gpu\",");
	expect_contains(&b, "\"process\":2,\"pid\":0,");
	expect_contains(&b, "\"device\":77,\"uuid\":\"\",");
	expect_contains(&b, "\"op\":null,\"seq\":null,\"sizes\":null,\"dir\":null,\"layer\":"
			    "null,\"nvtx\":[],\"ranges\":[]}\n");
	format_jsonl.close(f);
	buf_deinit(&b);
}

/* Forward and backward of one operator; the latter has its layer by autograd's number alone. Text
 * of one range is not taken for that of another, nor for what the range said before. */
static void test_operators_are_columns(void **state)
{
	static struct synthetic s;
	static struct gpuctr_range layer = {
		.domain = "", .message = "l\"1", .category = "", .id = 5
	};
	static struct gpuctr_range mm = { .parent = &layer,
					  .domain = "",
					  .message =
						  "aten::mm, seq = 7, op_id = 3, sizes = [[2, 3], "
						  "[3, 4], []]",
					  .category = "",
					  .id = 6,
					  .depth = 1 };
	static struct gpuctr_range engine = {
		.domain = "",
		.message = "autograd::engine::evaluate_function: MmBackward0, op_id = 8",
		.category = "",
		.id = 7
	};
	static struct gpuctr_range node = { .parent = &engine,
					    .domain = "",
					    .message = "MmBackward0, seq = 7, op_id = 9",
					    .category = "",
					    .id = 8,
					    .depth = 1 };
	static const struct {
		const struct gpuctr_range *range;
		const char *json, *csv;
	} cases[] = {
		{ &mm,
		  "\"op\":\"aten::mm\",\"seq\":7,\"sizes\":\"[2,3] [3,4]\",\"dir\":\"fprop\","
		  "\"layer\":\"l\\\"1\",",
		  ",aten::mm,7,\"[2,3] [3,4]\",fprop,\"l\"\"1\"," },
		{ &engine,
		  "\"op\":\"autograd::engine::evaluate_function: MmBackward0\",\"seq\":null,"
		  "\"sizes\":null,\"dir\":\"bprop\",\"layer\":null,",
		  ",autograd::engine::evaluate_function: MmBackward0,,,bprop,," },
		{ &node,
		  "\"op\":\"MmBackward0\",\"seq\":7,\"sizes\":null,\"dir\":\"bprop\","
		  "\"layer\":\"l\\\"1\",",
		  ",MmBackward0,7,,bprop,\"l\"\"1\"," },
		{ &engine,
		  "\"op\":\"autograd::engine::evaluate_function: MmBackward0\",\"seq\":7,"
		  "\"sizes\":null,\"dir\":\"bprop\",\"layer\":\"l\\\"1\",",
		  ",autograd::engine::evaluate_function: MmBackward0,7,,bprop,\"l\"\"1\"," },
		{ &layer, "\"op\":null,\"seq\":null,\"sizes\":null,\"dir\":null,",
		  ",,,,,\"l\"\"1\"," },
	};
	struct format_capture capture;
	struct gpuctr_record record;
	struct buf b = { 0 };
	void *json, *csv;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	json = format_jsonl.open(&capture);
	csv = format_csv.open(&capture);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		record = *synthetic_record(&s, (unsigned)i);
		record.range = cases[i].range;
		write_record(&format_jsonl, json, &b, &record);
		expect_contains(&b, cases[i].json);
		buf_clear(&b);
		write_record(&format_csv, csv, &b, &record);
		expect_contains(&b, cases[i].csv);
		buf_clear(&b);
	}
	format_jsonl.close(json);
	format_csv.close(csv);
	buf_deinit(&b);
}

static void test_jsonl_payloads(void **state)
{
	static struct synthetic s;
	static const struct {
		unsigned type;
		uint64_t bits;
		const char *text;
	} cases[] = {
		{ 0, 5, "null" },
		{ 1, UINT64_MAX, "18446744073709551615" },
		{ 2, (uint64_t)-1, "-1" },
		{ 3, UINT64_C(0x3ff8000000000000), "1.5" },
		{ 3, UINT64_C(0x7ff8000000000000), "null" },
		{ 4, 4294967295u, "4294967295" },
		{ 5, 4294967295u, "-1" },
		{ 6, 0x3fc00000, "1.5" },
		{ 99, 1, "null" },
	};
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct gpuctr_range range = { .domain = "",
						    .message = "m",
						    .category = "",
						    .payload_type = cases[i].type,
						    .payload = cases[i].bits,
						    .color = 0x0a0b0c0d,
						    .id = 1 };
		const struct gpuctr_mark mark = { 1, &range, 2, 3 };
		char expected[192];

		snprintf(expected, sizeof(expected),
			 "{\"type\":\"mark\",\"process\":1,\"thread\":2,\"time_ns\":3,\"mark\":{"
			 "\"domain\":\"\","
			 "\"message\":\"m\",\"category\":\"\",\"color\":\"#0a0b0c0d\",\"payload\":%"
			 "s}}\n",
			 cases[i].text);
		format_jsonl.write_mark(f, &b, &mark);
		expect_text(&b, expected);
	}
	format_jsonl.close(f);
	buf_deinit(&b);
}

/* More stacks than the cache has slots, and each must be its own. */
static void test_jsonl_with_many_stacks(void **state)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	for (unsigned i = 0; i < 30000; i++) {
		char message[32], expected[64];
		const struct gpuctr_range range = {
			.domain = "", .message = message, .category = "", .id = i % 10000 + 1
		};
		struct gpuctr_record record = *synthetic_record(&s, i);

		snprintf(message, sizeof(message), "op %u", i % 10000);
		snprintf(expected, sizeof(expected),
			 "\"nvtx\":[{\"domain\":\"\",\"message\":\"op %u\",", i % 10000);
		record.range = &range;
		write_record(&format_jsonl, f, &b, &record);
		expect_contains(&b, expected);
		buf_clear(&b);
	}
	format_jsonl.close(f);
	buf_deinit(&b);
}

static void test_jsonl_end(void **state)
{
	static struct synthetic s;
	const struct gpuctr_end well = { .totals = { .seen = 9, .measured = 8, .dropped = 1 },
					 .processes = 2 };
	const struct gpuctr_end ill = { .error = { GPUCTR_E_REVOKED, "cause", "cure" } };
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_jsonl.open(&capture);
	format_jsonl.write_end(f, &b, &well);
	expect_text(&b,
		    "{\"type\":\"totals\",\"processes\":2,\"seen\":9,\"measured\":8,\"filtered\":0,"
		    "\"capturing\":0,\"unready\":0,\"failed\":0,\"dropped\":1,\"lost\":0,"
		    "\"unchosen\":0,\"error\":"
		    "null}\n");
	format_jsonl.write_end(f, &b, &ill);
	expect_contains(
		&b,
		"\"error\":{\"code\":\"revoked\",\"message\":\"cause\",\"remedy\":\"cure\"}}\n");
	format_jsonl.close(f);
	buf_deinit(&b);
}

static unsigned count_fields(const char *line)
{
	unsigned fields = 1;
	bool quoted = false;

	for (; *line && (quoted || *line != '\r'); line++) {
		quoted ^= *line == '"';
		fields += !quoted && *line == ',';
	}
	return fields;
}

static void test_csv(void **state)
{
	static struct synthetic s;
	static double values[] = { 1024, NAN, 0.25 };
	struct format_capture capture;
	const struct gpuctr_kernel unknown = {
		.name = "k", .mangled = "_k", .static_shared_bytes = -1, .registers = -1, .id = 900
	};
	struct gpuctr_record record;
	struct buf b = { 0 };
	unsigned fields;
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_csv.open(&capture);
	format_csv.write_head(f, &b);
	expect_contains(&b, "process,pid,index,kind,kernel,mangled,");
	expect_contains(&b, ",dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum,"
			    "nvtx,op,seq,sizes,dir,layer,ranges,recorded_from\r\n");
	fields = count_fields(buf_string(&b));
	buf_clear(&b);
	format_csv.write_process(f, &b, &s.process);
	assert_int_equal(b.n, 0);
	record = *synthetic_record(&s, 3);
	record.values = values;
	write_record(&format_csv, f, &b, &record);
	assert_int_equal(count_fields(buf_string(&b)), fields);
	expect_contains(&b, "1,4711,3,kernel,\"void at::native::vectorized_elementwise_kernel<3, ");
	expect_contains(&b, ",1024,32,4,2,1,");
	expect_contains(
		&b, ",5003,range,1024,,0.25,\"step 0/forward 0/layer0.0.conv1/aten::convolution, "
		    "seq = 0\",aten::convolution,0,,fprop,forward 0/layer0.0.conv1,,\r\n");
	buf_clear(&b);
	record.kernel = &unknown;
	record.range = NULL;
	record.duration_ns = -1;
	record.clock = GPUCTR_CLOCK_NONE;
	write_record(&format_csv, f, &b, &record);
	assert_int_equal(count_fields(buf_string(&b)), fields);
	expect_contains(&b, ",k,_k,,,4,2,1,");
	expect_contains(&b, ",,none,1024,,0.25,,,,,,,,\r\n");
	record.kernel = NULL;
	write_record(&format_csv, f, &b, &record);
	assert_int_equal(count_fields(strchr(buf_string(&b), '\n') + 1), fields);
	buf_clear(&b);
	s.process.process = record.process = 2;
	s.process.recorded_from = "NVIDIA H200 (GH100), driver 580.159.04";
	format_csv.write_process(f, &b, &s.process);
	write_record(&format_csv, f, &b, &record);
	expect_contains(&b,
			",,none,1024,,0.25,,,,,,,,\"NVIDIA H200 (GH100), driver 580.159.04\"\r\n");
	format_csv.close(f);
	buf_deinit(&b);
}

/* A file may nest ranges as deep as it is long: no format may need a stack for that, or repeat all
 * of them with each record. */
static void test_a_stack_of_a_million_ranges(void **state)
{
	enum { DEPTH = 1000000 };
	static const struct format *const all[] = { &format_jsonl, &format_csv, &format_table };
	struct gpuctr_range *ranges = calloc(DEPTH, sizeof(*ranges));
	static struct synthetic s;
	struct format_capture capture;
	struct gpuctr_record record;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	assert_non_null(ranges);
	for (unsigned i = 0; i < DEPTH; i++) {
		ranges[i] = (struct gpuctr_range){ .parent = i ? &ranges[i - 1] : NULL,
						   .domain = "",
						   .message = i ? "x" : "outermost",
						   .category = "",
						   .id = i + 1,
						   .depth = i };
	}
	record = *synthetic_record(&s, 3);
	record.range = &ranges[DEPTH - 1];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool is_table = all[i] == &format_table;
		void *f = all[i]->open(&capture);
		struct buf b = { 0 };

		all[i]->write_head(f, &b);
		write_record(all[i], f, &b, &record);
		assert_false(b.failed);
		expect_lacks(&b, "outermost");
		assert_true(b.n < (is_table ? 4096 : DEPTH));
		expect_contains(&b, is_table		    ? "...x/x"
				    : all[i] == &format_csv ? "../x/x"
							    : "\"..\"");
		all[i]->close(f);
		buf_deinit(&b);
	}
	free(ranges);
}

static double table_seconds(size_t length)
{
	enum { RECORDS = 50 };
	struct gpuctr_range range = { .domain = "", .category = "", .id = 1 };
	static struct synthetic s;
	struct format_capture capture;
	struct gpuctr_record record;
	struct buf message = { 0 }, b = { 0 };
	struct timespec begin, end;
	void *f;

	synthetic_init(&s);
	capture = capture_of(&s);
	while (message.n < length) {
		buf_text(&message, "\xe6\x97\xa5x");
	}
	buf_text(&message, "the end");
	range.message = buf_string(&message);
	record = *synthetic_record(&s, 3);
	record.range = &range;
	f = format_table.open(&capture);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (int i = 0; i < RECORDS; i++) {
		write_record(&format_table, f, &b, &record);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	expect_contains(&b, "\xe6\x97\xa5xthe end\n");
	assert_true(b.n < RECORDS * 400);
	format_table.close(f);
	buf_deinit(&b);
	buf_deinit(&message);
	return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* A message of sixteen times the length took 256 times as long. */
static void test_table_cuts_long_paths_at_once(void **state)
{
	double least = INFINITY;

	(void)state;
	for (int i = 0; i < 5 && least >= 64; i++) {
		double few = table_seconds(1000), many = table_seconds(16000);

		least = fmin(least, many / few);
	}
	assert_true(least < 64);
}

static void test_table_is_aligned(void **state)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	size_t at = 0;
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	f = format_table.open(&capture);
	format_table.write_head(f, &b);
	for (unsigned i = 0; i < 3000; i += 700) {
		synthetic_record(&s, i);
		s.record.clock = i % 1400 ? GPUCTR_CLOCK_GPU : GPUCTR_CLOCK_RANGE;
		write_record(&format_table, f, &b, &s.record);
	}
	at = (size_t)(strstr(buf_string(&b), "# * length") - buf_string(&b));
	assert_null(strstr(buf_string(&b) + at + 1, "# * length")); /* said once */
	at = 0;
	expect_contains(&b, " 5.00 us* ");
	expect_contains(&b, " 5.70 us ");
	/* "nvtx" and all paths begin in one column. */
	for (char *line = strtok((char *)buf_string(&b), "\n"); line; line = strtok(NULL, "\n")) {
		const char *path =
			strstr(line, "nvtx") ? strstr(line, "nvtx") : strstr(line, "...");

		if (line[0] == '#') {
			continue;
		}
		if (!path) {
			path = strstr(line, "step");
		}
		assert_non_null(path);
		at = at ? at : (size_t)(path - line);
		assert_int_equal(path - line, at);
	}
	format_table.close(f);
	buf_deinit(&b);
}

/* What a terminal would break is cut or left out instead. */
static void test_table_fits_a_terminal(void **state)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	void *f;

	(void)state;
	synthetic_init(&s);
	capture = capture_of(&s);
	capture.fits = true;
	for (capture.width = 78; capture.width <= 300; capture.width += 6) {
		f = format_table.open(&capture);
		buf_clear(&b);
		format_table.write_head(f, &b);
		for (unsigned i = 0; i < 3000; i += 700) {
			synthetic_record(&s, i);
			write_record(&format_table, f, &b, &s.record);
		}
		for (char *line = strtok((char *)buf_string(&b), "\n"); line;
		     line = strtok(NULL, "\n")) {
			if (line[0] != '#' && text_width(line, strlen(line)) > capture.width) {
				fail_msg("more than %zu columns: %s", capture.width, line);
			}
		}
		format_table.close(f);
	}
	buf_deinit(&b);
}

/* Which group a launch has the values of, and nothing of it where there is one. */
static void test_turns_are_told(void **state)
{
	static double values[] = { 1024, NAN, NAN };
	static const struct format *const both[] = { &format_jsonl, &format_csv };
	static const char *const heads[] = { ",\"group\":1,\"of_range\"",
					     ",recorded_from,group\r\n" };
	static const char *const lines[] = {
		",\"group\":1,\"metrics\":{\"dram__bytes_read.sum\":1024,"
		"\"dram__bytes_write.sum\":null,",
		",1\r\n"
	};

	(void)state;
	for (unsigned groups = 1; groups <= 2; groups++) {
		for (int i = 0; i < 2; i++) {
			static struct synthetic s;
			struct format_capture capture;
			struct gpuctr_record record;
			struct buf b = { 0 };
			void *f;

			synthetic_init(&s);
			s.plan.groups = s.plan.passes = groups;
			s.columns[0].group = 1;
			capture = capture_of(&s);
			f = both[i]->open(&capture);
			both[i]->write_head(f, &b);
			(groups > 1 ? expect_contains : expect_lacks)(&b, heads[i]);
			buf_clear(&b);
			record = *synthetic_record(&s, 3);
			record.values = values;
			record.group = 1;
			write_record(both[i], f, &b, &record);
			(groups > 1 ? expect_contains : expect_lacks)(&b, lines[i]);
			both[i]->close(f);
			buf_deinit(&b);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns_are_told),
		cmocka_unit_test(test_formats_are_found),
		cmocka_unit_test(test_jsonl_head),
		cmocka_unit_test(test_jsonl_record),
		cmocka_unit_test(test_jsonl_active_ranges_of_two_processes),
		cmocka_unit_test(test_operators_are_columns),
		cmocka_unit_test(test_jsonl_payloads),
		cmocka_unit_test(test_jsonl_with_many_stacks),
		cmocka_unit_test(test_jsonl_end),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_a_stack_of_a_million_ranges),
		cmocka_unit_test(test_table_cuts_long_paths_at_once),
		cmocka_unit_test(test_table_is_aligned),
		cmocka_unit_test(test_table_fits_a_terminal),
	};

	return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
