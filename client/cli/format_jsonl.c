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

#define ADD(b, text) buf_add(b, text, sizeof(text) - 1)

static void add_u64(struct buf *b, const char *key, uint64_t value)
{
	buf_text(b, key);
	buf_u64(b, value);
}

static void add_text(struct buf *b, const char *key, const char *text)
{
	buf_text(b, key);
	text_json(b, text);
}

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

static void add_text_or_null(struct buf *b, const char *key, const char *text)
{
	buf_text(b, key);
	if (*text) {
		text_json(b, text);
	} else {
		ADD(b, "null");
	}
}

static void write_attribution(struct buf *b, const struct store_attribution *what)
{
	add_text_or_null(b, ",\"op\":", what->op);
	ADD(b, ",\"seq\":");
	if (what->seq >= 0) {
		buf_i64(b, what->seq);
	} else {
		ADD(b, "null");
	}
	add_text_or_null(b, ",\"sizes\":", what->sizes);
	add_text_or_null(b, ",\"dir\":", what->dir);
	add_text_or_null(b, ",\"layer\":", what->layer);
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
		if (i > 0) {
			buf_char(&j->keys[i], ',');
		}
		text_json(&j->keys[i], capture->plan->columns[i].name);
		buf_char(&j->keys[i], ':');
	}
	return j;
}

/* --- the capture ----------------------------------------------------------------------------- */

static void add_strings(struct buf *b, const char *key, const char *const *strings, size_t n)
{
	buf_text(b, key);
	buf_char(b, '[');
	for (size_t i = 0; i < n && strings[i]; i++) {
		if (i > 0) {
			buf_char(b, ',');
		}
		text_json(b, strings[i]);
	}
	buf_char(b, ']');
}

static void add_columns(struct buf *b, const struct gpuctr_plan *plan)
{
	ADD(b, ",\"columns\":[");
	for (size_t i = 0; i < plan->n_columns; i++) {
		add_text(b, i > 0 ? ",{\"name\":" : "{\"name\":", plan->columns[i].name);
		add_text(b, ",\"unit\":", plan->columns[i].unit);
		if (plan->groups > 1) {
			add_u64(b, ",\"group\":", plan->columns[i].group);
		}
		buf_text(b, format_is_of_range(plan->columns[i].name) ? ",\"of_range\":true}"
								      : ",\"of_range\":false}");
	}
	buf_char(b, ']');
}

static void add_gpus(struct buf *b, const struct format_capture *capture)
{
	ADD(b, ",\"gpus\":[");
	for (size_t i = 0; i < capture->n_gpus; i++) {
		add_u64(b, i > 0 ? ",{\"index\":" : "{\"index\":", capture->gpus[i].index);
		add_text(b, ",\"uuid\":", capture->gpus[i].uuid);
		add_text(b, ",\"name\":", capture->gpus[i].name);
		add_text(b, ",\"chip\":", capture->gpus[i].chip);
		buf_char(b, '}');
	}
	buf_char(b, ']');
}

static void jsonl_head(void *f, struct buf *b)
{
	struct jsonl *j = f;
	const struct format_capture *capture = j->capture;
	const struct gpuctr_plan *plan = capture->plan;

	add_u64(b, "{\"type\":\"capture\",\"format\":1,\"capture\":", capture->capture);
	add_text(b, ",\"version\":", gpuctr_version());
	add_text(b, ",\"program\":", capture->program);
	add_strings(b, ",\"command\":", capture->command, capture->command ? SIZE_MAX : 0);
	add_text(b, ",\"chip\":", plan->chip);
	add_text(b, ",\"driver\":", capture->driver);
	add_u64(b, ",\"passes\":", plan->passes);
	ADD(b, ",\"replayed\":false,\"caches_flushed\":false,\"recorded\":");
	buf_text(b, capture->recorded ? "true" : "false");
	add_text(b, ",\"recorded_from\":", capture->recorded_from);
	add_columns(b, plan);
	add_strings(b, ",\"metrics\":", plan->metrics, plan->n_metrics);
	add_gpus(b, capture);
	ADD(b, "}\n");
}

/* --- processes ------------------------------------------------------------------------------- */

static void write_device_uuid(struct buf *b, const struct gpuctr_device *device)
{
	ADD(b, ",\"uuid\":");
	text_json(b, device->uuid);
}

static void add_device(struct buf *b, const struct gpuctr_device *device)
{
	add_u64(b, "{\"index\":", device->index);
	add_text(b, ",\"uuid\":", device->uuid);
	add_text(b, ",\"name\":", device->name);
	add_text(b, ",\"chip\":", device->chip);
	add_u64(b, ",\"clock_sm_mhz\":", device->clock_sm_mhz);
	add_u64(b, ",\"clock_mem_mhz\":", device->clock_mem_mhz);
	buf_char(b, '}');
}

