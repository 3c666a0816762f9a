/* SPDX-License-Identifier: Apache-2.0 */

/* "report": adds up capture files. Groups, tables and figures come from client/report, as at the
 * end of a run. This file reads the command line and the captures, and writes the output. */

#include "client/cli/verb.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/outfile.h"
#include "client/cli/report_html.h"
#include "client/cli/report_source.h"
#include "client/cli/report_sql.h"
#include "client/cli/say.h"
#include "client/cli/summary.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "client/report/hints.h"
#include "client/report/machine.h"
#include "client/report/table.h"
#include "proto/base/clean.h"

enum { USUAL_LIMIT = 20, WIDTH_MIN = 40, WIDTH_MAX = 2000 };

struct report_options {
	struct keys keys;
	struct view_options view;
	const char *against, *html;
	struct strings defines, where;
	struct buf columns, figures; /* of --columns: names, separated by commas */
	bool csv, json, sql, has_limit, force, verbose, attributes;
	uint64_t width;
};

/* --- output ---------------------------------------------------------------------------------- */

/* A reader that closes the pipe has seen enough: no error. */
static int put(const struct buf *b)
{
	if (b->failed) {
		say_usage("out of memory");
		return EXIT_VERB_FAILED;
	}
	signal(SIGPIPE, SIG_IGN);
	if ((b->n == 0 || fwrite(b->data, 1, b->n, stdout) == b->n) && fflush(stdout) == 0) {
		return 0;
	}
	if (errno == EPIPE) {
		fclose(stdout);
		return 0;
	}
	say_error("output", strerror(errno), outfile_remedy(-errno));
	return EXIT_VERB_FAILED;
}

static void add_wrapped(struct buf *notes, size_t width, struct buf *b)
{
	text_wrap(b, buf_string(notes), width);
	b->failed |= notes->failed;
	buf_deinit(notes);
}

static void add_tail(struct report_source *s, const struct view *view, size_t width, struct buf *to)
{
	struct buf notes = { 0 };

	report_source_print_tail(s, view, &notes);
	add_wrapped(&notes, width, to);
}

/* before: the capture to compare with, or NULL. */
static void add_notes(struct report_source *s, struct report_source *before,
		      const struct report_options *o, const struct view *v, struct buf *b)
{
	struct buf notes = { 0 };

	if (before) {
		summary_print_against(s->summary, &s->end, before->summary, &before->end,
				      v->clocks_differ, &notes);
		add_wrapped(&notes, o->width, b);
	}
	add_tail(s, v, o->width, b);
	if (before) {
		text_printf(&notes, "before, %s:\n", o->against);
		add_wrapped(&notes, o->width, b);
		add_tail(before, v, o->width, b);
	}
}

static bool has_column(const struct view *v)
{
	const struct view_column *time = &v->columns[MEASURE_TIME];
	bool has = time->chosen && view_is_known(v, time);

	for (size_t i = MEASURE_TIME + 1; i < v->n_columns; i++) {
		has = has || v->columns[i].chosen;
	}
	return has;
}

/* Appends what to do about a key that is unknown in all rows. */
static void add_unknown_keys(const struct view *v, struct buf *b)
{
	static const struct {
		enum key key;
		const char *what;
	} advice[] = {
		{ KEY_OP, "no kernel ran in an operator: capture a PyTorch program with --torch" },
		{ KEY_DIR, "no kernel ran in an operator: capture a PyTorch program with --torch" },
		{ KEY_LAYER, "no kernel ran in a layer: capture a PyTorch program with "
			     "--torch=modules, or mark its parts with NVTX" },
		{ KEY_NVTX, "no kernel ran in an NVTX range of its thread: capture a PyTorch "
			    "program with --torch, or mark its parts with NVTX; --by range has "
			    "start/end ranges" },
		{ KEY_RANGE,
		  "no start/end range of NVTX was open; --by nvtx has those of threads" },
		{ KEY_STEP, "no kernel ran in a step: mark steps with NVTX, as 'step 7'" },
	};

	for (unsigned k = 0; k < v->keys->n; k++) {
		bool known = false;

		for (size_t i = 0; i < v->n_rows && !known; i++) {
			known = *v->rows[i]->labels[k];
		}
		for (size_t i = 0; i < ARRAY_SIZE(advice) && !known; i++) {
			if (advice[i].key == v->keys->keys[k]) {
				buf_printf(b, "%s\n", advice[i].what);
			}
		}
	}
}

