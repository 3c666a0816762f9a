/* SPDX-License-Identifier: Apache-2.0 */

/* One object on each line, "type" first: the capture, then processes, kernels, marks and notices as
 * they come, and at the end the totals. */

#include "client/cli/jsonl.h"

#include <stdlib.h>

#include "client/cli/claims.h"
#include "client/cli/range_text.h"
#include "client/cli/processes.h"
#include "client/report/groups.h"
#include "proto/base/json.h"

struct jsonl {
	const struct format_capture *capture;
	struct processes processes;
};

/* --- life ------------------------------------------------------------------------------------ */

struct jsonl *jsonl_new(const struct format_capture *capture)
{
	struct jsonl *j = calloc(1, sizeof(*j));

	if (j) {
		j->capture = capture;
	}
	return j;
}

struct jsonl *jsonl_free(struct jsonl *j)
{
	if (j) {
		processes_deinit(&j->processes);
		free(j);
	}
	return NULL;
}

/* --- the capture ----------------------------------------------------------------------------- */

static void add_columns(struct json *m, const struct gpuctr_plan *plan)
{
	json_begin(m, "columns", '[');
	for (size_t i = 0; i < plan->n_columns; i++) {
		json_begin(m, NULL, '{');
		json_text(m, "name", plan->columns[i].name);
		json_text(m, "unit", plan->columns[i].unit);
		if (plan->groups > 1) {
			json_u64(m, "group", plan->columns[i].group);
		}
		json_bool(m, "of_range", groups_is_of_range(plan->columns[i].name));
		json_end(m, '}');
	}
	json_end(m, ']');
}

static void add_gpus(struct json *m, const struct format_capture *capture)
{
	json_begin(m, "gpus", '[');
	for (size_t i = 0; i < capture->n_gpus; i++) {
		json_begin(m, NULL, '{');
		json_u64(m, "index", capture->gpus[i].index);
		json_text(m, "uuid", capture->gpus[i].uuid);
		json_text(m, "name", capture->gpus[i].name);
		json_text(m, "chip", capture->gpus[i].chip);
		json_end(m, '}');
	}
	json_end(m, ']');
}

static struct json begin_line(struct buf *b, const char *type)
{
	struct json m = { b };

	json_begin(&m, NULL, '{');
	json_word(&m, "type", type);
	return m;
}

static void end_line(struct json *m)
{
	json_end(m, '}');
	buf_char(m->b, '\n');
}

void jsonl_head(const struct jsonl *j, struct buf *b)
{
	const struct format_capture *capture = j->capture;
	const struct gpuctr_plan *plan = capture->plan;
	struct json m = begin_line(b, "capture");
	size_t n_words = 0;

	while (capture->command && capture->command[n_words]) {
		n_words++;
	}
	json_u64(&m, "format", 1);
	json_u64(&m, "capture", capture->capture);
	json_text(&m, "version", gpuctr_version());
	json_text(&m, "program", capture->program);
	json_texts(&m, "command", capture->command, n_words);
	json_text(&m, "chip", plan->chip);
	json_text(&m, "driver", capture->driver);
	json_u64(&m, "passes", plan->passes);
	json_bool(&m, "replayed", false);
	json_bool(&m, "caches_flushed", false);
	json_bool(&m, "recorded", capture->recorded);
	json_text(&m, "recorded_from", capture->recorded_from);
	add_columns(&m, plan);
	json_texts(&m, "metrics", plan->metrics, plan->n_metrics);
	add_gpus(&m, capture);
	end_line(&m);
}

/* --- processes ------------------------------------------------------------------------------- */

static void add_device(struct json *m, const struct gpuctr_device *device)
{
	json_begin(m, NULL, '{');
	json_u64(m, "index", device->index);
	json_text(m, "uuid", device->uuid);
	json_text(m, "name", device->name);
	json_text(m, "chip", device->chip);
	json_u64(m, "clock_sm_mhz", device->clock_sm_mhz);
	json_u64(m, "clock_mem_mhz", device->clock_mem_mhz);
	json_end(m, '}');
}

void jsonl_process(struct jsonl *j, struct buf *b, const struct gpuctr_process *process)
{
	const struct claims claims = { process->claims, process->n_claims };
	struct json m = begin_line(b, "process");

	b->failed |= !processes_add(&j->processes, process);
	json_u64(&m, "process", process->process);
	json_u64(&m, "pid", process->pid);
	json_text(&m, "program", process->program);
	json_text(&m, "cupti", process->cupti);
	json_text(&m, "driver", process->driver);
	json_text(&m, "recorded_from", process->recorded_from);
	json_begin(&m, "devices", '[');
	for (size_t i = 0; i < process->n_devices; i++) {
		add_device(&m, &process->devices[i]);
	}
	json_end(&m, ']');
	claims_json(&claims, &m);
	end_line(&m);
}

/* --- kernels and ranges ---------------------------------------------------------------------- */

static void add_stack(struct json *m, const struct gpuctr_record *record)
{
	json_begin(m, "nvtx", '[');
	if (record->site) {
		json_stack(m->b, record->site, &record->at);
	}
	json_end(m, ']');
	json_payload(m, &record->at);
}

/* -1 means unknown, and becomes null. */
static void add_known(struct json *m, const char *key, int64_t value)
{
	if (value >= 0) {
		json_i64(m, key, value);
	} else {
		json_null(m, key);
	}
}

