/* SPDX-License-Identifier: Apache-2.0 */

/* The page is page.html, into which page.css, d3, page.js and the data are put. The data are the
 * JSON that `report --json` prints, once by kernel, once by operator, and once by --by. The script
 * shows names as text and never as markup, and each '<' in the JSON is an escape, so that no name
 * can end the element that holds the JSON. If the JSON is larger than PAGE_MAX_BYTES the page has
 * fewer rows and stack frames, and counts those that are left out. */

#include "client/report/page.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/counted.h"
#include "client/report/flame.h"
#include "client/report/groups.h"
#include "client/report/names.h"
#include "client/report/peaks.h"
#include "client/report/stack_frames.h"
#include "client/report/sums.h"
#include "client/report/timeline.h"
#include "proto/base/json.h"

enum { ROWS_MAX = 500, ROWS_MIN = 4, FRAMES_A_ROW = 8, NAME_WIDTH = 48, GPUS_MAX = 8 };

#define NO_COLUMN (SIZE_MAX - 1)

/* The lines of page.html, page.css and page.js, and of d3 with its notice. */
extern const char *const page_html[], *const page_css[], *const page_js[], *const d3_lines[];

enum { VIEW_KERNEL, VIEW_OP, VIEW_BY, VIEWS };

static const char *const view_names[VIEWS] = { "kernel", "op", "by" };

struct page {
	const struct page_options *options;
	struct groups *views[VIEWS];	/* groups of each view; VIEW_KERNEL is borrowed */
	size_t n_views;			/* VIEWS, or VIEW_BY if --by names kernel or op alone */
	struct groups *stacks;		/* groups of the flame graph */
	const struct gpuctr_plan *plan; /* plan of the current capture */
	struct timeline timeline;
	struct counted counted; /* for whole GPUs, from samples that captures keep */
	struct stack_frames frames;
	size_t *measures; /* measures of the first capture that add up: their indices in groups */
	size_t *columns;  /* column of each in the current capture, or NO_COLUMN */
	double *values;	  /* values of one record, one for each of measures */
	size_t n_values;
	char *command;		/* command of the first capture */
	struct buf runs;	/* elements of a JSON array: the captures */
	double peak_bytes_a_ns; /* peak of the memory, the highest of all devices */
	char *peak_of;
	bool one_peak_unknown;
};

/* --- life ------------------------------------------------------------------------------------ */

static bool is_usual(const struct keys *by)
{
	return by->n == 1 && (by->keys[0] == KEY_KERNEL || by->keys[0] == KEY_OP);
}

struct page *page_new(const struct page_options *options, struct groups *kernels)
{
	const struct keys keys[VIEWS] = {
		[VIEW_OP] = { .keys = { KEY_OP }, .n = 1, .nested = 0 },
		[VIEW_BY] = options->by,
	};
	struct page *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->options = options;
	p->views[VIEW_KERNEL] = kernels;
	p->n_views = is_usual(&options->by) ? VIEW_BY : VIEWS;
	p->stacks = stack_frames_groups(kernels, false);
	if (!p->stacks) {
		return page_free(p);
	}
	for (size_t i = VIEW_OP; i < p->n_views; i++) {
		p->views[i] = groups_beside(kernels, &keys[i]);
		if (!p->views[i]) {
			return page_free(p);
		}
	}
	return p;
}

struct page *page_free(struct page *p)
{
	if (!p) {
		return NULL;
	}
	for (size_t i = VIEW_OP; i < p->n_views; i++) {
		groups_free(p->views[i]);
	}
	groups_free(p->stacks);
	timeline_deinit(&p->timeline);
	counted_deinit(&p->counted);
	stack_frames_deinit(&p->frames);
	free(p->measures);
	free(p->values);
	free(p->columns);
	free(p->command);
	buf_deinit(&p->runs);
	free(p->peak_of);
	free(p);
	return NULL;
}

/* --- captures -------------------------------------------------------------------------------- */

static int choose_values(struct page *p)
{
	const struct measure *measures;
	size_t n = groups_measures(p->stacks, &measures);
	int r;

	p->measures = calloc(n, sizeof(size_t));
	p->columns = calloc(n, sizeof(size_t));
	p->values = calloc(n, sizeof(double));
	if (!p->measures || !p->columns || !p->values) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		p->measures[p->n_values] = i;
		p->n_values += measures[i].adds_up;
	}
	r = timeline_init(&p->timeline, p->n_values);
	return r ? r : counted_init(&p->counted, p->n_values);
}