static void add_table(struct report_source *s, struct report_source *before,
		      const struct report_options *o, struct view *v, struct buf *b)
{
	struct buf notes = { 0 };
	size_t more = 0;

	if (s->timelines.n > 0) {
		buf_add(b, s->timelines.data, s->timelines.n);
		buf_char(b, '\n');
	}
	if (groups_records(s->summary->groups) > 0) {
		b->failed |= table_print(v, o->width, b, o->view.columns ? NULL : &more) != 0;
		buf_char(b, '\n');
	} else {
		report_source_print_nothing(s, b);
	}
	if (groups_records(s->summary->groups) > 0 && !has_column(v)) {
		buf_text(&notes, "no launch's time is known, so there is no column to show: add "
				 "gpu__time_duration.sum to --metrics\n");
	}
	if (groups_records(s->summary->groups) > 0) {
		add_unknown_keys(v, &notes);
	}
	if (v->hides_sort) {
		bool is_total = v->sorted_field == FIELD_TOTAL && !v->nested;

		buf_printf(&notes, "rows are sorted by %s%s%s\n", v->sorted_by->name,
			   is_total ? "" : ":",
			   is_total ? "" : fields_name(v->sorted_field, v->nested));
	}
	if (more > 0) {
		buf_printf(&notes, "%zu more column%s: --columns all\n", more,
			   more == 1 ? "" : "s");
	}
	if (v->n_held > 0) {
		buf_printf(&notes,
			   "%s rows hold others and launch nothing themselves: --sort time:total "
			   "shows them\n",
			   TEXT_COUNT(v->n_held));
	}
	if (v->n_zero > 0) {
		buf_printf(&notes, "%s rows whose own counters are all zero are left out\n",
			   TEXT_COUNT(v->n_zero));
	}
	add_wrapped(&notes, o->width, b);
	if (s->hints && groups_records(s->summary->groups) > 0) {
		b->failed |= hints_find(s->hints, v) != 0;
		hints_print(s->hints, o->width, b);
	}
	add_notes(s, before, o, v, b);
}

bool report_print_run(struct report_source *s, struct buf *b)
{
	struct report_options usual = {
		.width = s->width,
		.view = { .limit = USUAL_LIMIT, .people = true, .styled = s->styled }
	};
	struct groups *groups = summary_groups(s->summary);
	struct view view;

	if (!groups || view_init(&view, groups, &usual.view, NULL)) {
		return false;
	}
	add_table(s, NULL, &usual, &view, b);
	view_deinit(&view);
	return !b->failed;
}

static int print(struct report_source *s, struct report_source *before,
		 const struct report_options *o, const struct strings *files)
{
	struct groups *groups = summary_groups(s->summary);
	struct machine_source source = { .captures = strings_items(files),
					 .n_captures = files->n,
					 .recorded_from = s->recorded_from ? s->recorded_from : "",
					 .complete = s->lacks[STORE_LACKS_NOTHING] == s->captures,
					 .records = groups_records(s->summary->groups),
					 .timelines = &s->timelines };
	CLEAN_BUF struct buf b = { 0 }, why = { 0 };
	struct view view;
	struct view_options options = o->view;
	int r;

	options.defines = strings_items(&o->defines);
	options.n_defines = o->defines.n;
	options.people = !o->csv && !o->json;
	options.styled = terminal_has_style(STDOUT_FILENO);
	r = groups ? view_init(&view, groups, &options, &why) : -ENOMEM;

	if (r) {
		if (r == -ENOMEM) {
			say_usage("out of memory");
		} else {
			say_usage("report: %s", buf_string(&why));
		}
		return r == -ENOMEM ? EXIT_VERB_FAILED : EXIT_VERB_USAGE;
	}
	if (o->csv && s->records == 0 && s->timelines.n > 0) {
		buf_add(&b, s->timelines.data, s->timelines.n);
	} else if (o->csv) {
		machine_csv(&view, &b);
	} else if (o->json) {
		machine_json(&view, &source, &b);
	} else {
		add_table(s, before, o, &view, &b);
	}
	view_deinit(&view);
	return put(&b);
}

