/* SPDX-License-Identifier: Apache-2.0 */

/* What the client writes about records: JSON lines, CSV, and the text functions under them. Links
 * client/cli (cli_dep) and libgpuctr. */

#include "tests/unit/text_fixture.h"

#include "client/cli/export.h"
#include "client/cli/jsonl.h"
#include "client/cli/text.h"
#include "tests/bench/synthetic.h"

static struct attributor *attributor; /* of the records of one test */

/* As whoever has the records does. */
static void write_json(struct jsonl *j, struct buf *b, const struct gpuctr_record *record)
{
	struct attribution what;

	assert_int_equal(attributor_take(attributor, record, &what), 0);
	jsonl_record(j, b, record, &what);
}

static void write_csv(void *csv, struct buf *b, const struct gpuctr_record *record)
{
	struct attribution what;

	assert_int_equal(attributor_take(attributor, record, &what), 0);
	assert_int_equal(export_csv.record(csv, b, record, &what), 0);
}

static void *open_csv(struct store_info *info, const struct synthetic *s)
{
	const struct exporter_options options = { 0 };
	struct exporter_refusal refusal = { 0 };

	*info = (struct store_info){ .plan = s->plan };
	return export_csv.open(info, &options, &refusal);
}

static void write_csv_process(void *csv, struct buf *b, const struct synthetic *s)
{
	const struct store_process process = { .process = s->process };

	assert_int_equal(export_csv.process(csv, b, &process), 0);
}

static const struct gpuctr_gpu gpu = {
	.index = 0, .uuid = "GPU-0", .name = "NVIDIA H200", .chip = "GH100"
};
static const char *const command[] = { "python", "n\"et.py", NULL };

static struct format_capture capture_of(const struct synthetic *s)
{
	attributor_free(attributor);
	attributor = attributor_new();
	assert_non_null(attributor);
	return (struct format_capture){ .capture = 7,
					.plan = &s->plan,
					.gpus = &gpu,
					.n_gpus = 1,
					.driver = "580",
					.program = "python",
					.command = command,
					.recorded_from = "" };
}

TEST(test_jsonl_head)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	struct jsonl *f;

	synthetic_init(&s);
	s.plan.n_columns = s.plan.n_metrics = 1;
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	jsonl_head(f, &b);
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
	jsonl_free(f);
	buf_deinit(&b);
}

/* Processes number their ranges each for itself, so the same numbers are other ranges in another
 * process. */
TEST(test_jsonl_active_ranges_of_two_processes)
{
	static struct synthetic s;
	struct gpuctr_site ranges[2] = {
		{ .domain = "", .name = "of one", .sizes = "", .category = "", .id = 5 },
		{ .domain = "", .name = "of two", .sizes = "", .category = "", .id = 5 },
	};
	struct format_capture capture;
	struct buf b = { 0 };
	struct jsonl *f;

	synthetic_init(&s);
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	for (unsigned i = 0; i < 4; i++) {
		const struct gpuctr_site *active[] = { &ranges[i % 2] };
		struct gpuctr_record record = *synthetic_record(&s, i);

		record.process = 1 + i % 2;
		record.active = active;
		record.n_active = 1;
		write_json(f, &b, &record);
		expect_contains(&b, i % 2 ? "\"of two\"" : "\"of one\"");
		assert_null(strstr(buf_string(&b), i % 2 ? "\"of one\"" : "\"of two\""));
		buf_clear(&b);
	}
	jsonl_free(f);
	buf_deinit(&b);
}