/* Captures may have the columns in different orders, or lack some. */
static void find_columns(struct page *p, const struct gpuctr_plan *plan)
{
	const struct measure *measures;

	groups_measures(p->stacks, &measures);
	for (size_t v = 1; v < p->n_values; v++) {
		p->columns[v] = NO_COLUMN;
		for (size_t i = 0; i < plan->n_columns; i++) {
			if (strcmp(plan->columns[i].name, measures[p->measures[v]].name) == 0) {
				p->columns[v] = i;
			}
		}
	}
}

static bool is_among(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* The names of the devices of a capture's processes, each once. */
static void add_gpus(struct json *j, const struct store_info *info)
{
	const char *names[GPUS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < info->n_processes; i++) {
		const struct gpuctr_process *process = &info->processes[i].process;

		for (size_t k = 0; k < process->n_devices && n < GPUS_MAX; k++) {
			if (!is_among(names, n, process->devices[k].name)) {
				names[n++] = process->devices[k].name;
			}
		}
	}
	json_texts(j, "gpus", names, n);
}

static void add_run(struct buf *b, const struct store_info *info)
{
	struct json j = { b, b->n > 0 };

	json_begin(&j, NULL, '{');
	json_text(&j, "path", info->path);
	json_text(&j, "user", info->user);
	json_text(&j, "host", info->host);
	json_i64(&j, "created_ns", info->created_ns);
	add_gpus(&j, info);
	json_end(&j, '}');
}

int page_capture(struct page *p, const struct store_info *info)
{
	int r = 0;

	if (!p->command) {
		p->command = strdup(info->command);
		r = p->command ? choose_values(p) : -ENOMEM;
	}
	add_run(&p->runs, info);
	if (r == 0) {
		find_columns(p, &info->plan);
	}
	p->plan = &info->plan;
	return r;
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

void page_process(struct page *p, const struct gpuctr_process *process)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		note_peak(p, &process->devices[i]);
	}
}

static void take_values(struct page *p, double time, const double *of_columns)
{
	p->values[0] = time;
	for (size_t v = 1; v < p->n_values; v++) {
		p->values[v] = p->columns[v] == NO_COLUMN ? NAN : of_columns[p->columns[v]];
	}
}

void page_record(struct page *p, const struct gpuctr_record *record)
{
	take_values(p, record->duration_ns < 0 ? 0 : (double)record->duration_ns, record->values);
	timeline_add(&p->timeline, record->start_ns, p->values);
}

int page_samples(struct page *p, const struct store_samples *samples)
{
	const struct gpuctr_plan *plan = p->plan;
	double *of_column = calloc(plan->n_columns + 1, sizeof(*of_column));

	for (size_t i = 0; of_column && i < samples->n; i++) {
		memset(of_column, 0, plan->n_columns * sizeof(*of_column));
		for (size_t k = 0; k < plan->n_terms; k++) {
			const struct gpuctr_term *t = &plan->terms[k];

			of_column[t->column] +=
				t->weight * samples->values[i * plan->n_metrics + t->metric];
		}
		take_values(p, NAN, of_column);
		counted_add(&p->counted, samples->gpu, samples->times[i][0], samples->times[i][1],
			    p->values);
	}
	free(of_column);
	return of_column ? 0 : -ENOMEM;
}

/* --- sums of all launches -------------------------------------------------------------------- */

/* Scales the bins, which hold measured launches only, to the sums of all launches. */
static void scale_timeline(struct page *p)
{
	const struct group *all = groups_all(p->views[VIEW_KERNEL]);

	for (size_t v = 0; v < p->n_values; v++) {
		double *sums = &p->timeline.sums[v * TIMELINE_BINS], sum = 0;

		for (size_t i = 0; i < p->timeline.n_bins; i++) {
			sum += sums[i];
		}
		for (size_t i = 0; i < p->timeline.n_bins && sum > 0; i++) {
			sums[i] *= all->own[p->measures[v]].sum / sum;
		}
	}
}

