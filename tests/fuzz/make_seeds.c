/* SPDX-License-Identifier: Apache-2.0 */

/* Writes messages as they are really sent into a folder for each target that reads messages, for a
 * fuzzer to begin with: make_seeds FOLDER. The corpora in the tree have grown from them. */

#include <errno.h>
#include <sys/stat.h>

#include "proto/base/clean.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/fuzz.h"
#include "proto/wire/wire.h"

static struct arena scratch;
static const char *folder;

static void append(struct buffer *b, const struct wire_message *m)
{
	fuzz_check(wire_encode(&scratch, b, m) == 0);
	arena_reset(&scratch);
}

/* The first byte is the length of a chunk, for all targets. */
static void write_seed(const char *target, const char *name, uint8_t chunk, const struct buffer *b)
{
	CLEAN_FILE FILE *f = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, target);
	fuzz_check(mkdir(path, 0777) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s/seed-%s", folder, target, name);
	f = fopen(path, "we");
	fuzz_check(f && fwrite(&chunk, 1, 1, f) == 1);
	fuzz_check(fwrite(b->data + b->start, 1, buffer_length(b), f) == buffer_length(b));
}

static const uint32_t numbers[] = { 0, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const uint64_t longs[] = { 1, 2, 3, 4 };
static const int64_t times[] = { 1000000, 20, 30, 40 };
static const double values[] = { 1, 2.5, 3, 4, 5, 6, 7, 8 };
static const char *const strings[] = { "_Z6kernelPfi", "layer", "domain" };
static const char *const names[] = { "dram__bytes.sum", "gpu__time_duration.sum" };
static const struct wire_column columns[] = {
	{ "dram__bytes.sum", "byte", { 1, numbers }, { 1, values }, 0 },
	{ "gpu__time_duration.sum", "ns", { 1, numbers + 1 }, { 1, values }, 0 },
};

#define TOTALS                         \
	{                              \
		8, 4, 1, 0, 1, 1, 1, 0 \
	}
#define PLAN                                                \
	{                                                   \
		"GH100", { 2, names }, { 2, columns }, 1, 1 \
	}

static const struct gpuctr_gpu gpus[] = { { 0, "GPU-0", "H200", "GH100", 1, 0 } };
static const struct gpuctr_device devices[] = { { 0, "GPU-0", "H200", "GH100", 1980, 2619 } };
static const struct gpuctr_metric metrics[] = {
	{ "dram__bytes", GPUCTR_METRIC_COUNTER, "byte", "dram", "bytes moved", names, 2 },
};
static const struct gpuctr_capture_info captures[] = {
	{ .capture = 1,
	  .uid = 1000,
	  .user = "ann",
	  .program = "train",
	  .gpus = names,
	  .n_gpus = 1,
	  .metrics = names,
	  .n_metrics = 2,
	  .totals = { 1, 1 },
	  .state = GPUCTR_CAPTURE_RUNNING },
};

static const struct gpuctr_registered_process processes[] = {
	{ .process = 3,
	  .pid = 4711,
	  .uid = 1000,
	  .user = "ann",
	  .program = "train",
	  .claims = names,
	  .n_claims = 1,
	  .cgroup = "/a" },
};

/* Two strings and a kernel, a range in a range, a set of both, two records and a mark. */
static const struct wire_message record_columns = {
	.type = WIRE_RECORD_COLUMNS,
	.record_columns = {
		.first_string = 1,
		.strings = { 3, strings },
		.first_function = 1,
		.function_name = { 1, numbers + 1 },
		.function_static_shared = { 1, numbers },
		.function_registers = { 1, numbers + 1 },
		.first_node = 1,
		.node_parent = { 2, numbers },
		.node_domain = { 2, numbers },
		.node_message = { 2, numbers + 1 },
		.node_category = { 2, numbers },
		.node_color = { 2, numbers },
		.node_payload_type = { 2, numbers },
		.node_payload = { 2, longs },
		.first_set = 1,
		.set_size = { 1, numbers + 2 },
		.set_node = { 2, numbers + 1 },
		.kind = { 2, numbers },
		.function = { 2, numbers + 3 },
		.grid = { 6, numbers + 3 },
		.block = { 6, numbers + 3 },
		.dynamic_shared = { 2, numbers },
		.device = { 2, numbers },
		.context = { 2, numbers },
		.stream = { 2, longs },
		.correlation = { 2, numbers },
		.thread = { 2, numbers },
		.start_ns = { 2, times },
		.node = { 2, numbers },
		.range_set = { 2, numbers },
		.values = { 4, values },
		.clock = { 2, numbers + 1 },
		.duration_ns = { 2, longs },
		.mark_node = { 1, numbers + 1 },
		.mark_thread = { 1, numbers },
		.mark_ns = { 1, times },
	},
};

static struct wire_message records(struct buffer *payload, const struct wire_message *columns_of)
{
	fuzz_check(wire_encode_payload(&scratch, payload, columns_of) == 0);
	arena_reset(&scratch);
	return (struct wire_message){
		.type = WIRE_RECORDS,
		.records = { 1, 1, 0, 2, { buffer_length(payload), payload->data } },
	};
}

static const struct wire_message samples[] = {
	{ .type = WIRE_HELLO, .hello = { 1, "client" } },
	{ .type = WIRE_WELCOME, .welcome = { 1, "0.1.0" } },
	{ .type = WIRE_REFUSAL, .refusal = { 1, 10, "no such metric", "look again" } },
	{ .type = WIRE_METRICS_REQUEST, .metrics_request = { 1, "GH100", true } },
	{ .type = WIRE_METRICS_REPLY, .metrics_reply = { 1, "GH100", { 1, metrics }, true } },
	{ .type = WIRE_PLAN_REQUEST, .plan_request = { 2, "GH100", { 2, names } } },
	{ .type = WIRE_PLAN_REPLY, .plan_reply = { 2, PLAN } },
	{ .type = WIRE_STATUS_REQUEST, .status_request = { 3 } },
	{ .type = WIRE_STATUS_REPLY,
	  .status_reply = { 3,
			    "0.1.0",
			    "580",
			    "13.0",
			    1,
			    { 1, gpus },
			    { 1, captures },
			    5,
			    "",
			    2 } },
	{ .type = WIRE_TENANTS_REQUEST, .tenants_request = { 1 } },
	{ .type = WIRE_TENANTS_REPLY,
	  .tenants_reply = { 1, true, { 2, numbers }, { 2, numbers } } },
	{ .type = WIRE_OPEN_CAPTURE,
	  .open_capture = { .request = 4,
			    .metrics = { 2, names },
			    .gpus = { 1, names },
			    .chip = "GH100",
			    .selection = { "kernel.*", 1, 2, true, .nvtx_include = { 2, names },
					   .capture_range = "nvtx:A/",
					   .schedule = { 1, 2, 3, 4, 5 }, .step = "B/" },
			    .no_wait = true,
			    .timeout_ns = 3,
			    .program = "train",
			    .recorded = true,
			    .processes = { 2, numbers } } },
	{ .type = WIRE_PROCESSES_REQUEST, .processes_request = { 4 } },
	{ .type = WIRE_PROCESSES_REPLY, .processes_reply = { 4, { 1, processes }, true } },
	{ .type = WIRE_AGENT_REGISTERED, .agent_registered = { 1, 3 } },
	{ .type = WIRE_OPENED, .opened = { 4, 1, PLAN, { 1, gpus }, "580", false } },
	{ .type = WIRE_QUEUED, .queued = { 1, 1, "bob (train, pid 2)", "GPU-0", 5 } },
	{ .type = WIRE_READY, .ready = { 1, "0123456789abcdef0123456789abcdef" } },
	{ .type = WIRE_PROCESS,
	  .process = { 1, 1, 99, "train", "13.0", "580", { 1, devices }, "H200" } },
	{ .type = WIRE_RAW_IMAGE,
	  .raw_image = { 1, 1, 0, 2, 0, 3, { 3, (const uint8_t *)"abc" } } },
	{ .type = WIRE_PROGRESS, .progress = { 1, 0, TOTALS } },
	{ .type = WIRE_NOTICE, .notice = { 1, 1, 74, "CUPTI failed", "try again" } },
	{ .type = WIRE_PROCESS_END, .process_end = { 1, 1, TOTALS, true } },
	{ .type = WIRE_CLOSE_CAPTURE, .close_capture = { 1 } },
	{ .type = WIRE_CAPTURE_END,
	  .capture_end = { 1, TOTALS, 1, 55, "the lease ran out", "ask" } },
	{ .type = WIRE_AGENT_HELLO, .agent_hello = { 1, "0123", "train", "H200", "GH100" } },
	{ .type = WIRE_AGENT_WELCOME,
	  .agent_welcome = { .version = 1,
			     .capture = 1,
			     .process = 1,
			     .plan = PLAN,
			     .selection = { "kernel", 1, 2, true },
			     .gpus = { 1, names } } },
	{ .type = WIRE_AGENT_STOP, .agent_stop = { 56, "revoked" } },
	{ .type = WIRE_GOODBYE, .goodbye = { TOTALS } },
	{ .type = WIRE_PERMISSION_REQUEST,
	  .permission_request = { "0123", 1, 2, 3, 0xb2cc, 4, 5 } },
	{ .type = WIRE_PERMISSION_REPLY, .permission_reply = { 0x1b, 50, "no", "ask" } },
};

static void append_type(struct buffer *b, enum wire_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		if (samples[i].type == type) {
			append(b, &samples[i]);
		}
	}
}