TEST(test_jsonl_record)
{
	static struct synthetic s;
	static double values[] = { 1024, NAN, 0.25 };
	struct gpuctr_site other = {
		.domain = "d\n", .name = "p", .sizes = "", .category = "", .id = 999
	};
	const struct gpuctr_site *active[] = { &other };
	struct format_capture capture;
	struct gpuctr_record record;
	struct buf b = { 0 };
	struct jsonl *f;

	synthetic_init(&s);
	s.kernels[3].name = "k(\"x\")";
	s.kernels[3].mangled = "_Zk";
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	jsonl_process(f, &b, &s.process);
	expect_contains(&b,
			"{\"type\":\"process\",\"process\":1,\"pid\":4711,\"program\":\"python3\"");
	buf_clear(&b);
	record = *synthetic_record(&s, 3);
	record.kind = GPUCTR_LAUNCH_COOPERATIVE;
	put_into(&record, &s.sites[1]);
	record.at.payload_type = 2;
	record.at.payload = (uint64_t)-5;
	record.active = active;
	record.n_active = 1;
	record.duration_ns = -1;
	record.clock = GPUCTR_CLOCK_NONE;
	record.values = values;
	write_json(f, &b, &record);
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
		"0\",\"category\":\"\",\"color\":null},"
		"{\"domain\":\"\",\"message\":\"forward 0\",\"category\":\"\","
		"\"color\":null}],\"payload\":-5,\"ranges\":[{\"domain\":\"d\\n\","
		"\"message\":\"p\",\"category\":\"\",\"color\":null}]}\n");
	/* Another process, unknown device, the same ids: nothing of the first may show. */
	record.process = 2;
	record.kernel = &s.kernels[4];
	put_into(&record, NULL);
	record.at.payload_type = 0;
	record.n_active = 0;
	record.device = 77;
	record.duration_ns = 1500;
	record.clock = GPUCTR_CLOCK_GPU;
	s.kernels[4].static_shared_bytes = s.kernels[4].registers = -1;
	write_json(f, &b, &record);
	expect_contains(&b, "\"static_shared_bytes\":null,\"registers\":null,");
	expect_contains(&b, "\"duration_ns\":1500,\"clock\":\"gpu\",");
	expect_contains(&b, "\"process\":2,\"pid\":0,");
	expect_contains(&b, "\"device\":77,\"uuid\":\"\",");
	expect_contains(&b, "\"op\":null,\"seq\":null,\"sizes\":null,\"dir\":null,\"layer\":"
			    "null,\"nvtx\":[],\"payload\":null,\"ranges\":[]}\n");
	jsonl_free(f);
	buf_deinit(&b);
}

/* Forward and backward of one operator; the latter has its layer by autograd's number alone. Text
 * of one range is not taken for that of another, nor for what the range said before. */
TEST(test_operators_are_columns)
{
	static struct synthetic s;
	static struct made_site layer, mm, engine, node;
	static const struct {
		const struct made_site *range;
		unsigned opened;
		const char *json, *csv;
	} cases[] = {
		{ &mm, 0,
		  "\"op\":\"aten::mm\",\"seq\":7,\"sizes\":\"[2,3] [3,4]\",\"dir\":\"fprop\","
		  "\"layer\":\"l\\\"1\",",
		  ",aten::mm,7,\"[2,3] [3,4]\",fprop,\"l\"\"1\"," },
		{ &engine, 0,
		  "\"op\":\"autograd::engine::evaluate_function: MmBackward0\",\"seq\":null,"
		  "\"sizes\":null,\"dir\":\"bprop\",\"layer\":null,",
		  ",autograd::engine::evaluate_function: MmBackward0,,,bprop,," },
		{ &node, 1,
		  "\"op\":\"MmBackward0\",\"seq\":7,\"sizes\":null,\"dir\":\"bprop\","
		  "\"layer\":\"l\\\"1\",",
		  ",MmBackward0,7,,bprop,\"l\"\"1\"," },
		{ &engine, 1,
		  "\"op\":\"autograd::engine::evaluate_function: MmBackward0\",\"seq\":7,"
		  "\"sizes\":null,\"dir\":\"bprop\",\"layer\":\"l\\\"1\",",
		  ",autograd::engine::evaluate_function: MmBackward0,7,,bprop,\"l\"\"1\"," },
		{ &layer, 0, "\"op\":null,\"seq\":null,\"sizes\":null,\"dir\":null,",
		  ",,,,,\"l\"\"1\"," },
	};
	struct format_capture capture;
	struct gpuctr_record record;
	struct buf b = { 0 };
	struct store_info info;
	struct jsonl *json;
	void *csv;

	make_site(&layer, NULL, 5, "l\"1");
	make_site(&mm, &layer, 6, "aten::mm, seq = 7, op_id = 3, sizes = [[2, 3], [3, 4], []]");
	make_site(&engine, NULL, 7, "autograd::engine::evaluate_function: MmBackward0, op_id = 8");
	make_site(&node, &engine, 8, "MmBackward0, seq = 7, op_id = 9");
	synthetic_init(&s);
	capture = capture_of(&s);
	json = jsonl_new(&capture);
	csv = open_csv(&info, &s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		record = *synthetic_record(&s, (unsigned)i);
		put_into(&record, cases[i].range);
		record.opened = cases[i].opened;
		write_json(json, &b, &record);
		expect_contains(&b, cases[i].json);
		buf_clear(&b);
		write_csv(csv, &b, &record);
		expect_contains(&b, cases[i].csv);
		buf_clear(&b);
	}
	jsonl_free(json);
	export_csv.close(csv);
	buf_deinit(&b);
}

