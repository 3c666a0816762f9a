/* SPDX-License-Identifier: Apache-2.0 */

/* A live table for people, one line a kernel. The width of the metric columns follows from their
 * names (the header shows them whole); the kernel's name gets what is left of the terminal. Where
 * lines must fit, heads are cut, then grid and block are left out, and NVTX paths get what names
 * leave. */

#include "client/cli/format.h"

#include <stdlib.h>

#include "client/cli/range_text.h"
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
	FIT_NAME_WIDTH = 16, /* where lines must fit */
	FIT_PATH_WIDTH = 12,
};

struct table {
	const struct format_capture *capture;
	size_t name_width, head_width, path_width; /* heads: at most; path 0: there is none */
	bool shapes;
	unsigned labelled; /* process whose values were last said to be recorded */
	bool told_ranges;  /* the footnote to times with an asterisk */
};

static size_t column_width(const struct table *t, const struct gpuctr_column *column)
{
	size_t n = strlen(column->name);

	n = n < t->head_width ? n : t->head_width;
	return n > VALUE_WIDTH ? n : VALUE_WIDTH;
}

/* The width of all columns but the name and the path. */
static size_t used_width(const struct table *t)
{
	size_t used = INDEX_WIDTH + 2 + 2 + TIME_WIDTH;

	used += t->shapes ? 2 + GRID_WIDTH + 2 + BLOCK_WIDTH : 0;
	for (size_t i = 0; i < t->capture->plan->n_columns; i++) {
		used += 2 + column_width(t, &t->capture->plan->columns[i]);
	}
	return used;
}

static size_t at_most(size_t n, size_t most)
{
	return n < most ? n : most;
}

/* The first layout that leaves room for names. */
static void fit(struct table *t)
{
	static const struct {
		size_t head_width;
		bool shapes;
	} layouts[] = { { SIZE_MAX, true }, { 20, true },  { 12, true }, { SIZE_MAX, false },
			{ 20, false },	    { 12, false }, { 10, false } };
	size_t width = t->capture->width, left = 0;

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]) && left < FIT_NAME_WIDTH; i++) {
		t->head_width = layouts[i].head_width;
		t->shapes = layouts[i].shapes;
		left = width > used_width(t) ? width - used_width(t) : 0;
	}
	t->path_width = left >= MIN_NAME_WIDTH + 2 + FIT_PATH_WIDTH
				? at_most((left - 2) * 2 / 5, MAX_PATH_WIDTH)
				: 0;
	left -= t->path_width > 0 ? t->path_width + 2 : 0;
	t->name_width = left < FIT_NAME_WIDTH ? FIT_NAME_WIDTH : at_most(left, MAX_NAME_WIDTH);
}

static void *table_open(const struct format_capture *capture)
{
	struct table *t = calloc(1, sizeof(*t));
	size_t used;

	if (!t) {
		return NULL;
	}
	*t = (struct table){ .capture = capture,
			     .head_width = SIZE_MAX,
			     .path_width = MAX_PATH_WIDTH,
			     .shapes = true };
	if (capture->fits) {
		fit(t);
		return t;
	}
	used = used_width(t);
	t->name_width =
		capture->width > used + MIN_NAME_WIDTH ? capture->width - used : MIN_NAME_WIDTH;
	t->name_width = at_most(t->name_width, MAX_NAME_WIDTH);
	return t;
}

static void table_close(void *f)
{
	free(f);
}

/* Appends a column, aligned at its right, and empties it. */
static void add_column(struct buf *b, struct buf *field, size_t width)
{
	buf_text(b, "  ");
	text_pad(b, buf_string(field), width, true);
	b->failed |= field->failed;
	buf_clear(field);
}

/* The rollup ".sum" is left out, because it is the usual one. */
static void add_head(struct buf *b, const char *name, size_t width)
{
	size_t n = strlen(name);
	char *text = strdup(name);

	if (text && n > width && n > 4 && strcmp(text + n - 4, ".sum") == 0) {
		text[n - 4] = '\0';
	}
	text_middle_cut(b, text ? text : "", width / 2, width);
	free(text);
}