static void add_claims(struct buf *b, const struct gpuctr_process *process)
{
	for (size_t i = 0; i < process->n_claims; i++) {
		const char *claim = process->claims[i], *equals = strchr(claim, '=');

		if (equals) {
			struct buf name = { 0 };

			buf_add(&name, claim, (size_t)(equals - claim));
			add_text(b, i > 0 ? "," : "", buf_string(&name));
			add_text(b, ":", equals + 1);
			b->failed |= name.failed;
			buf_deinit(&name);
		}
	}
}

static void jsonl_process(void *f, struct buf *b, const struct gpuctr_process *process)
{
	struct jsonl *j = f;

	b->failed |= !processes_add(&j->processes, process, write_device_uuid);
	add_u64(b, "{\"type\":\"process\",\"process\":", process->process);
	add_u64(b, ",\"pid\":", process->pid);
	add_text(b, ",\"program\":", process->program);
	add_text(b, ",\"cupti\":", process->cupti);
	add_text(b, ",\"driver\":", process->driver);
	add_text(b, ",\"recorded_from\":", process->recorded_from);
	ADD(b, ",\"devices\":[");
	for (size_t i = 0; i < process->n_devices; i++) {
		if (i > 0) {
			buf_char(b, ',');
		}
		add_device(b, &process->devices[i]);
	}
	ADD(b, "],\"claims\":{");
	add_claims(b, process);
	ADD(b, "}}\n");
}

/* --- kernels and ranges ---------------------------------------------------------------------- */

static void add_cached_stack(struct jsonl *j, struct buf *b, unsigned process,
			     const struct gpuctr_range *range)
{
	struct buf *text;
	bool fresh;

	if (!range) {
		return;
	}
	text = fragments_get(j->stacks, process, range->id, &fresh);
	if (fresh) {
		json_stack(text, range);
	}
	buf_add(b, text->data, text->n);
}

/* null for -1. */
static void add_known(struct buf *b, const char *key, int value)
{
	if (value >= 0) {
		add_u64(b, key, (uint64_t)value);
	} else {
		buf_text(b, key);
		ADD(b, "null");
	}
}