TEST(test_jsonl_payloads)
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
	struct jsonl *f;

	synthetic_init(&s);
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct gpuctr_site site = { .domain = "",
						  .name = "m",
						  .sizes = "",
						  .category = "",
						  .color = 0x0a0b0c0d,
						  .id = 1 };
		const struct gpuctr_mark mark = {
			1, &site, { NULL, cases[i].type, cases[i].bits }, 2, 3
		};
		char expected[192];

		snprintf(
			expected, sizeof(expected),
			"{\"type\":\"mark\",\"process\":1,\"thread\":2,\"time_ns\":3,\"mark\":{"
			"\"domain\":\"\","
			"\"message\":\"m\",\"category\":\"\",\"color\":\"#0a0b0c0d\"},\"payload\":%"
			"s}\n",
			cases[i].text);
		jsonl_mark(&b, &mark);
		expect_text(&b, expected);
	}
	jsonl_free(f);
	buf_deinit(&b);
}

/* More stacks than the cache has slots, and each must be its own. */
TEST(test_jsonl_with_many_stacks)
{
	static struct synthetic s;
	struct format_capture capture;
	struct buf b = { 0 };
	struct jsonl *f;

	synthetic_init(&s);
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	for (unsigned i = 0; i < 30000; i++) {
		char message[32], expected[64];
		const struct gpuctr_site site = { .domain = "",
						  .name = message,
						  .sizes = "",
						  .category = "",
						  .id = i % 10000 + 1 };
		struct gpuctr_record record = *synthetic_record(&s, i);

		snprintf(message, sizeof(message), "op %u", i % 10000);
		snprintf(expected, sizeof(expected),
			 "\"nvtx\":[{\"domain\":\"\",\"message\":\"op %u\",", i % 10000);
		record.site = &site;
		record.opened = 0;
		write_json(f, &b, &record);
		expect_contains(&b, expected);
		buf_clear(&b);
	}
	jsonl_free(f);
	buf_deinit(&b);
}

