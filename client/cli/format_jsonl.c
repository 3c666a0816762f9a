/* SPDX-License-Identifier: Apache-2.0 */

/* JSON lines: one object a line, "type" first. The capture, then processes, kernels, marks and
 * notices as they come, at the end the totals.
 *
 * A kernel's line has a name, an NVTX stack and 20 numbers. The first two come from text made once
 * (fragments.h), the keys of the metrics are rendered when the format is opened, so a line costs
 * little more than its numbers. */

#include "client/cli/format.h"

#include <math.h>
#include <stdlib.h>

#include "client/cli/attributed.h"
#include "client/cli/fragments.h"
#include "client/cli/json_range.h"
#include "client/cli/members.h"
#include "client/cli/text.h"
#include "client/report/estimated.h"

struct jsonl {
	const struct format_capture *capture;
	struct buf *keys; /* "name": for each column */
	size_t n_keys;
	struct processes processes;
	unsigned n_groups; /* of the plan's columns */
	struct fragments *kernels;
	struct fragments *stacks;
	struct attributed *attributed;
	unsigned active_process;
	unsigned *active_ids; /* what active_text was made from */
	size_t n_active, max_active;
	struct buf active_text;
};

/* --- life ------------------------------------------------------------------------------------ */

static void jsonl_close(void *f)
{
	struct jsonl *j = f;

	for (size_t i = 0; i < j->n_keys; i++) {
		buf_deinit(&j->keys[i]);
	}
	free(j->keys);
	processes_deinit(&j->processes);
	fragments_free(j->kernels);
	fragments_free(j->stacks);
	attributed_free(j->attributed);
	free(j->active_ids);
	buf_deinit(&j->active_text);
	free(j);
}

static void write_attribution(struct buf *b, const struct store_attribution *what)
{
	struct members m = { b };

	members_text_or_null(&m, "op", what->op);
	if (what->seq >= 0) {
		members_i64(&m, "seq", what->seq);
	} else {
		members_null(&m, "seq");
	}
	members_text_or_null(&m, "sizes", what->sizes);
	members_text_or_null(&m, "dir", what->dir);
	members_text_or_null(&m, "layer", what->layer);
}

static void *jsonl_open(const struct format_capture *capture)
{
	struct jsonl *j = calloc(1, sizeof(*j));

	if (!j) {
		return NULL;
	}
	j->capture = capture;
	j->keys = calloc(capture->plan->n_columns + 1, sizeof(*j->keys));
	j->kernels = fragments_new();
	j->stacks = fragments_new();
	j->attributed = attributed_new(write_attribution);
	if (!j->keys || !j->kernels || !j->stacks || !j->attributed) {
		jsonl_close(j);
		return NULL;
	}
	j->n_groups = capture->plan->groups;
	j->n_keys = capture->plan->n_columns;
	for (size_t i = 0; i < j->n_keys; i++) {
		text_json(&j->keys[i], capture->plan->columns[i].name);
		buf_char(&j->keys[i], ':');
	}
	return j;
}

/* --- the capture ----------------------------------------------------------------------------- */

static void add_columns(struct members *m, const struct gpuctr_plan *plan)
{
	members_begin(m, "columns", '[');
	for (size_t i = 0; i < plan->n_columns; i++) {
		members_begin(m, NULL, '{');
		members_text(m, "name", plan->columns[i].name);
		members_text(m, "unit", plan->columns[i].unit);
		if (plan->groups > 1) {
			members_u64(m, "group", plan->columns[i].group);
		}
		members_bool(m, "of_range", groups_is_of_range(plan->columns[i].name));
		members_end(m, '}');
	}
	members_end(m, ']');
}

static void add_gpus(struct members *m, const struct format_capture *capture)
{
	members_begin(m, "gpus", '[');
	for (size_t i = 0; i < capture->n_gpus; i++) {
		members_begin(m, NULL, '{');
		members_u64(m, "index", capture->gpus[i].index);
		members_text(m, "uuid", capture->gpus[i].uuid);
		members_text(m, "name", capture->gpus[i].name);
		members_text(m, "chip", capture->gpus[i].chip);
		members_end(m, '}');
	}
	members_end(m, ']');
}

