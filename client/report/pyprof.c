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
 * What is kept does not grow with records. */

#include "client/report/pyprof_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

static const char usual_columns[] = "idx,dir,sub,mod,op,kernel,params,sil";

/* --- the choice ------------------------------------------------------------------------------ */

static const struct column *find_column(const char *name, size_t n)
{
	for (size_t i = 0; i < PYPROF_COLUMNS; i++) {
		if (strlen(pyprof_columns[i].name) == n &&
		    strncmp(pyprof_columns[i].name, name, n) == 0) {
			return &pyprof_columns[i];
		}
	}
	return NULL;
}

static void list_columns(struct buf *why)
{
	for (size_t i = 0; i < PYPROF_COLUMNS; i++) {
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

		if (!column || p->n_columns == PYPROF_COLUMNS) {
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
	struct sums sums;

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
	sums_find(measures, plan->n_columns + 1, &sums);
	p->bytes = sums.both_ways ? sums.bytes : (struct sum){ .n = 0 };
	p->flops = sums.flops;
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

	attributor_free(p->attributor);
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
	p->attributor = attributor_new();
	if (!p->attributor || !find_sums(p) ||
	    !take_columns(p, options->columns ? options->columns : usual_columns, &refusal->why) ||
	    !share_width(p, &refusal->why)) {
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

static int pyprof_record(void *e, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *of_file)
{
	struct pyprof *p = e;
	struct attribution what;
	struct launch launch = {
		.record = record, .what = &what, .values = p->values, .index = record->index
	};

	(void)of_file;
	if (attributor_take(p->attributor, record, &what)) {
		return -ENOMEM;
	}
	launch.op = what.called ? what.called : what.op;
	take_values(p, record);
	need_head(p, b);
	for (size_t i = 0; i < p->n_columns; i++) {
		p->columns[i]->add(p, &p->field, &launch);
		put(p, b, i);
	}
	return 0;
}

static int pyprof_end(void *e, struct buf *b)
{
	need_head(e, b);
	return 0;
}

static void pyprof_tell(void *e, struct buf *b)
{
	const struct pyprof *p = e;

	if (p->options->process == 0 && p->info->n_processes > 1) {
		buf_text(b, "several processes are in it, and no column says which; --process N "
			    "takes one\n");
	}
}

const struct exporter exporter_pyprof = {
	.name = "pyprof",
	.open = pyprof_open,
	.close = pyprof_close,
	.record = pyprof_record,
	.end = pyprof_end,
	.tell = pyprof_tell,
};