static void add_cached_kernel(struct jsonl *j, struct buf *b, unsigned process,
			      const struct gpuctr_kernel *kernel)
{
	struct buf *text;
	bool fresh;

	if (!kernel) {
		ADD(b, ",\"kernel\":\"\",\"mangled\":\"\",\"static_shared_bytes\":null,"
		       "\"registers\":null");
		return;
	}
	text = fragments_get(j->kernels, process, kernel->id, &fresh);
	if (fresh) {
		add_text(text, ",\"kernel\":", kernel->name);
		add_text(text, ",\"mangled\":", kernel->mangled);
		add_known(text, ",\"static_shared_bytes\":", kernel->static_shared_bytes);
		add_known(text, ",\"registers\":", kernel->registers);
	}
	buf_add(b, text->data, text->n);
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

static void add_dim(struct buf *b, const uint32_t dim[3])
{
	buf_u64(b, dim[0]);
	buf_char(b, ',');
	buf_u64(b, dim[1]);
	buf_char(b, ',');
	buf_u64(b, dim[2]);
}

static void add_launch(struct jsonl *j, struct buf *b, const struct gpuctr_record *record)
{
	const struct process_texts *process = processes_find(&j->processes, record->process);

	add_u64(b, "{\"type\":\"kernel\",\"index\":", record->index);
	add_u64(b, ",\"process\":", record->process);
	add_u64(b, ",\"pid\":", process ? process->pid : 0);
	buf_text(b, ",\"kind\":\"");
	buf_text(b, format_launch_kind(record->kind));
	buf_char(b, '"');
	add_cached_kernel(j, b, record->process, record->kernel);
	ADD(b, ",\"grid\":[");
	add_dim(b, record->grid);
	ADD(b, "],\"block\":[");
	add_dim(b, record->block);
	add_u64(b, "],\"dynamic_shared_bytes\":", record->dynamic_shared_bytes);
	add_u64(b, ",\"device\":", record->device);
	if (process && record->device < process->n_devices && process->devices[record->device].n) {
		buf_add(b, process->devices[record->device].data,
			process->devices[record->device].n);
	} else {
		ADD(b, ",\"uuid\":\"\"");
	}
	add_u64(b, ",\"context\":", record->context);
	add_u64(b, ",\"stream\":", record->stream);
	add_u64(b, ",\"correlation\":", record->correlation);
	add_u64(b, ",\"thread\":", record->thread);
	ADD(b, ",\"start_ns\":");
	buf_i64(b, record->start_ns);
	ADD(b, ",\"duration_ns\":");
	if (record->duration_ns < 0) {
		ADD(b, "null");
	} else {
		buf_i64(b, record->duration_ns);
	}
	ADD(b, ",\"clock\":\"");
	buf_text(b, format_clock(record->clock));
	buf_char(b, '"');
}

static void jsonl_record(void *f, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	struct jsonl *j = f;

	add_launch(j, b, record);
	if (record->stratum != 0) {
		add_u64(b, ",\"stratum\":", record->stratum);
		ADD(b, ",\"chance\":");
		buf_double(b, record->chance);
	}
	if (j->n_groups > 1) {
		add_u64(b, ",\"group\":", record->group);
	}
	ADD(b, ",\"metrics\":{");
	for (size_t i = 0; i < j->n_keys; i++) {
		buf_add(b, j->keys[i].data, j->keys[i].n);
		if (isfinite(record->values[i])) {
			buf_double(b, record->values[i]);
		} else {
			ADD(b, "null");
		}
	}
	buf_char(b, '}');
	attributed_add(j->attributed, b, record, what);
	ADD(b, ",\"nvtx\":[");
	add_cached_stack(j, b, record->process, record->range);
	ADD(b, "],\"ranges\":[");
	if (record->n_active > 0) {
		if (!is_same_active(j, record)) {
			make_active(j, record);
		}
		buf_add(b, j->active_text.data, j->active_text.n);
	}
	ADD(b, "]}\n");
}

static void jsonl_mark(void *f, struct buf *b, const struct gpuctr_mark *mark)
{
	(void)f;
	add_u64(b, "{\"type\":\"mark\",\"process\":", mark->process);
	add_u64(b, ",\"thread\":", mark->thread);
	ADD(b, ",\"time_ns\":");
	buf_i64(b, mark->time_ns);
	ADD(b, ",\"mark\":");
	if (mark->range) {
		json_range(b, mark->range);
	} else {
		ADD(b, "null");
	}
	ADD(b, "}\n");
}

static void jsonl_notice(void *f, struct buf *b, const struct gpuctr_notice *notice)
{
	(void)f;
	add_u64(b, "{\"type\":\"notice\",\"process\":", notice->process);
	add_text(b, ",\"code\":", gpuctr_error_name(notice->error.code));
	add_text(b, ",\"message\":", notice->error.message);
	add_text(b, ",\"remedy\":", notice->error.remedy);
	ADD(b, "}\n");
}

static void add_totals(struct buf *b, const struct gpuctr_totals *totals)
{
#define TOTAL(name) add_u64(b, ",\"" #name "\":", totals->name);
	GPUCTR_TOTALS(TOTAL)
#undef TOTAL
}

static void jsonl_process_end(void *f, struct buf *b, const struct gpuctr_process_end *end)
{
	(void)f;
	add_u64(b, "{\"type\":\"process_end\",\"process\":", end->process);
	buf_text(b, end->clean ? ",\"clean\":true" : ",\"clean\":false");
	add_totals(b, &end->totals);
	ADD(b, "}\n");
}

static void add_double(struct buf *b, const char *key, double value)
{
	buf_text(b, key);
	if (isfinite(value)) {
		buf_double(b, value);
	} else {
		ADD(b, "null");
	}
}

/* What all launches of a kernel did. A standard error of 0 is that of an exact sum. */
static void add_estimate(struct buf *b, const struct group *row, const struct measure *m, size_t i)
{
	const struct estimate_total *t = &row->estimated->total[i];
	struct estimate e = fields_told(m, i, row);

	add_text(b, "{\"type\":\"estimate\",\"kernel\":", row->labels[0]);
	add_text(b, ",\"metric\":", m->name);
	add_text(b, ",\"of\":", m->adds_up ? "sum" : "mean");
	add_text(b, ",\"kind\":", estimated_kind_name(e.kind));
	add_u64(b, ",\"launches\":", (uint64_t)group_launches(row, true));
	add_u64(b, ",\"measured\":", t->measured);
	add_u64(b, ",\"without_error\":", t->once);
	add_u64(b, ",\"unknown\":", t->unknown);
	add_double(b, ",\"value\":", e.value);
	add_double(b, ",\"standard_error\":", e.error);
	ADD(b, "}\n");
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
	(void)f;
	add_u64(b, "{\"type\":\"totals\",\"processes\":", end->processes);
	add_totals(b, &end->totals);
	if (end->error.code == GPUCTR_OK) {
		ADD(b, ",\"error\":null}\n");
		return;
	}
	add_text(b, ",\"error\":{\"code\":", gpuctr_error_name(end->error.code));
	add_text(b, ",\"message\":", end->error.message);
	add_text(b, ",\"remedy\":", end->error.remedy);
	ADD(b, "}}\n");
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