static struct members begin_line(struct buf *b, const char *type)
{
	struct members m = { b };

	members_begin(&m, NULL, '{');
	members_word(&m, "type", type);
	return m;
}

static void end_line(struct members *m)
{
	members_end(m, '}');
	buf_char(m->b, '\n');
}

static void jsonl_head(void *f, struct buf *b)
{
	struct jsonl *j = f;
	const struct format_capture *capture = j->capture;
	const struct gpuctr_plan *plan = capture->plan;
	struct members m = begin_line(b, "capture");
	size_t n_words = 0;

	while (capture->command && capture->command[n_words]) {
		n_words++;
	}
	members_u64(&m, "format", 1);
	members_u64(&m, "capture", capture->capture);
	members_text(&m, "version", gpuctr_version());
	members_text(&m, "program", capture->program);
	members_texts(&m, "command", capture->command, n_words);
	members_text(&m, "chip", plan->chip);
	members_text(&m, "driver", capture->driver);
	members_u64(&m, "passes", plan->passes);
	members_bool(&m, "replayed", false);
	members_bool(&m, "caches_flushed", false);
	members_bool(&m, "recorded", capture->recorded);
	members_text(&m, "recorded_from", capture->recorded_from);
	add_columns(&m, plan);
	members_texts(&m, "metrics", plan->metrics, plan->n_metrics);
	add_gpus(&m, capture);
	end_line(&m);
}

/* --- processes ------------------------------------------------------------------------------- */

static void write_device_uuid(struct buf *b, const struct gpuctr_device *device)
{
	struct members m = { b };

	members_text(&m, "uuid", device->uuid);
}

static void add_device(struct members *m, const struct gpuctr_device *device)
{
	members_begin(m, NULL, '{');
	members_u64(m, "index", device->index);
	members_text(m, "uuid", device->uuid);
	members_text(m, "name", device->name);
	members_text(m, "chip", device->chip);
	members_u64(m, "clock_sm_mhz", device->clock_sm_mhz);
	members_u64(m, "clock_mem_mhz", device->clock_mem_mhz);
	members_end(m, '}');
}

static void add_claims(struct members *m, const struct gpuctr_process *process)
{
	members_begin(m, "claims", '{');
	for (size_t i = 0; i < process->n_claims; i++) {
		const char *claim = process->claims[i], *equals = strchr(claim, '=');

		if (equals) {
			struct buf name = { 0 };

			buf_add(&name, claim, (size_t)(equals - claim));
			members_key_text(m, buf_string(&name));
			text_json(m->b, equals + 1);
			m->b->failed |= name.failed;
			buf_deinit(&name);
		}
	}
	members_end(m, '}');
}

static void jsonl_process(void *f, struct buf *b, const struct gpuctr_process *process)
{
	struct jsonl *j = f;
	struct members m = begin_line(b, "process");

	b->failed |= !processes_add(&j->processes, process, write_device_uuid);
	members_u64(&m, "process", process->process);
	members_u64(&m, "pid", process->pid);
	members_text(&m, "program", process->program);
	members_text(&m, "cupti", process->cupti);
	members_text(&m, "driver", process->driver);
	members_text(&m, "recorded_from", process->recorded_from);
	members_begin(&m, "devices", '[');
	for (size_t i = 0; i < process->n_devices; i++) {
		add_device(&m, &process->devices[i]);
	}
	members_end(&m, ']');
	add_claims(&m, process);
	end_line(&m);
}

/* --- kernels and ranges ---------------------------------------------------------------------- */

static void add_stack(struct jsonl *j, struct members *m, unsigned process,
		      const struct gpuctr_range *range)
{
	struct buf *text;
	bool fresh;

	members_begin(m, "nvtx", '[');
	if (range) {
		text = fragments_get(j->stacks, process, range->id, &fresh);
		if (fresh) {
			json_stack(text, range);
		}
		members_add(m, text);
	}
	members_end(m, ']');
}

/* null for -1. */
static void add_known(struct members *m, const char *key, int value)
{
	if (value >= 0) {
		members_u64(m, key, (uint64_t)value);
	} else {
		members_null(m, key);
	}
}