static void add_kernel(struct json *m, const struct gpuctr_kernel *kernel)
{
	static const struct gpuctr_kernel none = { .static_shared_bytes = -1, .registers = -1 };

	kernel = kernel ? kernel : &none;
	json_text(m, "kernel", kernel->name);
	json_text(m, "mangled", kernel->mangled);
	add_known(m, "static_shared_bytes", kernel->static_shared_bytes);
	add_known(m, "registers", kernel->registers);
}

static void add_attribution(struct json *m, const struct attribution *what)
{
	struct store_attribution columns;

	attribution_columns(what, &columns);
	json_text_or_null(m, "op", columns.op);
	add_known(m, "seq", columns.seq);
	json_text_or_null(m, "sizes", columns.sizes);
	json_text_or_null(m, "dir", columns.dir);
	json_text_or_null(m, "layer", columns.layer);
}

static void add_active(struct json *m, const struct gpuctr_record *record)
{
	static const struct gpuctr_occurrence unknown;

	json_begin(m, "ranges", '[');
	for (size_t i = 0; i < record->n_active; i++) {
		json_key(m, NULL);
		json_range(m->b, record->active[i], &unknown);
	}
	json_end(m, ']');
}

/* --- records --------------------------------------------------------------------------------- */

static void add_launch(const struct jsonl *j, struct json *m, const struct gpuctr_record *record)
{
	const struct known_process *process = processes_find(&j->processes, record->process);

	json_u64(m, "index", record->index);
	json_u64(m, "process", record->process);
	json_u64(m, "pid", process ? process->pid : 0);
	json_word(m, "kind", format_launch_kind(record->kind));
	add_kernel(m, record->kernel);
	json_u32s(m, "grid", record->grid, 3);
	json_u32s(m, "block", record->block, 3);
	json_u64(m, "dynamic_shared_bytes", record->dynamic_shared_bytes);
	json_u64(m, "device", record->device);
	json_text(m, "uuid", processes_uuid(process, record->device));
	json_u64(m, "context", record->context);
	json_u64(m, "stream", record->stream);
	json_u64(m, "correlation", record->correlation);
	add_known(m, "thread", record->thread != 0 ? (int64_t)record->thread : -1);
	json_i64(m, "start_ns", record->start_ns);
	add_known(m, "duration_ns", record->duration_ns);
	json_word(m, "clock", format_clock(record->clock));
	if (record->kind == GPUCTR_LAUNCH_GRAPH_KERNEL) {
		json_u64(m, "graph", record->graph);
		json_u64(m, "graph_node", record->graph_node);
	}
}

static void add_metrics(const struct jsonl *j, struct json *m, const char *name,
			const double *values)
{
	const struct gpuctr_plan *plan = j->capture->plan;

	json_begin(m, name, '{');
	for (size_t i = 0; i < plan->n_columns; i++) {
		json_key_text(m, plan->columns[i].name);
		json_value(m, values[i]);
	}
	json_end(m, '}');
}

void jsonl_record(const struct jsonl *j, struct buf *b, const struct gpuctr_record *record,
		  const struct attribution *what)
{
	struct json m = begin_line(b, "kernel");

	add_launch(j, &m, record);
	if (j->capture->plan->groups > 1) {
		json_u64(&m, "group", record->group);
	}
	add_metrics(j, &m, "metrics", record->values);
	if (record->errors) {
		json_bool(&m, "sampled", true);
		add_metrics(j, &m, "errors", record->errors);
	}
	add_attribution(&m, what);
	add_stack(&m, record);
	add_active(&m, record);
	end_line(&m);
}

void jsonl_mark(struct buf *b, const struct gpuctr_mark *mark)
{
	struct json m = begin_line(b, "mark");

	json_u64(&m, "process", mark->process);
	json_u64(&m, "thread", mark->thread);
	json_i64(&m, "time_ns", mark->time_ns);
	if (mark->site) {
		json_key(&m, "mark");
		json_range(b, mark->site, &mark->at);
	} else {
		json_null(&m, "mark");
	}
	json_payload(&m, &mark->at);
	end_line(&m);
}

void jsonl_sample(const struct jsonl *j, struct buf *b, const struct kept_sample *sample)
{
	struct json m = begin_line(b, "sample");

	json_text(&m, "gpu", sample->gpu);
	json_i64(&m, "start_ns", sample->start_ns);
	json_i64(&m, "end_ns", sample->end_ns);
	json_doubles(&m, "values", sample->values, j->capture->plan->n_metrics);
	end_line(&m);
}

static void add_error(struct json *m, const struct gpuctr_error *error)
{
	json_text(m, "code", gpuctr_error_name(error->code));
	json_text(m, "message", error->message);
	json_text(m, "remedy", error->remedy);
}

void jsonl_notice(struct buf *b, const struct gpuctr_notice *notice)
{
	struct json m = begin_line(b, "notice");

	json_u64(&m, "process", notice->process);
	add_error(&m, &notice->error);
	end_line(&m);
}

void jsonl_process_end(struct buf *b, const struct gpuctr_process_end *end)
{
	struct json m = begin_line(b, "process_end");

	json_u64(&m, "process", end->process);
	json_bool(&m, "clean", end->clean);
	json_totals(&m, &end->totals);
	end_line(&m);
}

void jsonl_end(struct buf *b, const struct gpuctr_end *end)
{
	struct json m = begin_line(b, "totals");

	json_u64(&m, "processes", end->processes);
	json_totals(&m, &end->totals);
	if (end->error.code == GPUCTR_OK) {
		json_null(&m, "error");
	} else {
		json_begin(&m, "error", '{');
		add_error(&m, &end->error);
		json_end(&m, '}');
	}
	end_line(&m);
}