static void make_frames(const struct wire_message *r)
{
	struct buffer all = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		struct buffer one = { 0 };

		append(&one, &samples[i]);
		append(&all, &samples[i]);
		write_seed("frame", wire_type_to_string(samples[i].type), 255, &one);
		buffer_deinit(&one);
	}
	append(&all, r);
	write_seed("frame", "all", 7, &all);
	buffer_deinit(&all);
}

/* What a daemon says to a client: it is welcomed, answered, and has a capture from end to end. */
static void make_library(const struct wire_message *r)
{
	static const enum wire_type answers[] = { WIRE_WELCOME, WIRE_METRICS_REPLY, WIRE_PLAN_REPLY,
						  WIRE_STATUS_REPLY };
	static const enum wire_type events[] = { WIRE_OPENED,	   WIRE_QUEUED,	 WIRE_READY,
						 WIRE_PROCESS,	   WIRE_RECORDS, WIRE_RAW_IMAGE,
						 WIRE_PROGRESS,	   WIRE_NOTICE,	 WIRE_PROCESS_END,
						 WIRE_CAPTURE_END, WIRE_REFUSAL };
	struct buffer b = { 0 };

	append_type(&b, WIRE_REFUSAL);
	write_seed("library", "refused", 0, &b);
	buffer_consume(&b, buffer_length(&b));
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		append_type(&b, answers[i]);
	}
	write_seed("library", "answers", 0, &b);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		if (events[i] == WIRE_RECORDS) {
			append(&b, r);
		} else {
			append_type(&b, events[i]);
		}
	}
	write_seed("library", "capture", 0, &b);
	write_seed("library", "pieces", 11, &b);
	buffer_deinit(&b);
}