static void write_kernel(struct buf *b, const struct gpuctr_kernel *kernel)
{
	struct members m = { b };

	members_text(&m, "kernel", kernel->name);
	members_text(&m, "mangled", kernel->mangled);
	add_known(&m, "static_shared_bytes", kernel->static_shared_bytes);
	add_known(&m, "registers", kernel->registers);
}

static void add_kernel(struct jsonl *j, struct members *m, unsigned process,
		       const struct gpuctr_kernel *kernel)
{
	static const struct gpuctr_kernel none = { .static_shared_bytes = -1, .registers = -1 };
	bool fresh;
	struct buf *text = fragments_get(j->kernels, process, kernel ? kernel->id : 0, &fresh);

	if (fresh || !kernel) {
		buf_clear(text);
		write_kernel(text, kernel ? kernel : &none);
	}
	members_add(m, text);
}

static bool is_same_active(const struct jsonl *j, const struct gpuctr_record *record)
{
	if (j->active_process != record->process || j->n_active != record->n_active) {
		return false;
	}
	for (size_t i = 0; i < record->n_active; i++) {
		if (j->active_ids[i] != record->active[i]->id) {
			return false;
		}
	}
	return true;
}

static void make_active(struct jsonl *j, const struct gpuctr_record *record)
{
	buf_clear(&j->active_text);
	j->active_process = record->process;
	j->n_active = 0;
	if (record->n_active > j->max_active) {
		unsigned *ids = realloc(j->active_ids, record->n_active * 2 * sizeof(*ids));

		if (!ids) {
			return;
		}
		j->active_ids = ids;
		j->max_active = record->n_active * 2;
	}
	for (size_t i = 0; i < record->n_active; i++) {
		if (i > 0) {
			buf_char(&j->active_text, ',');
		}
		json_range(&j->active_text, record->active[i]);
		j->active_ids[i] = record->active[i]->id;
	}
	j->n_active = record->n_active;
}

/* --- records --------------------------------------------------------------------------------- */

static void add_launch(struct jsonl *j, struct members *m, const struct gpuctr_record *record)
{
	const struct process_texts *process = processes_find(&j->processes, record->process);

	members_u64(m, "index", record->index);
	members_u64(m, "process", record->process);
	members_u64(m, "pid", process ? process->pid : 0);
	members_word(m, "kind", format_launch_kind(record->kind));
	add_kernel(j, m, record->process, record->kernel);
	members_u32s(m, "grid", record->grid, 3);
	members_u32s(m, "block", record->block, 3);
	members_u64(m, "dynamic_shared_bytes", record->dynamic_shared_bytes);
	members_u64(m, "device", record->device);
	if (process && record->device < process->n_devices && process->devices[record->device].n) {
		members_add(m, &process->devices[record->device]);
	} else {
		members_text(m, "uuid", "");
	}
	members_u64(m, "context", record->context);
	members_u64(m, "stream", record->stream);
	members_u64(m, "correlation", record->correlation);
	members_u64(m, "thread", record->thread);
	members_i64(m, "start_ns", record->start_ns);
	if (record->duration_ns < 0) {
		members_null(m, "duration_ns");
	} else {
		members_i64(m, "duration_ns", record->duration_ns);
	}
	members_word(m, "clock", format_clock(record->clock));
}

static void add_metrics(const struct jsonl *j, struct members *m, const char *name,
			const double *values)
{
	members_begin(m, name, '{');
	for (size_t i = 0; i < j->n_keys; i++) {
		members_add(m, &j->keys[i]);
		if (isfinite(values[i])) {
			buf_double(m->b, values[i]);
		} else {
			buf_text(m->b, "null");
		}
	}
	members_end(m, '}');
}

static void jsonl_record(void *f, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	struct jsonl *j = f;
	struct members m = begin_line(b, "kernel");

	add_launch(j, &m, record);
	if (record->stratum != 0) {
		members_u64(&m, "stratum", record->stratum);
		members_double(&m, "chance", record->chance);
	}
	if (j->n_groups > 1) {
		members_u64(&m, "group", record->group);
	}
	add_metrics(j, &m, "metrics", record->values);
	if (record->errors) {
		members_bool(&m, "sampled", true);
		add_metrics(j, &m, "errors", record->errors);
	}
	members_key(&m, NULL);
	attributed_add(j->attributed, b, record, what);
	add_stack(j, &m, record->process, record->range);
	members_begin(&m, "ranges", '[');
	if (record->n_active > 0) {
		if (!is_same_active(j, record)) {
			make_active(j, record);
		}
		members_add(&m, &j->active_text);
	}
	members_end(&m, ']');
	end_line(&m);
}

