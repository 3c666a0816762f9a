/* SPDX-License-Identifier: Apache-2.0 */

/* The page is page.html with the capture's figures in it, as the JSON of reports. Its script makes
 * text of them, and never markup. In the JSON each '<' is an escape, so that no name can end the
 * element that holds it. Rows beyond what fits into PAGE_MAX_BYTES are left out and counted. */

#include "client/report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/derived.h"
#include "client/report/flame.h"
#include "client/report/hints.h"
#include "client/report/names.h"
#include "client/report/peaks.h"
#include "client/report/timeline.h"

enum { ROWS_MAX = 500, ROWS_MIN = 4, FRAMES_A_ROW = 8, NAME_WIDTH = 48 };

#define NO_COLUMN (SIZE_MAX - 1)

/* page.html, and d3 with its notice */
extern const char *const page_lines[], *const d3_lines[];

struct page {
	struct groups *kernels, *operators;
	struct timeline timeline;
	struct frames frames;
	double *values;	       /* of one record: time, and the columns that add up */
	size_t *columns;       /* of the present capture; NO_COLUMN: it has none */
	char **names, **units; /* of values */
	size_t n_values, n_columns;
	char *command;
	double peak_bytes_a_ns; /* the highest of all devices */
	char *peak_of;
	bool one_peak_unknown;
	bool chosen; /* a capture has a budget: what was measured is not all, and suggests nothing
		      */
};

/* --- life --------------------------------------------------------------------------------------
 */

static struct groups *make_groups(enum key key)
{
	const struct keys keys = { .keys = { key }, .n = 1, .nested = key == KEY_OP ? 0 : -1 };

	return groups_new(&keys);
}

struct page *page_new(void)
{
	struct page *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->kernels = make_groups(KEY_KERNEL);
	p->operators = make_groups(KEY_OP);
	return p->kernels && p->operators ? p : page_free(p);
}

struct page *page_free(struct page *p)
{
	if (!p) {
		return NULL;
	}
	groups_free(p->kernels);
	groups_free(p->operators);
	timeline_deinit(&p->timeline);
	frames_deinit(&p->frames);
	for (size_t i = 0; i < p->n_values; i++) {
		free(p->names[i]);
		free(p->units[i]);
	}
	free(p->names);
	free(p->units);
	free(p->values);
	free(p->columns);
	free(p->command);
	free(p->peak_of);
	free(p);
	return NULL;
}

/* --- captures ----------------------------------------------------------------------------------
 */

static int add_value(struct page *p, const char *name, const char *unit)
{
	size_t i = p->n_values;

	p->names[i] = strdup(name);
	p->units[i] = strdup(unit ? unit : "");
	p->n_values++;
	return p->names[i] && p->units[i] ? 0 : -ENOMEM;
}

static int choose_values(struct page *p, const struct gpuctr_plan *plan)
{
	size_t n = plan->n_columns + 1;
	int r;

	p->names = calloc(n, sizeof(char *));
	p->units = calloc(n, sizeof(char *));
	p->columns = calloc(n, sizeof(size_t));
	p->values = calloc(n, sizeof(double));
	if (!p->names || !p->units || !p->columns || !p->values) {
		return -ENOMEM;
	}
	r = add_value(p, "time", "nanosecond");
	for (size_t i = 0; i < plan->n_columns && r == 0; i++) {
		if (groups_adds_up(plan->columns[i].name)) {
			r = add_value(p, plan->columns[i].name, plan->columns[i].unit);
		}
	}
	p->frames.n_values = p->n_values;
	p->frames.merges_steps = true;
	return r ? r : timeline_init(&p->timeline, p->n_values);
}

/* Each capture may have its columns in another order, and lack some. */
static void find_columns(struct page *p, const struct gpuctr_plan *plan)
{
	for (size_t v = 1; v < p->n_values; v++) {
		p->columns[v] = NO_COLUMN;
		for (size_t i = 0; i < plan->n_columns; i++) {
			if (strcmp(plan->columns[i].name, p->names[v]) == 0) {
				p->columns[v] = i;
			}
		}
	}
}

int page_capture(struct page *p, const struct store_info *info, struct buf *why)
{
	int r = 0;

	if (!p->names) {
		p->command = strdup(info->command);
		r = p->command ? choose_values(p, &info->plan) : -ENOMEM;
	}
	p->chosen = p->chosen || info->budget_ppm > 0;
	if (r == 0) {
		find_columns(p, &info->plan);
		frames_next_capture(&p->frames);
	}
	r = r ? r : groups_begin(p->kernels, &info->plan, info->path, why);
	return r ? r : groups_begin(p->operators, &info->plan, info->path, why);
}

