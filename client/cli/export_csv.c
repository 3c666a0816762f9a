/* SPDX-License-Identifier: Apache-2.0 */

/* RFC 4180: a header, CRLF, quotes where needed, one row for each kernel. A value that is not
 * available is an empty field. The NVTX stack is one field, outermost range first, joined by
 * slashes; fields of the operator follow. The start/end ranges are one field, joined by semicolons.
 * The last field names the hardware on which a row was recorded, and is empty if the row was
 * measured here. If the metrics need several passes, the group of the row's metrics follows. */

#include "client/cli/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "client/cli/processes.h"
#include "client/cli/range_text.h"
#include "client/cli/text.h"

struct csv {
	const struct store_info *info;
	struct processes processes;
	bool has_head;
};

static void csv_close(void *e)
{
	struct csv *c = e;

	processes_deinit(&c->processes);
	free(c);
}

static void *csv_open(const struct store_info *info, const struct exporter_options *options,
		      struct exporter_refusal *refusal)
{
	struct csv *c = calloc(1, sizeof(*c));

	if (c) {
		c->info = info;
	}
	return c;
}

static void add_error_heads(struct buf *b, const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		CLEAN_BUF struct buf name = { 0 };

		buf_printf(&name, "error:%s", plan->columns[i].name);
		buf_char(b, ',');
		text_csv(b, buf_string(&name));
	}
}

static void need_head(struct csv *c, struct buf *b)
{
	if (c->has_head) {
		return;
	}
	c->has_head = true;
	buf_text(b, "process,pid,index,kind,kernel,mangled,static_shared_bytes,registers,grid_x,"
		    "grid_y,grid_z,"
		    "block_x,block_y,block_z,dynamic_shared_bytes,device,uuid,context,stream,"
		    "correlation,"
		    "thread,start_ns,duration_ns,clock");
	for (size_t i = 0; i < c->info->plan.n_columns; i++) {
		buf_char(b, ',');
		text_csv(b, c->info->plan.columns[i].name);
	}
	buf_text(b, ",nvtx,op,seq,sizes,dir,layer,ranges,recorded_from");
	buf_text(b, c->info->plan.groups > 1 ? ",group" : "");
	buf_text(b, c->info->graphs ? ",graph,graph_node" : "");
	if (c->info->sampled) {
		add_error_heads(b, &c->info->plan);
	}
	buf_text(b, "\r\n");
}

static int csv_process(void *e, struct buf *b, const struct store_process *process)
{
	struct csv *c = e;

	need_head(c, b);
	return processes_add(&c->processes, &process->process) ? 0 : -ENOMEM;
}

static void field_u64(struct buf *b, uint64_t value)
{
	buf_u64(b, value);
	buf_char(b, ',');
}

static void field_text(struct buf *b, const char *text)
{
	text_csv(b, text);
	buf_char(b, ',');
}

/* -1 means unknown, and becomes an empty field. */
static void field_known(struct buf *b, int64_t value)
{
	if (value >= 0) {
		buf_i64(b, value);
	}
	buf_char(b, ',');
}

static void add_kernel(struct buf *b, const struct gpuctr_kernel *kernel)
{
	if (!kernel) {
		buf_text(b, ",,,,");
		return;
	}
	field_text(b, kernel->name);
	field_text(b, kernel->mangled);
	field_known(b, kernel->static_shared_bytes);
	field_known(b, kernel->registers);
}

static void add_stack(struct buf *b, const struct gpuctr_record *record)
{
	CLEAN_BUF struct buf path = { 0 };

	if (record->site) {
		range_stack_add(&path, record->site, &record->at, '/', range_text);
		text_csv(b, buf_string(&path));
		b->failed |= path.failed;
	}
}

static void add_attribution(struct buf *b, const struct attribution *what)
{
	struct store_attribution columns;

	attribution_columns(what, &columns);
	field_text(b, columns.op);
	field_known(b, columns.seq);
	field_text(b, columns.sizes);
	field_text(b, columns.dir);
	text_csv(b, columns.layer);
}

static void add_active(struct buf *b, const struct gpuctr_record *record)
{
	static const struct gpuctr_occurrence unknown;
	CLEAN_BUF struct buf names = { 0 };

	for (size_t i = 0; i < record->n_active; i++) {
		if (i > 0) {
			buf_char(&names, ';');
		}
		range_text(&names, record->active[i], &unknown);
	}
	if (names.n > 0) {
		text_csv(b, buf_string(&names));
	}
}

static void add_launch(const struct known_process *process, struct buf *b,
		       const struct gpuctr_record *record)
{
	field_u64(b, record->process);
	field_u64(b, process ? process->pid : 0);
	field_u64(b, record->index);
	field_text(b, format_launch_kind(record->kind));
	add_kernel(b, record->kernel);
	for (int i = 0; i < 3; i++) {
		field_u64(b, record->grid[i]);
	}
	for (int i = 0; i < 3; i++) {
		field_u64(b, record->block[i]);
	}
	field_u64(b, record->dynamic_shared_bytes);
	field_u64(b, record->device);
	field_text(b, processes_uuid(process, record->device));
	field_u64(b, record->context);
	field_u64(b, record->stream);
	field_u64(b, record->correlation);
	field_known(b, record->thread != 0 ? (int64_t)record->thread : -1);
	buf_i64(b, record->start_ns);
	buf_char(b, ',');
	field_known(b, record->duration_ns);
	field_text(b, format_clock(record->clock));
}

/* The fields are empty, except for a kernel of a graph. */
static void add_graph(struct buf *b, const struct gpuctr_record *record)
{
	if (record->kind == GPUCTR_LAUNCH_GRAPH_KERNEL) {
		buf_printf(b, ",%u,%" PRIu64, record->graph, record->graph_node);
	} else {
		buf_text(b, ",,");
	}
}

static int csv_record(void *e, struct buf *b, const struct gpuctr_record *record,
		      const struct attribution *what)
{
	struct csv *c = e;
	const struct known_process *process = processes_find(&c->processes, record->process);

	add_launch(process, b, record);
	for (size_t i = 0; i < c->info->plan.n_columns; i++) {
		if (isfinite(record->values[i])) {
			buf_double(b, record->values[i]);
		}
		buf_char(b, ',');
	}
	add_stack(b, record);
	buf_char(b, ',');
	add_attribution(b, what);
	buf_char(b, ',');
	add_active(b, record);
	buf_char(b, ',');
	text_csv(b, process ? process->recorded_from : "");
	if (c->info->plan.groups > 1) {
		buf_char(b, ',');
		buf_u64(b, record->group);
	}
	if (c->info->graphs) {
		add_graph(b, record);
	}
	for (size_t i = 0; c->info->sampled && i < c->info->plan.n_columns; i++) {
		buf_char(b, ',');
		if (record->errors && isfinite(record->errors[i])) {
			buf_double(b, record->errors[i]);
		}
	}
	buf_text(b, "\r\n");
	return 0;
}

static int csv_end(void *e, struct buf *b)
{
	need_head(e, b);
	return 0;
}

const struct exporter export_csv = {
	.name = "csv",
	.attributes = true,
	.open = csv_open,
	.close = csv_close,
	.process = csv_process,
	.record = csv_record,
	.end = csv_end,
};