static int report_page(const struct report_options *o, const struct strings *files)
{
	const struct page_options options = { .by = o->keys,
					      .defines = strings_items(&o->defines),
					      .n_defines = o->defines.n };
	CLEAN_BUF struct buf why = { 0 };
	int status =
		report_html(files, o->html, o->force, o->attributes, &o->where, &options, &why);

	if (why.n > 0) {
		say_usage("report: %s", buf_string(&why));
	}
	return status;
}

static int print_query(const struct report_options *o, const char *path)
{
	CLEAN_BUF struct buf b = { 0 };
	int r = report_sql(path, &o->keys, o->has_limit ? o->view.limit : 0, &b);

	return r == -EINVAL ? EXIT_VERB_USAGE : r < 0 ? EXIT_VERB_FAILED : put(&b);
}

static int report(struct report_options *o, const struct strings *files)
{
	struct report_source now, before = { 0 };
	int status = EXIT_VERB_FAILED;
	bool hints = !o->against && !o->csv && !o->json;
	bool ok = report_source_open(&now, &o->keys, hints, &o->where);

	now.end.verbose = o->verbose;
	now.attributes = o->attributes;
	now.width = o->width;
	now.form = o->csv ? TIMELINE_CSV : o->json ? TIMELINE_JSON : TIMELINE_TABLE;
	now.styled = terminal_has_style(STDOUT_FILENO);
	for (size_t i = 0; i < files->n && ok; i++) {
		ok = report_source_read(&now, files->items[i]);
	}
	if (ok && o->against) {
		ok = report_source_open(&before, &o->keys, false, &o->where);
		before.end.verbose = o->verbose;
		ok = ok && report_source_read(&before, o->against);
		o->view.against = ok ? summary_groups(before.summary) : NULL;
		ok = o->view.against != NULL;
	}
	if (ok) {
		status = print(&now, o->against ? &before : NULL, o, files);
	}
	report_source_close(&now);
	report_source_close(&before);
	return status;
}

/* --- command line ---------------------------------------------------------------------------- */

static bool take_units(void *base_units, const char *value)
{
	bool is_base = strcmp(value, "base") == 0;

	*(bool *)base_units = is_base;
	return is_base || strcmp(value, "auto") == 0 ||
	       options_refuse("units", value, "auto or base");
}

static bool take_limit(void *options, const char *value)
{
	struct report_options *o = options;

	o->has_limit = true;
	return options_take_number("limit", value, 0, UINT32_MAX, &o->view.limit);
}

/* A name with ":self" is a figure, as in --sort; other names are columns. */
static bool take_columns(void *options, const char *value)
{
	struct report_options *o = options;

	for (const char *part = value; *part; part += strcspn(part, ","), part += *part == ',') {
		struct buf *b = *part == ':' ? &o->figures : &o->columns;

		buf_printf(b, "%s%.*s", b->n > 0 ? "," : "",
			   (int)strcspn(part, ",") - (*part == ':'), part + (*part == ':'));
	}
	o->view.columns = o->columns.n > 0 ? buf_string(&o->columns) : NULL;
	o->view.figures = o->figures.n > 0 ? buf_string(&o->figures) : NULL;
	return value[strspn(value, ",")] || options_refuse("columns", value, "a list of columns");
}