/* A capture of one process, with these columns, those after them, and these totals. */
static void make_kept(const char *name, const struct wire_message *columns_of,
		      const struct wire_message *again, const struct wire_message *end)
{
	struct buffer b = { 0 }, payload = { 0 };
	struct wire_message r = records(&payload, columns_of);

	append_type(&b, WIRE_WELCOME);
	append_type(&b, WIRE_OPENED);
	append_type(&b, WIRE_PROCESS);
	append(&b, &r);
	if (again) {
		buffer_consume(&payload, buffer_length(&payload));
		r = records(&payload, again);
		append(&b, &r);
	}
	append_type(&b, WIRE_RAW_IMAGE);
	append(&b, end);
	append_type(&b, WIRE_NOTICE);
	append_type(&b, WIRE_CAPTURE_END);
	write_seed("keep", name, 0, &b);
	buffer_deinit(&b);
	buffer_deinit(&payload);
}

/* Programs that lie. */
static void make_keep(void)
{
	static const struct gpuctr_totals huge = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	static const uint64_t odd[] = { UINT64_MAX, UINT64_C(1) << 63 };
	static const uint32_t kinds[] = { 7, 7777, 0x80000000 };
	const struct wire_message end = { .type = WIRE_PROCESS_END,
					  .process_end = { 1, 1, TOTALS, true } };
	const struct wire_message huge_end = { .type = WIRE_PROCESS_END,
					       .process_end = { 1, 1, huge, true } };
	struct wire_message m = record_columns;

	make_kept("honest", &m, NULL, &end);
	make_kept("huge-totals", &m, NULL, &huge_end);
	m.record_columns.duration_ns.v = odd;
	make_kept("odd-durations", &m, NULL, &end);
	m = record_columns;
	m.record_columns.node_payload_type.v = kinds;
	make_kept("unknown-payloads", &m, NULL, &end);
	/* The same records again, without definitions, which may not come twice. */
	m = record_columns;
	m.record_columns.strings.n = m.record_columns.function_name.n = 0;
	m.record_columns.function_static_shared.n = m.record_columns.function_registers.n = 0;
	m.record_columns.node_parent.n = m.record_columns.node_domain.n = 0;
	m.record_columns.node_message.n = m.record_columns.node_category.n = 0;
	m.record_columns.node_color.n = m.record_columns.node_payload_type.n = 0;
	m.record_columns.node_payload.n = m.record_columns.set_size.n = 0;
	m.record_columns.set_node.n = m.record_columns.mark_node.n = 0;
	m.record_columns.mark_thread.n = m.record_columns.mark_ns.n = 0;
	make_kept("twice", &record_columns, &m, &end);
}

static void make_agent(void)
{
	struct buffer b = { 0 };

	append_type(&b, WIRE_REFUSAL);
	write_seed("agent", "refused", 0, &b);
	buffer_consume(&b, buffer_length(&b));
	append_type(&b, WIRE_AGENT_WELCOME);
	write_seed("agent", "welcome", 0, &b);
	append_type(&b, WIRE_AGENT_STOP);
	append_type(&b, WIRE_PERMISSION_REPLY);
	write_seed("agent", "stop", 5, &b);
	buffer_deinit(&b);
}

int main(int argc, char **argv)
{
	struct buffer payload = { 0 };
	struct wire_message r;

	if (argc != 2) {
		fprintf(stderr, "Usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	folder = argv[1];
	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	r = records(&payload, &record_columns);
	make_frames(&r);
	make_library(&r);
	make_agent();
	make_keep();
	buffer_deinit(&payload);
	arena_deinit(&scratch);
	return 0;
}
