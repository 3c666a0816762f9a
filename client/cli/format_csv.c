/* SPDX-License-Identifier: Apache-2.0 */

/* RFC 4180: a header, CRLF, quotes where needed, one row a kernel. A value that is not available is
 * an empty field. The NVTX stack is one field, outermost first, joined by slashes, and what it says
 * of the operator stands behind it; the start/end ranges are one, joined by semicolons. The last
 * field says on what hardware a row was recorded;
 * it is empty for what was measured here. Of a capture with a budget two more say of which stratum
 * a launch is, and what chance it had: sums over lines are of what was measured. Where the metrics
 * need several passes, the last one says which group of them was measured. */

#include "client/cli/format.h"

#include <math.h>
#include <stdlib.h>

#include "client/cli/attributed.h"
#include "client/cli/fragments.h"
#include "client/cli/range_stack.h"
#include "client/cli/text.h"

struct csv {
	const struct format_capture *capture;
	struct processes processes;
	struct fragments *kernels;
	struct fragments *stacks;
	struct attributed *attributed;
	struct fragments *recorded; /* one a process, under id 0 */
};

static void csv_close(void *f)
{
	struct csv *c = f;

	processes_deinit(&c->processes);
	fragments_free(c->kernels);
	fragments_free(c->stacks);
	attributed_free(c->attributed);
	fragments_free(c->recorded);
	free(c);
}

static void write_attribution(struct buf *b, const struct store_attribution *what)
{
	text_csv(b, what->op);
	buf_char(b, ',');
	if (what->seq >= 0) {
		buf_i64(b, what->seq);
	}
	buf_char(b, ',');
	text_csv(b, what->sizes);
	buf_char(b, ',');
	buf_text(b, what->dir);
	buf_char(b, ',');
	text_csv(b, what->layer);
}

static void *csv_open(const struct format_capture *capture)
{
	struct csv *c = calloc(1, sizeof(*c));

	if (!c) {
		return NULL;
	}
	c->capture = capture;
	c->kernels = fragments_new();
	c->stacks = fragments_new();
	c->recorded = fragments_new();
	c->attributed = attributed_new(write_attribution);
	if (!c->kernels || !c->stacks || !c->recorded || !c->attributed) {
		csv_close(c);
		return NULL;
	}
	return c;
}

static void add_error_heads(struct buf *b, const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		struct buf name = { 0 };

		buf_printf(&name, "error:%s", plan->columns[i].name);
		buf_char(b, ',');
		text_csv(b, buf_string(&name));
		buf_deinit(&name);
	}
}

static void csv_head(void *f, struct buf *b)
{
	struct csv *c = f;

	buf_text(b, "process,pid,index,kind,kernel,mangled,static_shared_bytes,registers,grid_x,"
		    "grid_y,grid_z,"
		    "block_x,block_y,block_z,dynamic_shared_bytes,device,uuid,context,stream,"
		    "correlation,"
		    "thread,start_ns,duration_ns,clock");
	for (size_t i = 0; i < c->capture->plan->n_columns; i++) {
		buf_char(b, ',');
		text_csv(b, c->capture->plan->columns[i].name);
	}
	buf_text(b, ",nvtx,op,seq,sizes,dir,layer,ranges,recorded_from");
	buf_text(b, c->capture->chosen ? ",stratum,chance" : "");
	buf_text(b, c->capture->plan->groups > 1 ? ",group" : "");
	if (c->capture->sampled) {
		add_error_heads(b, c->capture->plan);
	}
	buf_text(b, "\r\n");
}

static void write_device_uuid(struct buf *b, const struct gpuctr_device *device)
{
	text_csv(b, device->uuid);
}

static void csv_process(void *f, struct buf *b, const struct gpuctr_process *process)
{
	struct csv *c = f;
	struct buf *recorded;
	bool fresh;

	recorded = fragments_get(c->recorded, process->process, 0, &fresh);
	if (fresh && process->recorded_from && process->recorded_from[0]) {
		text_csv(recorded, process->recorded_from);
	}
	b->failed |= !processes_add(&c->processes, process, write_device_uuid);
}

static void field_u64(struct buf *b, uint64_t value)
{
	buf_u64(b, value);
	buf_char(b, ',');
}

/* Empty for -1. */
static void field_known(struct buf *b, int value)
{
	if (value >= 0) {
		buf_i64(b, value);
	}
	buf_char(b, ',');
}

