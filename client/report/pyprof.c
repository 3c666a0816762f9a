/* SPDX-License-Identifier: Apache-2.0 */

/* A line for each kernel with the columns of PyProf's prof, for the scripts that read them: fields
 * between spaces and without any, "na" for what is not known, "-" for a list of none. With a width
 * they stand in columns as PyProf lays them out, and as CSV each is quoted.
 *
 * What PyProf computed from the shapes of tensors is measured here: flops, bytes, tc. It is "na"
 * where the capture has no counter of it. A call trace is not recorded. As there, kernels of both
 * directions have module, operator and shapes of the operator that the program called, so that they
 * can be grouped by it: the outermost one that shows the sequence number which joins them.
 *
 * Of a capture with a budget a line is of all launches, measured or not, that are alike in what it
 * shows, and what it adds up is estimated (site_sums.h): lines add up to what the table says of
 * their kernel. "launches" says how many they are; idx numbers the lines.
 *
 * What is kept does not grow with records, but with a budget with lines. */

#include "client/report/pyprof_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

#define BETWEEN_FIELDS "\037"

static const char usual_columns[] = "idx,dir,sub,mod,op,kernel,params,sil";

/* --- the choice ------------------------------------------------------------------------------ */

static const struct column *find_column(const char *name, size_t n)
{
	for (size_t i = 0; i < PYPROF_COLUMNS_MAX; i++) {
		if (strlen(pyprof_columns[i].name) == n &&
		    strncmp(pyprof_columns[i].name, name, n) == 0) {
			return &pyprof_columns[i];
		}
	}
	return NULL;
}

static void list_columns(struct buf *why)
{
	for (size_t i = 0; i < PYPROF_COLUMNS_MAX; i++) {
		buf_text(why, i > 0 ? ", " : "");
		buf_text(why, pyprof_columns[i].name);
	}
}

static bool take_columns(struct pyprof *p, const char *names, struct buf *why)
{
	bool all = strcmp(names, "all") == 0;

	for (size_t i = 0; all && i < PYPROF_COLUMNS; i++) {
		p->columns[p->n_columns++] = &pyprof_columns[i];
	}
	while (!all) {
		size_t n = strcspn(names, ",");
		const struct column *column = find_column(names, n);

		if (!column || p->n_columns == PYPROF_COLUMNS_MAX) {
			buf_text(why, column ? "--columns: more than there are: "
					     : "--columns is 'all' or of these, with commas: ");
			list_columns(why);
			return false;
		}
		p->columns[p->n_columns++] = column;
		if (names[n] == '\0') {
			break;
		}
		names += n + 1;
	}
	return true;
}

/* Kernel and parameters share the width that the other columns leave. */
static bool share_width(struct pyprof *p, struct buf *why)
{
	size_t width = p->options->width, needed = 0, sharing = 0;

	if (width == 0) {
		return true;
	}
	for (size_t i = 0; i < p->n_columns; i++) {
		needed += p->columns[i]->width;
		sharing += p->columns[i]->width == 0;
	}
	if (needed + sharing > width) {
		buf_printf(why, "--width: these columns take %zu at least", needed + sharing);
		return false;
	}
	p->width = sharing > 0 ? (width - needed) / sharing : 0;
	return true;
}

static bool find_sums(struct pyprof *p)
{
	const struct gpuctr_plan *plan = &p->info->plan;
	struct measure *measures = calloc(plan->n_columns + 1, sizeof(*measures));
	struct derived found[DERIVED_MAX];

	if (!measures) {
		return false;
	}
	measures[MEASURE_TIME] = (struct measure){ .name = "time", .unit = "ns", .adds_up = true };
	for (size_t i = 0; i < plan->n_columns; i++) {
		measures[i + 1] =
			(struct measure){ .name = plan->columns[i].name,
					  .unit = plan->columns[i].unit,
					  .adds_up = groups_adds_up(plan->columns[i].name) };
	}
	for (size_t i = derived_find(measures, plan->n_columns + 1, found); i > 0; i--) {
		const struct derived *d = &found[i - 1];

		p->bytes = d->kind == DERIVED_PEAK ? d->part : p->bytes;
		p->flops = d->kind == DERIVED_RATE ? d->part : p->flops;
	}
	free(measures);
	p->values = calloc(plan->n_columns + 1, sizeof(*p->values));
	return p->values != NULL;
}

/* --- lines ----------------------------------------------------------------------------------- */

/* Characters are cut and counted as columns of a terminal. */
static void put_aligned(const struct pyprof *p, struct buf *b, const struct column *column)
{
	size_t width = column->width > 0 ? column->width : p->width;
	const char *text = p->field.data;
	size_t n = column->text ? text_fit(text, p->field.n, width) : p->field.n;
	size_t taken = text_width(text, n), room = taken < width ? width - taken : 0;

	if (column->text) {
		buf_add(b, text, n);
	}
	for (size_t i = 0; i < room; i++) {
		buf_char(b, ' ');
	}
	if (!column->text) {
		buf_add(b, text, n);
	}
	buf_char(b, ' ');
}

static void put_quoted(struct pyprof *p, struct buf *b)
{
	buf_text(b, text_is_formula(buf_string(&p->field)) ? "\"'" : "\"");
	for (size_t i = 0; i < p->field.n; i++) {
		buf_text(b, p->field.data[i] == '"' ? "\"" : "");
		buf_char(b, p->field.data[i]);
	}
	buf_char(b, '"');
}

