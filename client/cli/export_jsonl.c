/* SPDX-License-Identifier: Apache-2.0 */

/* The live stream, fed from a file: the same code writes the same lines. Only the capture's number
 * in the daemon is missing (0), because files do not keep it. */

#include "client/cli/export.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/jsonl.h"

struct feed {
	struct jsonl *jsonl;
	const struct store_info *info;
	struct format_capture capture;
	bool has_head;
	uint64_t processes;
};

static void feed_close(void *e)
{
	struct feed *f = e;

	jsonl_free(f->jsonl);
	free(f);
}

static void *feed_open(const struct store_info *info, const struct exporter_options *options,
		       struct exporter_refusal *refusal)
{
	struct feed *f = calloc(1, sizeof(*f));
	const char *from = info->recorded_from;

	if (!f) {
		return NULL;
	}
	for (size_t i = 0; i < info->n_processes && !*from; i++) {
		from = info->processes[i].process.recorded_from;
	}
	f->info = info;
	f->capture = (struct format_capture){
		.plan = &info->plan,
		.gpus = info->gpus,
		.n_gpus = info->n_gpus,
		.driver = info->driver,
		.program = info->n_processes > 0 ? info->processes[0].process.program : "",
		.command = info->argv,
		.recorded_from = from,
		.recorded = *from,
	};
	f->jsonl = jsonl_new(&f->capture);
	if (!f->jsonl) {
		feed_close(f);
		return NULL;
	}
	return f;
}

static void need_head(struct feed *f, struct buf *b)
{
	if (!f->has_head) {
		jsonl_head(f->jsonl, b);
	}
	f->has_head = true;
}

static int feed_process(void *e, struct buf *b, const struct store_process *process)
{
	struct feed *f = e;

	need_head(f, b);
	f->processes++;
	jsonl_process(f->jsonl, b, &process->process);
	return 0;
}

static int feed_record(void *e, struct buf *b, const struct gpuctr_record *record,
		       const struct attribution *what)
{
	struct feed *f = e;

	jsonl_record(f->jsonl, b, record, what);
	return 0;
}

static int feed_mark(void *e, struct buf *b, const struct gpuctr_mark *mark)
{
	jsonl_mark(b, mark);
	return 0;
}

static int feed_process_end(void *e, struct buf *b, const struct store_process *process)
{
	const struct gpuctr_process_end end = { .process = process->process.process,
						.clean = process->clean,
						.totals = process->totals };

	if (process->ended) {
		jsonl_process_end(b, &end);
	}
	return 0;
}

static int feed_notice(void *e, struct buf *b, const struct gpuctr_notice *notice)
{
	struct feed *f = e;

	need_head(f, b);
	jsonl_notice(b, notice);
	return 0;
}

/* A capture that has not ended has no totals. */
static int feed_end(void *e, struct buf *b)
{
	struct feed *f = e;
	const struct gpuctr_end end = { .totals = f->info->totals,
					.processes = (unsigned)f->processes,
					.error = { .code = f->info->end_code,
						   .message = f->info->end_message,
						   .remedy = "" } };

	need_head(f, b);
	if (f->info->complete || f->info->end_code != GPUCTR_OK) {
		jsonl_end(b, &end);
	}
	return 0;
}

const struct exporter export_jsonl = {
	.name = "jsonl",
	.attributes = true,
	.open = feed_open,
	.close = feed_close,
	.process = feed_process,
	.record = feed_record,
	.mark = feed_mark,
	.process_end = feed_process_end,
	.notice = feed_notice,
	.end = feed_end,
};