static void table_head(void *f, struct buf *b)
{
	struct table *t = f;
	CLEAN_BUF struct buf field = { 0 };

	if (t->capture->sampled) {
		buf_text(b, "# values are SAMPLED: divided among kernels, from samples of the "
			    "whole GPU\n");
	}
	buf_printf(b, "%*s  %-*s", INDEX_WIDTH, "#", (int)t->name_width, "kernel");
	if (t->shapes) {
		buf_printf(b, "  %*s  %*s", GRID_WIDTH, "grid", BLOCK_WIDTH, "block");
	}
	buf_printf(b, "  %*s", TIME_WIDTH, "time");
	for (size_t i = 0; i < t->capture->plan->n_columns; i++) {
		const struct gpuctr_column *column = &t->capture->plan->columns[i];

		add_head(&field, column->name, column_width(t, column));
		add_column(b, &field, column_width(t, column));
	}
	buf_text(b, t->path_width > 0 ? "  nvtx\n" : "\n");
}

static void add_dim(struct buf *b, struct buf *field, const uint32_t dim[3], size_t width)
{
	buf_printf(field, "%ux%ux%u", dim[0], dim[1], dim[2]);
	add_column(b, field, width);
}

static void add_values(struct table *t, struct buf *b, struct buf *field,
		       const struct gpuctr_record *record)
{
	for (size_t i = 0; i < t->capture->plan->n_columns; i++) {
		const struct gpuctr_column *column = &t->capture->plan->columns[i];

		text_scaled(field, record->values[i], column->unit);
		add_column(b, field, column_width(t, column));
	}
}

static void add_message(struct buf *b, const struct gpuctr_range *range)
{
	text_terminal(b, range->message);
}

/* Keeps only the end of a text, at most width columns. */
static const char *find_end(const char *text, size_t n, size_t width)
{
	const char *end = text + text_fit(text, n, text_width(text, n) - width);

	if (text_width(end, n - (size_t)(end - text)) > width) {
		end++; /* a character of two columns */
	}
	while (((unsigned char)*end & 0xc0) == 0x80) {
		end++;
	}
	return end;
}

/* A long path keeps its inner end, which says more than the outer one. */
static void add_short_path(struct buf *b, const struct gpuctr_range *range, size_t width)
{
	CLEAN_BUF struct buf path = { 0 };
	const char *text;

	if (!range || width == 0) {
		return;
	}
	range_stack_add(&path, range, width + 1, '/', add_message);
	text = buf_string(&path);
	buf_text(b, "  ");
	if (text_width(text, path.n) > width) {
		text = find_end(text, path.n, width - 3);
		buf_text(b, "...");
	}
	buf_text(b, text);
}

static void add_time(struct buf *b, struct buf *field, const struct gpuctr_record *record)
{
	if (record->clock == GPUCTR_CLOCK_NONE) {
		buf_text(field, TEXT_UNKNOWN);
	} else {
		text_time(field, (double)record->duration_ns);
	}
	buf_text(field, record->clock == GPUCTR_CLOCK_RANGE ? "*" : "");
	add_column(b, field, TIME_WIDTH);
}

static void tell_ranges(struct table *t, struct buf *b, const struct gpuctr_record *record)
{
	if (record->clock == GPUCTR_CLOCK_RANGE && !t->told_ranges) {
		t->told_ranges = true;
		buf_text(b, "# * length of the range around the kernel, longer than the kernel\n");
	}
}

static void table_record(void *f, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	struct table *t = f;
	CLEAN_BUF struct buf field = { 0 };

	tell_ranges(t, b, record);
	buf_printf(b, "%*llu  ", INDEX_WIDTH, (unsigned long long)record->index);
	text_kernel(&field, record->kernel ? record->kernel->name : TEXT_UNKNOWN, t->name_width);
	text_pad(b, buf_string(&field), t->name_width, false);
	buf_clear(&field);
	if (t->shapes) {
		add_dim(b, &field, record->grid, GRID_WIDTH);
		add_dim(b, &field, record->block, BLOCK_WIDTH);
	}
	add_time(b, &field, record);
	add_values(t, b, &field, record);
	add_short_path(b, record->range, t->path_width);
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