/* Appends p->field as the i-th field of its line. */
static void put(struct pyprof *p, struct buf *b, size_t i)
{
	if (p->field.n == 0) {
		buf_text(&p->field, TEXT_UNKNOWN);
	}
	if (p->options->width > 0) {
		put_aligned(p, b, p->columns[i]);
	} else {
		buf_text(b, i == 0 ? "" : p->options->csv ? "," : " ");
		if (p->options->csv) {
			put_quoted(p, b);
		} else {
			buf_add(b, p->field.data, p->field.n);
		}
	}
	if (i + 1 == p->n_columns) {
		buf_char(b, '\n');
	}
	b->failed |= p->field.failed;
	buf_clear(&p->field);
}

static void need_head(struct pyprof *p, struct buf *b)
{
	for (size_t i = 0; !p->has_head && i < p->n_columns; i++) {
		buf_text(&p->field, p->columns[i]->head);
		put(p, b, i);
	}
	p->has_head = true;
}

/* --- the exporter ---------------------------------------------------------------------------- */

static void pyprof_close(void *e)
{
	struct pyprof *p = e;

	site_sums_free(p->sites);
	free(p->values);
	buf_deinit(&p->field);
	free(p);
}

static void *pyprof_open(const struct store_info *info, const struct exporter_options *options,
			 struct exporter_refusal *refusal)
{
	struct pyprof *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->info = info;
	p->options = options;
	p->sites = info->budget_ppm > 0 ? site_sums_new(options->intake, NULL) : NULL;
	if (!find_sums(p) ||
	    !take_columns(p, options->columns ? options->columns : usual_columns, &refusal->why) ||
	    !share_width(p, &refusal->why) || (info->budget_ppm > 0 && !p->sites)) {
		pyprof_close(p);
		return NULL;
	}
	return p;
}

static void take_values(struct pyprof *p, const struct gpuctr_record *record)
{
	p->values[MEASURE_TIME] = record->duration_ns < 0 ? NAN : (double)record->duration_ns;
	for (size_t i = 0; i < p->info->plan.n_columns; i++) {
		p->values[MEASURE_TIME + 1 + i] = record->values[i];
	}
}

/* The launches of a line have these fields in common. Each field ends with BETWEEN_FIELDS, which no
 * field contains. */
static int add_to_site(struct pyprof *p, const struct launch *launch)
{
	CLEAN_BUF struct buf site = { 0 };

	for (size_t i = 0; i < p->n_columns; i++) {
		if (!p->columns[i]->of_line) {
			p->columns[i]->add(p, &site, launch);
			buf_text(&site, BETWEEN_FIELDS);
		}
	}
	/* An empty call site would mean "not known". */
	buf_char(&site, '.');
	return site.failed ? -ENOMEM : site_sums_at(p->sites, buf_string(&site));
}

static int pyprof_record(void *e, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	struct pyprof *p = e;
	struct launch launch = { .record = record,
				 .what = what,
				 .op = what->called ? what->called : what->op,
				 .values = p->values,
				 .index = record->index,
				 .launches = 1 };

	take_values(p, record);
	if (p->sites) {
		return add_to_site(p, &launch);
	}
	need_head(p, b);
	for (size_t i = 0; i < p->n_columns; i++) {
		p->columns[i]->add(p, &p->field, &launch);
		put(p, b, i);
	}
	return 0;
}

static int on_site(const struct site_sum *site, void *userdata)
{
	struct pyprof *p = userdata;
	struct launch line = { .values = site->values,
			       .index = ++p->lines,
			       .launches = site->launches };
	char *fields = strdup(site->site), *rest = fields;

	if (!fields) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->n_columns; i++) {
		const struct column *column = p->columns[i];

		if (column->of_line) {
			column->add(p, &p->field, &line);
		} else if (*site->site) {
			buf_text(&p->field, strsep(&rest, BETWEEN_FIELDS));
		} else if (strcmp(column->name, "kernel") == 0) {
			pyprof_add_kernel(&p->field, site->kernel);
		}
		put(p, p->b, i);
	}
	free(fields);
	return p->b->failed ? -ENOMEM : 0;
}

static int pyprof_end(void *e, struct buf *b)
{
	struct pyprof *p = e;
	int r = 0;

	need_head(p, b);
	if (p->sites) {
		p->b = b;
		r = site_sums_finish(p->sites);
		r = r ? r : site_sums_each(p->sites, on_site, p);
	}
	return r;
}

static void pyprof_tell(void *e, struct buf *b)
{
	const struct pyprof *p = e;

	if (p->options->process == 0 && p->info->n_processes > 1) {
		buf_text(b, "several processes are in it, and no column says which; --process N "
			    "takes one\n");
	}
	if (p->sites && groups_are_estimated(site_sums_kernels(p->sites))) {
		buf_text(b,
			 "a line is of all launches that are alike in it, as many as the column "
			 "launches says; sil,\nflops and bytes are sums, ESTIMATED from those that "
			 "--budget chose; gpuctr-client report\ntells their errors\n");
	} else if (p->sites) {
		buf_text(b, SITE_SUMS_BROKE_OFF);
	}
}

const struct exporter exporter_pyprof = {
	.name = "pyprof",
	.attributes = true,
	.open = pyprof_open,
	.close = pyprof_close,
	.record = pyprof_record,
	.end = pyprof_end,
	.tell = pyprof_tell,
};