static void add_kernel(struct csv *c, struct buf *b, unsigned process,
		       const struct gpuctr_kernel *kernel)
{
	struct buf *text;
	bool fresh;

	if (!kernel) {
		buf_text(b, ",,,,");
		return;
	}
	text = fragments_get(c->kernels, process, kernel->id, &fresh);
	if (fresh) {
		text_csv(text, kernel->name);
		buf_char(text, ',');
		text_csv(text, kernel->mangled);
		buf_char(text, ',');
		field_known(text, kernel->static_shared_bytes);
		field_known(text, kernel->registers);
	}
	buf_add(b, text->data, text->n);
}

static void add_message(struct buf *b, const struct gpuctr_range *range)
{
	buf_text(b, range->message ? range->message : "");
}

static void add_stack(struct csv *c, struct buf *b, unsigned process,
		      const struct gpuctr_range *range)
{
	struct buf *text;
	bool fresh;

	if (!range) {
		return;
	}
	text = fragments_get(c->stacks, process, range->id, &fresh);
	if (fresh) {
		struct buf path = { 0 };

		range_stack_add(&path, range, SIZE_MAX, '/', add_message);
		text_csv(text, buf_string(&path));
		text->failed |= path.failed;
		buf_deinit(&path);
	}
	buf_add(b, text->data, text->n);
}

static void add_active(struct buf *b, const struct gpuctr_record *record)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < record->n_active; i++) {
		if (i > 0) {
			buf_char(&names, ';');
		}
		buf_text(&names, record->active[i]->message ? record->active[i]->message : "");
	}
	if (names.n > 0) {
		text_csv(b, buf_string(&names));
	}
	buf_deinit(&names);
}

static void add_launch(struct csv *c, struct buf *b, const struct gpuctr_record *record)
{
	const struct process_texts *process = processes_find(&c->processes, record->process);

	field_u64(b, record->process);
	field_u64(b, process ? process->pid : 0);
	field_u64(b, record->index);
	buf_text(b, format_launch_kind(record->kind));
	buf_char(b, ',');
	add_kernel(c, b, record->process, record->kernel);
	for (int i = 0; i < 3; i++) {
		field_u64(b, record->grid[i]);
	}
	for (int i = 0; i < 3; i++) {
		field_u64(b, record->block[i]);
	}
	field_u64(b, record->dynamic_shared_bytes);
	field_u64(b, record->device);
	if (process && record->device < process->n_devices) {
		buf_add(b, process->devices[record->device].data,
			process->devices[record->device].n);
	}
	buf_char(b, ',');
	field_u64(b, record->context);
	field_u64(b, record->stream);
	field_u64(b, record->correlation);
	field_u64(b, record->thread);
	buf_i64(b, record->start_ns);
	buf_char(b, ',');
	if (record->duration_ns >= 0) {
		buf_i64(b, record->duration_ns);
	}
	buf_char(b, ',');
	buf_text(b, format_clock(record->clock));
	buf_char(b, ',');
}

static void add_recorded(struct csv *c, struct buf *b, unsigned process)
{
	bool fresh;
	const struct buf *text = fragments_get(c->recorded, process, 0, &fresh);

	buf_add(b, text->data, text->n);
}

static void csv_record(void *f, struct buf *b, const struct gpuctr_record *record,
		       const struct attribution *what)
{
	struct csv *c = f;

	add_launch(c, b, record);
	for (size_t i = 0; i < c->capture->plan->n_columns; i++) {
		if (isfinite(record->values[i])) {
			buf_double(b, record->values[i]);
		}
		buf_char(b, ',');
	}
	add_stack(c, b, record->process, record->range);
	buf_char(b, ',');
	attributed_add(c->attributed, b, record, what);
	buf_char(b, ',');
	add_active(b, record);
	buf_char(b, ',');
	add_recorded(c, b, record->process);
	if (c->capture->chosen) {
		buf_char(b, ',');
		field_u64(b, record->stratum);
		buf_double(b, record->chance);
	}
	if (c->capture->plan->groups > 1) {
		buf_char(b, ',');
		buf_u64(b, record->group);
	}
	for (size_t i = 0; c->capture->sampled && i < c->capture->plan->n_columns; i++) {
		buf_char(b, ',');
		if (record->errors && isfinite(record->errors[i])) {
			buf_double(b, record->errors[i]);
		}
	}
	buf_text(b, "\r\n");
}

const struct format format_csv = {
	.name = "csv",
	.suffix = ".csv",
	.open = csv_open,
	.close = csv_close,
	.write_head = csv_head,
	.write_process = csv_process,
	.write_record = csv_record,
};