static void jsonl_mark(void *f, struct buf *b, const struct gpuctr_mark *mark)
{
	struct members m = begin_line(b, "mark");

	(void)f;
	members_u64(&m, "process", mark->process);
	members_u64(&m, "thread", mark->thread);
	members_i64(&m, "time_ns", mark->time_ns);
	if (mark->range) {
		members_key(&m, "mark");
		json_range(b, mark->range);
	} else {
		members_null(&m, "mark");
	}
	end_line(&m);
}

static void add_error(struct members *m, const struct gpuctr_error *error)
{
	members_text(m, "code", gpuctr_error_name(error->code));
	members_text(m, "message", error->message);
	members_text(m, "remedy", error->remedy);
}

static void jsonl_notice(void *f, struct buf *b, const struct gpuctr_notice *notice)
{
	struct members m = begin_line(b, "notice");

	(void)f;
	members_u64(&m, "process", notice->process);
	add_error(&m, &notice->error);
	end_line(&m);
}

static void add_totals(struct members *m, const struct gpuctr_totals *totals)
{
#define TOTAL(name) members_u64(m, #name, totals->name);
	GPUCTR_TOTALS(TOTAL)
#undef TOTAL
}

static void jsonl_process_end(void *f, struct buf *b, const struct gpuctr_process_end *end)
{
	struct members m = begin_line(b, "process_end");

	(void)f;
	members_u64(&m, "process", end->process);
	members_bool(&m, "clean", end->clean);
	add_totals(&m, &end->totals);
	end_line(&m);
}

/* What all launches of a kernel did. A standard error of 0 is that of an exact sum. */
static void add_estimate(struct buf *b, const struct group *row, const struct measure *measure,
			 size_t i)
{
	const struct estimate_total *t = &row->estimated->total[i];
	struct estimate e = fields_told(measure, i, row);
	struct members m = begin_line(b, "estimate");

	members_text(&m, "kernel", row->labels[0]);
	members_text(&m, "metric", measure->name);
	members_text(&m, "of", measure->adds_up ? "sum" : "mean");
	members_text(&m, "kind", estimated_kind_name(e.kind));
	members_u64(&m, "launches", (uint64_t)group_launches(row, true));
	members_u64(&m, "measured", t->measured);
	members_u64(&m, "without_error", t->once);
	members_u64(&m, "unknown", t->unknown);
	members_double(&m, "value", e.value);
	members_double(&m, "standard_error", e.error);
	end_line(&m);
}

static void jsonl_estimates(void *f, struct buf *b, const struct view *kernels)
{
	(void)f;
	for (size_t i = 0; i < kernels->n_rows; i++) {
		const struct group *row = kernels->rows[i];

		for (size_t k = MEASURE_TIME + 1; row->estimated && k < kernels->n_measures; k++) {
			add_estimate(b, row, &kernels->measures[k], k);
		}
	}
}

static void jsonl_end(void *f, struct buf *b, const struct gpuctr_end *end)
{
	struct members m = begin_line(b, "totals");

	(void)f;
	members_u64(&m, "processes", end->processes);
	add_totals(&m, &end->totals);
	if (end->error.code == GPUCTR_OK) {
		members_null(&m, "error");
	} else {
		members_begin(&m, "error", '{');
		add_error(&m, &end->error);
		members_end(&m, '}');
	}
	end_line(&m);
}

const struct format format_jsonl = {
	.name = "jsonl",
	.suffix = ".jsonl",
	.open = jsonl_open,
	.close = jsonl_close,
	.write_head = jsonl_head,
	.write_process = jsonl_process,
	.write_record = jsonl_record,
	.write_mark = jsonl_mark,
	.write_notice = jsonl_notice,
	.write_process_end = jsonl_process_end,
	.write_estimates = jsonl_estimates,
	.write_end = jsonl_end,
};
