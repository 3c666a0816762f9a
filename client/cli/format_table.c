/* SPDX-License-Identifier: Apache-2.0 */

/* A live table for people, one line a kernel. The width of the metric columns follows from their
 * names (the header shows them whole); the kernel's name gets what is left of the terminal. */

#include "client/cli/format.h"

#include <stdlib.h>

#include "client/cli/range_stack.h"
#include "client/cli/text.h"

enum {
	INDEX_WIDTH = 8,
	GRID_WIDTH = 16,
	BLOCK_WIDTH = 14,
	TIME_WIDTH = 10,
	VALUE_WIDTH = 10,
	MIN_NAME_WIDTH = 32,
	MAX_NAME_WIDTH = 72,
	MAX_PATH_WIDTH = 60,
};

struct table {
	const struct format_capture *capture;
	size_t name_width;
	unsigned labelled; /* process whose values were last said to be recorded */
	bool told_ranges;  /* what a time with an asterisk is */
};

static size_t column_width(const struct gpuctr_column *column)
{
	size_t n = strlen(column->name);

	return n > VALUE_WIDTH ? n : VALUE_WIDTH;
}

static void *table_open(const struct format_capture *capture)
{
	struct table *t = calloc(1, sizeof(*t));
	size_t used = INDEX_WIDTH + GRID_WIDTH + BLOCK_WIDTH + TIME_WIDTH + 8;

	if (!t) {
		return NULL;
	}
	t->capture = capture;
	for (size_t i = 0; i < capture->plan->n_columns; i++) {
		used += column_width(&capture->plan->columns[i]) + 2;
	}
	t->name_width =
		capture->width > used + MIN_NAME_WIDTH ? capture->width - used : MIN_NAME_WIDTH;
	t->name_width = t->name_width > MAX_NAME_WIDTH ? MAX_NAME_WIDTH : t->name_width;
	return t;
}

static void table_close(void *f)
{
	free(f);
}

static void pad(struct buf *b, size_t n)
{
	for (; n > 0; n--) {
		buf_char(b, ' ');
	}
}

/* What was appended since start becomes a field of width columns. */
static void align(struct buf *b, size_t start, size_t width, bool right)
{
	size_t has = b->n > start ? text_width(b->data + start, b->n - start) : 0;
	size_t n = has < width ? width - has : 0;
	size_t length = b->n - start;

	pad(b, n);
	if (right && n > 0 && !b->failed) {
		memmove(b->data + start + n, b->data + start, length);
		memset(b->data + start, ' ', n);
	}
}

static void table_head(void *f, struct buf *b)
{
	struct table *t = f;

	buf_printf(b, "%*s  %-*s  %*s  %*s  %*s", INDEX_WIDTH, "#", (int)t->name_width, "kernel",
		   GRID_WIDTH, "grid", BLOCK_WIDTH, "block", TIME_WIDTH, "time");
	for (size_t i = 0; i < t->capture->plan->n_columns; i++) {
		const struct gpuctr_column *column = &t->capture->plan->columns[i];
		size_t start = b->n + 2;

		buf_text(b, "  ");
		text_terminal(b, column->name);
		align(b, start, column_width(column), true);
	}
	buf_text(b, "  nvtx\n");
}

static void add_dim(struct buf *b, const uint32_t dim[3], size_t width)
{
	size_t start = b->n + 2;

	buf_printf(b, "  %ux%ux%u", dim[0], dim[1], dim[2]);
	align(b, start, width, true);
}

static void add_values(struct table *t, struct buf *b, const struct gpuctr_record *record)
{
	for (size_t i = 0; i < t->capture->plan->n_columns; i++) {
		const struct gpuctr_column *column = &t->capture->plan->columns[i];
		size_t start = b->n + 2;

		buf_text(b, "  ");
		text_scaled(b, record->values[i], column->unit);
		align(b, start, column_width(column), true);
	}
}

static void add_message(struct buf *b, const struct gpuctr_range *range)
{
	text_terminal(b, range->message);
}

/* The inner end of a long path tells more than the outer one. */
static void add_short_path(struct buf *b, const struct gpuctr_range *range)
{
	struct buf path = { 0 };
	const char *text;

	if (!range) {
		return;
	}
	range_stack_add(&path, range, MAX_PATH_WIDTH + 1, '/', add_message);
	text = buf_string(&path);
	buf_text(b, "  ");
	if (text_width(text, path.n) > MAX_PATH_WIDTH) {
		const char *end = text + path.n;

		while (text_width(text, (size_t)(end - text)) > MAX_PATH_WIDTH - 3) {
			text++;
		}
		while (((unsigned char)*text & 0xc0) == 0x80) {
			text++;
		}
		buf_text(b, "...");
	}
	buf_text(b, text);
	buf_deinit(&path);
}

static void add_time(struct buf *b, const struct gpuctr_record *record)
{
	size_t start = b->n + 2;

	buf_text(b, "  ");
	if (record->clock == GPUCTR_CLOCK_NONE) {
		buf_text(b, "na");
	} else {
		text_time(b, (double)record->duration_ns);
	}
	if (record->clock == GPUCTR_CLOCK_RANGE) {
		buf_char(b, '*');
	}
	align(b, start, TIME_WIDTH, true);
}

static void tell_ranges(struct table *t, struct buf *b, const struct gpuctr_record *record)
{
	if (record->clock == GPUCTR_CLOCK_RANGE && !t->told_ranges) {
		t->told_ranges = true;
		buf_text(b, "# * length of the range around the kernel, longer than the kernel\n");
	}
}

static void table_record(void *f, struct buf *b, const struct gpuctr_record *record)
{
	struct table *t = f;
	size_t start;

	tell_ranges(t, b, record);
	buf_printf(b, "%*llu  ", INDEX_WIDTH, (unsigned long long)record->index);
	start = b->n;
	text_kernel(b, record->kernel ? record->kernel->name : "?", t->name_width);
	align(b, start, t->name_width, false);
	add_dim(b, record->grid, GRID_WIDTH);
	add_dim(b, record->block, BLOCK_WIDTH);
	add_time(b, record);
	add_values(t, b, record);
	add_short_path(b, record->range);
	buf_char(b, '\n');
}

static void table_process(void *f, struct buf *b, const struct gpuctr_process *process)
{
	struct table *t = f;

	if (!process->recorded_from || !process->recorded_from[0] ||
	    process->process == t->labelled) {
		return;
	}
	t->labelled = process->process;
	buf_printf(b, "# process %u: RECORDED on ", process->process);
	text_terminal(b, process->recorded_from);
	buf_text(b, ", not measured here\n");
}

const struct format format_table = {
	.name = "table",
	.suffix = ".txt",
	.open = table_open,
	.close = table_close,
	.write_head = table_head,
	.write_process = table_process,
	.write_record = table_record,
};