static int finish(struct page *p)
{
	int r = stack_frames_make(&p->frames, p->stacks);

	for (size_t i = VIEW_OP; i < p->n_views && r == 0; i++) {
		r = groups_finish(p->views[i]);
	}
	if (r == 0 && groups_take_turns(p->stacks)) {
		scale_timeline(p);
	}
	return r;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void add_timeline(const struct page *p, struct json *j)
{
	const struct timeline *t = &p->timeline;
	const struct measure *measures;

	groups_measures(p->stacks, &measures);
	json_begin(j, "timeline", '{');
	json_u64(j, "bin_ns", t->bin_ns);
	json_i64(j, "begin_ns", t->begin_ns);
	json_begin(j, "measures", '[');
	for (size_t v = 0; v < p->n_values; v++) {
		json_begin(j, NULL, '{');
		json_text(j, "name", measures[p->measures[v]].name);
		json_text(j, "unit", v == 0 ? "nanosecond" : measures[p->measures[v]].unit);
		json_doubles(j, "sums", t->sums + v * TIMELINE_BINS, t->n_bins);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

/* Parts have six decimals, which keeps the page small. */
static void add_parts(const struct page *p, size_t v, struct json *j)
{
	json_begin(j, NULL, '[');
	for (size_t i = 0; i < p->counted.timeline.n_bins; i++) {
		json_double(j, NULL, ceil(counted_part(&p->counted, v, i) * 1e6) / 1e6);
	}
	json_end(j, ']');
}

/* Adds the sampled sums over time, for each measure of the timeline but the time. */
static void add_sampled(const struct page *p, struct json *j)
{
	const struct timeline *t = &p->counted.timeline;

	if (t->n_bins == 0 || p->timeline.n_bins == 0) {
		return;
	}
	json_begin(j, "sampled", '{');
	json_u64(j, "bin_ns", t->bin_ns);
	json_i64(j, "after_ns", (int64_t)((uint64_t)t->begin_ns - (uint64_t)p->timeline.begin_ns));
	json_begin(j, "sums", '[');
	json_null(j, NULL);
	for (size_t v = 1; v < p->n_values; v++) {
		json_doubles(j, NULL, counted_sums(&p->counted, v), t->n_bins);
	}
	json_end(j, ']');
	json_begin(j, "parts", '[');
	json_null(j, NULL);
	for (size_t v = 1; v < p->n_values; v++) {
		add_parts(p, v, j);
	}
	json_end(j, ']');
	json_end(j, '}');
}

static char *join(const struct view *v, const struct group *row)
{
	CLEAN_BUF struct buf name = { 0 };

	for (unsigned i = 0; i < v->keys->n; i++) {
		buf_text(&name, i > 0 ? ", " : "");
		buf_text(&name, *row->labels[i] ? row->labels[i] : TEXT_UNKNOWN);
	}
	return buf_take(&name);
}

/* The labels of each row with commas, in at most width columns, different for each row. */
static char **shorten_labels(const struct view *v, const struct group *const *rows, size_t n,
			     size_t width)
{
	char **joined = calloc(n + 1, sizeof(*joined)), **shown = NULL;
	bool ok = joined != NULL;

	for (size_t i = 0; ok && i < n; i++) {
		joined[i] = join(v, rows[i]);
		ok = joined[i] != NULL;
	}
	if (ok) {
		shown = names_shorten((const char *const *)joined, n, width,
				      v->keys->n == 1 && v->keys->keys[0] == KEY_KERNEL);
	}
	for (size_t i = 0; joined && i < n; i++) {
		free(joined[i]);
	}
	free(joined);
	return shown;
}

static void add_names(const struct view *v, struct json *j)
{
	size_t n = v->n_shown;
	char **names = shorten_labels(v, (const struct group *const *)v->rows, n, NAME_WIDTH);

	j->b->failed = j->b->failed || !names;
	json_texts(j, "names", (const char *const *)names, names ? n : 0);
	names_free(names, n);
}

static int add_hints(struct hints *hints, const struct view *operators, struct json *j)
{
	const struct hint *items;
	size_t n, left_out;

	if (hints_find(hints, operators)) {
		return -ENOMEM;
	}
	n = hints_list(hints, &items, &left_out);
	json_begin(j, "hints", '[');
	for (size_t i = 0; i < n; i++) {
		json_begin(j, NULL, '{');
		json_text(j, "name", items[i].name);
		json_text(j, "short", items[i].shown);
		json_text(j, "text", items[i].text);
		json_end(j, '}');
	}
	json_end(j, ']');
	return 0;
}

/* Appends a view as `report --json` prints it, with a short name for each row. The view by operator
 * is followed by the hints, which need its rows. */
static int add_view(struct page *p, size_t i, const struct machine_source *source,
		    struct hints *hints, size_t rows, struct json *j, struct buf *why)
{
	const struct group *all = groups_all(p->views[i]);
	const struct view_options options = {
		.limit = rows,
		.sort = all->self[MEASURE_TIME].n > 0 ? "time" : NULL,
		.defines = p->options->defines,
		.n_defines = p->options->n_defines,
	};
	struct view view;
	int r = view_init(&view, p->views[i], &options, why);

	if (r) {
		return r;
	}
	json_begin(j, view_names[i], '{');
	machine_members(&view, source, j);
	add_names(&view, j);
	json_end(j, '}');
	if (i == VIEW_OP) {
		r = add_hints(hints, &view, j);
	}
	view_deinit(&view);
	return r;
}

static void add_flops(const struct page *p, struct json *j)
{
	const struct measure *measures;
	size_t n = groups_measures(p->views[VIEW_KERNEL], &measures);
	CLEAN_BUF struct buf flops = { 0 };

	sums_add_flops(measures, n, &flops);
	json_text(j, "flops", buf_string(&flops));
	j->b->failed = j->b->failed || flops.failed;
}

static void add_flop_peaks(const struct page *p, struct json *j)
{
	json_begin(j, "flop_peaks", '[');
	for (int k = 0; k < PEAKS_PRECISIONS; k++) {
		double peak = groups_flop_peak(p->views[VIEW_KERNEL], (enum peaks_precision)k);

		if (peak > 0) {
			json_begin(j, NULL, '{');
			json_text(j, "of", peaks_precision_name((enum peaks_precision)k));
			json_double(j, "flop_per_second", peak);
			json_end(j, '}');
		}
	}
	json_end(j, ']');
}

static void add_meta(const struct page *p, const struct page_texts *texts, struct json *j)
{
	json_begin(j, "meta", '{');
	json_text(j, "command", p->command);
	json_begin(j, "runs", '[');
	json_add(j, &p->runs);
	json_end(j, ']');
	json_text(j, "hardware", texts->hardware);
	json_text(j, "notes", texts->notes);
	json_text(j, "nothing", texts->nothing);
	add_flops(p, j);
	add_flop_peaks(p, j);
	json_text(j, "peak_of", p->peak_of);
	json_double(j, "peak_bytes_per_second", p->one_peak_unknown ? 0 : p->peak_bytes_a_ns * 1e9);
	json_end(j, '}');
}

/* --- the page -------------------------------------------------------------------------------- */

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

static void add_lines(struct buf *b, const char *const *lines)
{
	for (size_t i = 0; lines[i]; i++) {
		buf_text(b, lines[i]);
	}
}

static void add_page(struct buf *b, const struct buf *json)
{
	for (size_t i = 0; page_html[i]; i++) {
		if (strcmp(page_html[i], "@DATA@\n") == 0) {
			add_escaped(b, json);
		} else if (strcmp(page_html[i], "@STYLE@\n") == 0) {
			add_lines(b, page_css);
		} else if (strcmp(page_html[i], "@D3@\n") == 0) {
			add_lines(b, d3_lines);
		} else if (strcmp(page_html[i], "@SCRIPT@\n") == 0) {
			add_lines(b, page_js);
		} else {
			buf_text(b, page_html[i]);
		}
	}
}

static int make_data(struct page *p, const struct machine_source *source, struct hints *hints,
		     const struct page_texts *texts, size_t rows, struct buf *b, struct buf *why)
{
	/* If metrics take turns, sums are not whole numbers; rounding keeps the page small. */
	const struct flame_values values = { p->measures, p->n_values,
					     groups_take_turns(p->stacks) };
	struct json j = { b };
	int r = 0;

	buf_clear(b);
	json_begin(&j, NULL, '{');
	add_meta(p, texts, &j);
	for (size_t i = 0; i < p->n_views && r == 0; i++) {
		r = add_view(p, i, source, hints, rows, &j, why);
	}
	add_timeline(p, &j);
	add_sampled(p, &j);
	r = r ? r : flame_json(&p->frames, &values, rows * FRAMES_A_ROW, NAME_WIDTH, &j);
	json_end(&j, '}');
	return r;
}

int page_print(struct page *p, const struct machine_source *source, struct hints *hints,
	       const struct page_texts *texts, struct buf *b, struct buf *why)
{
	CLEAN_BUF struct buf json = { 0 };
	size_t rows = ROWS_MAX;
	int r = finish(p);

	r = r ? r : make_data(p, source, hints, texts, rows, &json, why);

	while (r == 0 && json.n > PAGE_MAX_BYTES && rows > ROWS_MIN) {
		rows /= 2;
		r = make_data(p, source, hints, texts, rows, &json, why);
	}
	if (r == 0) {
		add_page(b, &json);
	}
	return r == 0 && (b->failed || p->runs.failed) ? -ENOMEM : r;
}