TEST(test_jsonl_end)
{
	static struct synthetic s;
	const struct gpuctr_end well = { .totals = { .seen = 9, .measured = 8, .dropped = 1 },
					 .processes = 2 };
	const struct gpuctr_end ill = { .error = { GPUCTR_E_REVOKED, "cause", "cure" } };
	struct format_capture capture;
	struct buf b = { 0 };
	struct jsonl *f;

	synthetic_init(&s);
	capture = capture_of(&s);
	f = jsonl_new(&capture);
	jsonl_end(&b, &well);
	expect_text(&b,
		    "{\"type\":\"totals\",\"processes\":2,\"seen\":9,\"measured\":8,\"filtered\":0,"
		    "\"capturing\":0,\"unready\":0,\"failed\":0,\"dropped\":1,\"lost\":0,"
		    "\"error\":null}\n");
	jsonl_end(&b, &ill);
	expect_contains(
		&b,
		"\"error\":{\"code\":\"revoked\",\"message\":\"cause\",\"remedy\":\"cure\"}}\n");
	jsonl_free(f);
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

TEST(test_csv)
{
	static struct synthetic s;
	static double values[] = { 1024, NAN, 0.25 };
	struct store_info info;
	const struct gpuctr_kernel unknown = {
		.name = "k", .mangled = "_k", .static_shared_bytes = -1, .registers = -1, .id = 900
	};
	struct gpuctr_record record;
	struct buf b = { 0 };
	unsigned fields;
	void *f;

	synthetic_init(&s);
	capture_of(&s);
	f = open_csv(&info, &s);
	write_csv_process(f, &b, &s);
	expect_contains(&b, "process,pid,index,kind,kernel,mangled,");
	expect_contains(&b, ",dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum,"
			    "nvtx,op,seq,sizes,dir,layer,ranges,recorded_from\r\n");
	fields = count_fields(buf_string(&b));
	buf_clear(&b);
	record = *synthetic_record(&s, 3);
	record.values = values;
	write_csv(f, &b, &record);
	assert_int_equal(count_fields(buf_string(&b)), fields);
	expect_contains(&b, "1,4711,3,kernel,\"void at::native::vectorized_elementwise_kernel<3, ");
	expect_contains(&b, ",1024,32,4,2,1,");
	expect_contains(
		&b, ",5003,range,1024,,0.25,\"step 0/forward 0/layer0.0.conv1/aten::convolution, "
		    "seq = 0\",aten::convolution,0,,fprop,forward 0/layer0.0.conv1,,\r\n");
	buf_clear(&b);
	record.kernel = &unknown;
	put_into(&record, NULL);
	record.duration_ns = -1;
	record.clock = GPUCTR_CLOCK_NONE;
	write_csv(f, &b, &record);
	assert_int_equal(count_fields(buf_string(&b)), fields);
	expect_contains(&b, ",k,_k,,,4,2,1,");
	expect_contains(&b, ",,none,1024,,0.25,,,,,,,,\r\n");
	record.kernel = NULL;
	write_csv(f, &b, &record);
	assert_int_equal(count_fields(strchr(buf_string(&b), '\n') + 1), fields);
	buf_clear(&b);
	s.process.process = record.process = 2;
	s.process.recorded_from = "NVIDIA H200 (GH100), driver 580.159.04";
	write_csv_process(f, &b, &s);
	write_csv(f, &b, &record);
	expect_contains(&b,
			",,none,1024,,0.25,,,,,,,,\"NVIDIA H200 (GH100), driver 580.159.04\"\r\n");
	export_csv.close(f);
	buf_deinit(&b);
}

/* A file may nest ranges as deep as it is long: no format may need a stack for that, or repeat all
 * of them with each record. */
TEST(test_a_stack_of_a_million_ranges)
{
	enum { DEPTH = 1000000 };
	struct gpuctr_site *ranges = calloc(DEPTH, sizeof(*ranges));
	static struct synthetic s;
	struct format_capture capture;
	struct gpuctr_record record;
	struct store_info info;
	struct buf b = { 0 };
	struct jsonl *json;
	void *csv;

	synthetic_init(&s);
	capture = capture_of(&s);
	assert_non_null(ranges);
	for (unsigned i = 0; i < DEPTH; i++) {
		ranges[i] = (struct gpuctr_site){ .parent = i ? &ranges[i - 1] : NULL,
						  .domain = "",
						  .name = i ? "x" : "outermost",
						  .sizes = "",
						  .category = "",
						  .id = i + 1,
						  .depth = i };
	}
	record = *synthetic_record(&s, 3);
	record.site = &ranges[DEPTH - 1];
	json = jsonl_new(&capture);
	write_json(json, &b, &record);
	assert_false(b.failed);
	expect_lacks(&b, "\"message\":\"outermost\"");
	assert_true(b.n < DEPTH);
	expect_contains(&b, "\"..\"");
	jsonl_free(json);
	buf_clear(&b);
	csv = open_csv(&info, &s);
	write_csv(csv, &b, &record);
	assert_false(b.failed);
	assert_true(b.n < DEPTH);
	expect_contains(&b, ",../x/x");
	export_csv.close(csv);
	buf_deinit(&b);
	free(ranges);
}

/* Which group a launch has the values of, and nothing of it where there is one. */
TEST(test_turns_are_told)
{
	static double values[] = { 1024, NAN, NAN };

	for (unsigned groups = 1; groups <= 2; groups++) {
		void (*expect)(struct buf * b, const char *text) =
			groups > 1 ? expect_contains : expect_lacks;
		static struct synthetic s;
		struct format_capture capture;
		struct gpuctr_record record;
		struct store_info info;
		struct buf b = { 0 };
		struct jsonl *json;
		void *csv;

		synthetic_init(&s);
		s.plan.groups = s.plan.passes = groups;
		s.columns[0].group = 1;
		capture = capture_of(&s);
		record = *synthetic_record(&s, 3);
		record.values = values;
		record.group = 1;
		json = jsonl_new(&capture);
		jsonl_head(json, &b);
		expect(&b, ",\"group\":1,\"of_range\"");
		buf_clear(&b);
		write_json(json, &b, &record);
		expect(&b, ",\"group\":1,\"metrics\":{\"dram__bytes_read.sum\":1024,"
			   "\"dram__bytes_write.sum\":null,");
		jsonl_free(json);
		buf_clear(&b);
		csv = open_csv(&info, &s);
		write_csv_process(csv, &b, &s);
		expect(&b, ",recorded_from,group\r\n");
		write_csv(csv, &b, &record);
		expect(&b, ",1\r\n");
		export_csv.close(csv);
		buf_deinit(&b);
	}
}