static void note_peak(struct page *p, const struct gpuctr_device *device)
{
	double peak = peaks_bytes_a_ns(device);

	p->one_peak_unknown = p->one_peak_unknown || peak <= 0;
	if (peak > p->peak_bytes_a_ns) {
		free(p->peak_of);
		p->peak_of = strdup(device->name);
		p->peak_bytes_a_ns = p->peak_of ? peak : 0;
	}
}

int page_process(struct page *p, const struct gpuctr_process *process)
{
	int r = groups_process(p->kernels, process);

	for (size_t i = 0; i < process->n_devices; i++) {
		note_peak(p, &process->devices[i]);
	}
	return r ? r : groups_process(p->operators, process);
}

static void take_values(struct page *p, const struct gpuctr_record *record)
{
	p->values[0] = record->duration_ns < 0 ? 0 : (double)record->duration_ns;
	for (size_t v = 1; v < p->n_values; v++) {
		p->values[v] = p->columns[v] == NO_COLUMN ? NAN : record->values[p->columns[v]];
	}
}

static int add_to_frame(struct page *p, const struct gpuctr_record *record)
{
	struct frame *frame =
		frames_find(&p->frames, &p->frames.root, groups_last_scope(p->operators), record);

	if (!frame) {
		return -ENOMEM;
	}
	frame->launches++;
	for (size_t v = 0; v < p->n_values; v++) {
		frame->sums[v] += isfinite(p->values[v]) ? p->values[v] : 0;
	}
	return 0;
}

int page_record(struct page *p, const struct gpuctr_record *record)
{
	int r = groups_record(p->kernels, record);

	take_values(p, record);
	timeline_add(&p->timeline, record->start_ns, p->values);
	r = r ? r : groups_record(p->operators, record);
	return r ? r : add_to_frame(p, record);
}

/* --- JSON --------------------------------------------------------------------------------------
 */

static void add_number(struct buf *b, double value)
{
	if (isfinite(value)) {
		buf_double(b, value);
	} else {
		buf_text(b, "null");
	}
}

static void add_timeline(const struct page *p, struct buf *b)
{
	const struct timeline *t = &p->timeline;

	buf_text(b, ",\n\"timeline\":{\"bin_ns\":");
	buf_u64(b, t->bin_ns);
	buf_text(b, ",\"begin_ns\":");
	buf_i64(b, t->begin_ns);
	buf_text(b, ",\"measures\":[");
	for (size_t v = 0; v < p->n_values; v++) {
		buf_text(b, v > 0 ? ",\n{\"name\":" : "{\"name\":");
		text_json(b, p->names[v]);
		buf_text(b, ",\"unit\":");
		text_json(b, p->units[v]);
		buf_text(b, ",\"sums\":[");
		for (size_t i = 0; i < t->n_bins; i++) {
			buf_text(b, i > 0 ? "," : "");
			add_number(b, t->sums[v * TIMELINE_BINS + i]);
		}
		buf_text(b, "]}");
	}
	buf_text(b, "]}");
}

static void add_names(const struct view *v, struct buf *b)
{
	size_t n = v->n_shown;
	const char **labels = calloc(n + 1, sizeof(char *));
	char **names = NULL;

	for (size_t i = 0; labels && i < n; i++) {
		labels[i] = v->rows[i]->labels[0];
	}
	names = labels ? names_shorten(labels, n, NAME_WIDTH, v->keys->keys[0] == KEY_KERNEL)
		       : NULL;
	b->failed = b->failed || !names;
	for (size_t i = 0; names && i < n; i++) {
		buf_text(b, i > 0 ? "," : "");
		text_json(b, names[i]);
	}
	names_free(names, n);
	free(labels);
}

static int add_hints(const struct view *v, struct buf *b)
{
	struct hints hints;
	int r = hints_find(v, &hints);

	for (size_t i = 0; i < hints.n && r == 0; i++) {
		buf_printf(b, "%s{\"row\":%zu,\"text\":", i > 0 ? "," : "", hints.items[i].row);
		text_json(b, hints.items[i].text);
		buf_char(b, '}');
	}
	hints_deinit(&hints);
	return r;
}

