/* SPDX-License-Identifier: Apache-2.0 */

/* The formats of the live stream, fed from a file: the same code writes the same lines. What only a
 * live capture knows is not there: its number in the daemon (0). */

#include "client/cli/export.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/format.h"
#include "client/report/view.h"

struct feed {
	const struct format *format;
	void *f;
	const struct store_info *info;
	struct format_capture capture;
	bool has_head;
	uint64_t processes;
	struct groups *kernels; /* of a capture with a budget, for what is estimated; NULL: none */
};

static void live_close(void *e)
{
	struct feed *l = e;

	if (l->f) {
		l->format->close(l->f);
	}
	groups_free(l->kernels);
	free(l);
}

static bool begin_estimates(struct feed *l, struct intake *in)
{
	struct keys keys;

	if (!l->capture.chosen || !l->format->write_estimates) {
		return true;
	}
	keys_parse("kernel", &keys, NULL);
	l->kernels = intake_add(in, groups_new(&keys));
	return l->kernels != NULL;
}

/* The estimates for all launches of a kernel. */
static int write_estimates(struct feed *l, struct buf *b)
{
	struct view view;
	int r;

	if (!l->kernels || !groups_are_estimated(l->kernels)) {
		return 0;
	}
	r = groups_finish(l->kernels);
	r = r ? r : view_init(&view, l->kernels, &(struct view_options){ 0 }, NULL);
	if (r) {
		return r;
	}
	l->format->write_estimates(l->f, b, &view);
	view_deinit(&view);
	return 0;
}

static void *live_open(const struct format *format, const struct store_info *info,
		       struct intake *in)
{
	struct feed *l = calloc(1, sizeof(*l));
	const char *from = info->recorded_from;

	if (!l) {
		return NULL;
	}
	for (size_t i = 0; i < info->n_processes && !*from; i++) {
		from = info->processes[i].process.recorded_from;
	}
	l->format = format;
	l->info = info;
	l->capture = (struct format_capture){
		.plan = &info->plan,
		.gpus = info->gpus,
		.n_gpus = info->n_gpus,
		.driver = info->driver,
		.program = info->n_processes > 0 ? info->processes[0].process.program : "",
		.command = info->argv,
		.recorded_from = from,
		.recorded = *from,
		.chosen = info->budget_ppm > 0,
		.sampled = info->sampled,
		.graphs = info->graphs,
	};
	l->f = begin_estimates(l, in) ? format->open(&l->capture) : NULL;
	if (!l->f) {
		live_close(l);
		return NULL;
	}
	return l;
}

static void *open_jsonl(const struct store_info *info, const struct exporter_options *options,
			struct exporter_refusal *refusal)
{
	return live_open(&format_jsonl, info, options->intake);
}

static void *open_csv(const struct store_info *info, const struct exporter_options *options,
		      struct exporter_refusal *refusal)
{
	return live_open(&format_csv, info, options->intake);
}

static void need_head(struct feed *l, struct buf *b)
{
	if (!l->has_head && l->format->write_head) {
		l->format->write_head(l->f, b);
	}
	l->has_head = true;
}

static int live_process(void *e, struct buf *b, const struct store_process *process)
{
	struct feed *l = e;

	need_head(l, b);
	l->processes++;
	if (l->format->write_process) {
		l->format->write_process(l->f, b, &process->process);
	}
	return 0;
}

static int live_record(void *e, struct buf *b, const struct gpuctr_record *record,
		       const struct attribution *what)
{
	struct feed *l = e;

	l->format->write_record(l->f, b, record, what);
	return 0;
}

static int live_mark(void *e, struct buf *b, const struct gpuctr_mark *mark)
{
	struct feed *l = e;

	if (l->format->write_mark) {
		l->format->write_mark(l->f, b, mark);
	}
	return 0;
}

static int live_process_end(void *e, struct buf *b, const struct store_process *process)
{
	struct feed *l = e;
	const struct gpuctr_process_end end = { .process = process->process.process,
						.clean = process->clean,
						.totals = process->totals };

	if (process->ended && l->format->write_process_end) {
		l->format->write_process_end(l->f, b, &end);
	}
	return 0;
}

static int live_notice(void *e, struct buf *b, const struct gpuctr_notice *notice)
{
	struct feed *l = e;

	need_head(l, b);
	if (l->format->write_notice) {
		l->format->write_notice(l->f, b, notice);
	}
	return 0;
}

/* A capture that has not ended has no totals. */
static int live_end(void *e, struct buf *b)
{
	struct feed *l = e;
	const struct gpuctr_end end = { .totals = l->info->totals,
					.processes = (unsigned)l->processes,
					.error = { .code = l->info->end_code,
						   .message = l->info->end_message,
						   .remedy = "" } };
	int r;

	need_head(l, b);
	r = write_estimates(l, b);
	if (r) {
		return r;
	}
	if (l->format->write_end && (l->info->complete || l->info->end_code != GPUCTR_OK)) {
		l->format->write_end(l->f, b, &end);
	}
	return 0;
}

const struct exporter export_live_jsonl = {
	.name = "jsonl",
	.attributes = true,
	.open = open_jsonl,
	.close = live_close,
	.process = live_process,
	.record = live_record,
	.mark = live_mark,
	.process_end = live_process_end,
	.notice = live_notice,
	.end = live_end,
};

const struct exporter export_live_csv = {
	.name = "csv",
	.attributes = true,
	.open = open_csv,
	.close = live_close,
	.process = live_process,
	.record = live_record,
	.end = live_end,
};