static bool take_width(void *width, const char *value)
{
	return options_take_number("width", value, WIDTH_MIN, WIDTH_MAX, width);
}

static bool take_define(void *options, const char *value)
{
	struct report_options *o = options;

	return strings_add(&o->defines, value, strlen(value));
}

/* Refuses a wrong condition before any file is read. */
static bool take_where(void *options, const char *value)
{
	struct report_options *o = options;
	struct where *w = where_new();
	CLEAN_BUF struct buf why = { 0 };
	int r = w ? where_add(w, value, &why) : -ENOMEM;

	if (r) {
		say_usage("--where: %s", r == -ENOMEM ? "out of memory" : buf_string(&why));
	} else {
		strings_add(&o->where, value, strlen(value));
	}
	where_free(w);
	return r == 0;
}

static const struct option_def defs[] = {
	{ 0, "by", "KEYS",
	  "kernel, nvtx[:DEPTH], range, op, layer, shape, dir, step, device, process, stream, "
	  "thread, "
	  "graph, "
	  "capture, rank, task, host; several with commas (default: kernel)",
	  OPTION_TAKEN(summary_take_keys, struct report_options, keys) },
	{ 0, "where", "KEY=REGEX",
	  "only launches of which this key says so: op=conv; several: all must hold",
	  OPTION_WHOLE(take_where) },
	{ 0, "sort", "COLUMN[:FIGURE]",
	  "most first (default: time); launches, total_launches, name",
	  OPTION_AT(TEXT, struct report_options, view.sort) },
	{ 0, "limit", "N", "rows of the table (default: 20; 0: all)", OPTION_WHOLE(take_limit) },
	{ 0, "columns", "LIST",
	  "time, counters, what is derived; all (default: those that fit); and their figures: "
	  ":total, :sum or :self, :mean, :share, :min, :max, :stddev, :n, :error, :all",
	  OPTION_WHOLE(take_columns) },
	{ 0, "define", "NAME=EXPR",
	  "a column of your own, with a unit: x[byte]=dram__bytes_read/launches",
	  OPTION_WHOLE(take_define) },
	{ 0, "units", "auto|base", "GB and ms, or bytes and ns (default: auto)",
	  OPTION_TAKEN(take_units, struct report_options, view.base_units) },
	{ 0, "skip-zero", NULL, "leave out rows whose own counters are all zero",
	  OPTION_AT(FLAG, struct report_options, view.skip_zero) },
	{ 0, "attribute", NULL, "divide the samples that a capture keeps among its kernels anew",
	  OPTION_AT(FLAG, struct report_options, attributes) },
	{ 0, "against", "CAPTURE", "what became more or less since that capture",
	  OPTION_AT(TEXT, struct report_options, against) },
	{ 0, "width", "N", "columns (default: the terminal's, or 120)",
	  OPTION_TAKEN(take_width, struct report_options, width) },
	{ 0, "csv", NULL, "all figures as comma-separated values",
	  OPTION_AT(FLAG, struct report_options, csv) },
	{ 0, "json", NULL, "all figures as one JSON object",
	  OPTION_AT(FLAG, struct report_options, json) },
	{ 0, "sql", NULL, "a query of the file's views that has the same rows, for sqlite3",
	  OPTION_AT(FLAG, struct report_options, sql) },
	{ 0, "html", "FILE", "a page with charts and tables, for a browser",
	  OPTION_AT(TEXT, struct report_options, html) },
	{ 'f', "force", NULL, "replace FILE", OPTION_AT(FLAG, struct report_options, force) },
	{ 'v', "verbose", NULL, "say how it was measured and what the figures are",
	  OPTION_AT(FLAG, struct report_options, verbose) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static const struct option_rule rules[] = {
	{ "csv", NULL, "json", 0, "are two forms of one table" },
	{ "html", NULL, "sort limit columns units skip-zero against width csv json", 0,
	  "a page has all rows and figures" },
	{ "sql", NULL, "where sort columns define units skip-zero attribute against csv json html",
	  0, "a query has the usual columns of all launches" },
	{ "force", "html", NULL, 0, "replaces a page: add --html FILE" },
	{ NULL, NULL, NULL, 0, NULL },
};

/* Refuses a capture that is named twice, by whatever path: its kernels would count twice. */
static bool are_different(const struct strings *files)
{
	struct stat *stats = calloc(files->n + 1, sizeof(*stats));
	bool ok = stats != NULL;

	for (size_t i = 0; ok && i < files->n; i++) {
		bool there =
			strcmp(files->items[i], "-") != 0 && stat(files->items[i], &stats[i]) == 0;

		for (size_t k = 0; there && ok && k < i; k++) {
			ok = stats[k].st_ino != stats[i].st_ino ||
			     stats[k].st_dev != stats[i].st_dev || stats[i].st_ino == 0;
			if (!ok) {
				say_usage("report: '%s' and '%s' are one file: name it once",
					  files->items[k], files->items[i]);
			}
		}
	}
	free(stats);
	return ok;
}

/* Refuses options that do not go together. */
static bool check(const struct report_options *o, const struct strings *files)
{
	size_t inputs = o->against && strcmp(o->against, "-") == 0;

	if (files->n == 0) {
		say_usage("report: which capture? Name its file, or '-' for standard input");
		return false;
	}
	for (size_t i = 0; i < files->n; i++) {
		inputs += strcmp(files->items[i], "-") == 0;
	}
	if (inputs > 1) {
		say_usage("report: standard input can be read only once");
		return false;
	}
	if (!are_different(files)) {
		return false;
	}
	if (o->sql && (files->n > 1 || inputs > 0)) {
		say_usage("report: --sql is of one file, by name");
		return false;
	}
	return true;
}

static int exec_report(const struct verb *const *verbs, int argc, char **argv)
{
	struct report_options o = { .keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 },
				    .view = { .limit = USUAL_LIMIT } };
	struct strings files = { 0 };
	int rest, status = verb_read(&verb_report, argc, argv, &o, &rest);

	for (; status < 0 && rest < argc; rest++) {
		strings_add(&files, argv[rest], strlen(argv[rest]));
	}
	if (status < 0 && !check(&o, &files)) {
		status = EXIT_VERB_USAGE;
	}
	if (status < 0) {
		/* CSV and JSON, for programs, have all rows unless --limit asks for fewer. */
		o.view.limit = !o.has_limit && (o.csv || o.json) ? 0 : o.view.limit;
		o.width = o.width ? o.width : terminal_width(STDOUT_FILENO);
		status = o.html	 ? report_page(&o, &files)
			 : o.sql ? print_query(&o, files.items[0])
				 : report(&o, &files);
	}
	strings_deinit(&files);
	strings_deinit(&o.where);
	strings_deinit(&o.defines);
	buf_deinit(&o.columns);
	buf_deinit(&o.figures);
	return status;
}

const struct verb verb_report = {
	.name = "report",
	.usage = "report CAPTURE...|- [--by KEYS] [OPTION...]",
	.summary = "add up what capture files hold: by kernel, operator, layer, shape, ...",
	.details =
		"examples:\n"
		"  gpuctr-client report run.gpuctr --sort dram__bytes_read\n"
		"  gpuctr-client report run.gpuctr --by op,shape --limit 10\n"
		"  gpuctr-client report run.gpuctr --by layer,dir --csv\n"
		"  gpuctr-client report run.gpuctr --define 'x[byte]=dram__bytes_read/launches'\n"
		"  gpuctr-client report new.gpuctr --against old.gpuctr\n"
		"  gpuctr-client report run.gpuctr --html run.html --by layer,dir\n",
	.takes = "FILE",
	.options = defs,
	.rules = rules,
	.exec = exec_report,
};