/* The JSON of a report, with short names of its rows and hints. */
static int add_view(struct page *p, struct groups *groups, const char *name,
		    const struct machine_source *source, size_t rows, struct buf *b)
{
	const struct view_options options = { .limit = rows, .sort = "time" };
	struct view view;
	int r = groups_finish(groups);

	r = r ? r : view_init(&view, groups, &options, NULL);
	if (r) {
		return r;
	}
	buf_printf(b, ",\n\"%s\":", name);
	machine_json(&view, source, b);
	while (b->n > 0 && b->data[b->n - 1] != '}') {
		b->n--;
	}
	b->n -= b->n > 0;
	buf_text(b, ",\"names\":[");
	add_names(&view, b);
	buf_text(b, "],\"hints\":[");
	r = p->chosen ? 0 : add_hints(&view, b);
	buf_text(b, "]}");
	view_deinit(&view);
	return r;
}

/* Each line a text of the list. */
static void add_notes(const char *notes, struct buf *b)
{
	const char *separator = "";

	buf_text(b, ",\"notes\":[");
	while (*notes) {
		size_t n = strcspn(notes, "\n");
		struct buf line = { 0 };

		buf_add(&line, notes, n);
		buf_text(b, separator);
		separator = ",";
		text_json(b, buf_string(&line));
		buf_deinit(&line);
		notes += n + (notes[n] == '\n');
	}
	buf_char(b, ']');
}

static void add_flops(const struct page *p, struct buf *b)
{
	const struct measure *measures;
	size_t n = groups_measures(p->kernels, &measures);
	struct buf flops = { 0 };

	derived_add_flops(measures, n, &flops);
	buf_text(b, ",\"flops\":");
	text_json(b, buf_string(&flops));
	b->failed = b->failed || flops.failed;
	buf_deinit(&flops);
}

static void add_meta(const struct page *p, const struct machine_source *source, const char *notes,
		     const char *hardware, struct buf *b)
{
	buf_text(b, "{\"meta\":{\"command\":");
	text_json(b, p->command);
	buf_text(b, ",\"captures\":[");
	for (size_t i = 0; i < source->n_captures; i++) {
		buf_text(b, i > 0 ? "," : "");
		text_json(b, source->captures[i]);
	}
	buf_text(b, "],\"hardware\":");
	text_json(b, hardware);
	add_notes(notes, b);
	add_flops(p, b);
	buf_text(b, ",\"peak_of\":");
	text_json(b, p->peak_of);
	buf_text(b, ",\"peak_bytes_per_second\":");
	add_number(b, p->one_peak_unknown ? 0 : p->peak_bytes_a_ns * 1e9);
	buf_char(b, '}');
}

/* --- the page ----------------------------------------------------------------------------------
 */

static void add_escaped(struct buf *b, const struct buf *json)
{
	for (size_t i = 0; i < json->n; i++) {
		if (json->data[i] == '<') {
			buf_text(b, "\\u003c");
		} else {
			buf_char(b, json->data[i]);
		}
	}
	b->failed = b->failed || json->failed;
}

static void add_page(struct buf *b, const struct buf *json)
{
	for (size_t i = 0; page_lines[i]; i++) {
		if (strcmp(page_lines[i], "@DATA@\n") == 0) {
			add_escaped(b, json);
		} else if (strcmp(page_lines[i], "@D3@\n") == 0) {
			for (size_t k = 0; d3_lines[k]; k++) {
				buf_text(b, d3_lines[k]);
			}
		} else {
			buf_text(b, page_lines[i]);
		}
	}
}

static int make_data(struct page *p, const struct machine_source *source, const char *notes,
		     const char *hardware, size_t rows, struct buf *json)
{
	int r;

	buf_clear(json);
	add_meta(p, source, notes, hardware, json);
	r = add_view(p, p->kernels, "kernel", source, rows, json);
	r = r ? r : add_view(p, p->operators, "op", source, rows, json);
	add_timeline(p, json);
	buf_text(json, ",\n\"flame\":");
	r = r ? r : flame_json(&p->frames, rows * FRAMES_A_ROW, NAME_WIDTH, json);
	buf_char(json, '}');
	return r;
}

int page_print(struct page *p, const struct machine_source *source, const char *notes,
	       const char *hardware, struct buf *b)
{
	struct buf json = { 0 };
	size_t rows = ROWS_MAX;
	int r = make_data(p, source, notes, hardware, rows, &json);

	while (r == 0 && json.n > PAGE_MAX_BYTES && rows > ROWS_MIN) {
		rows /= 2;
		r = make_data(p, source, notes, hardware, rows, &json);
	}
	if (r == 0) {
		add_page(b, &json);
	}
	r = r == 0 && b->failed ? -ENOMEM : r;
	buf_deinit(&json);
	return r;
}
