/* SPDX-License-Identifier: Apache-2.0 */

/* Writes a line for each kernel with the columns of PyProf's prof, for scripts that read these.
 * Spaces separate fields, and fields contain none; "na" is an unknown value, "-" an empty list.
 * With a width, fields are aligned as PyProf does it; in CSV, each field is quoted.
 *
 * PyProf computed flops, bytes and tc from the shapes of tensors. Here they are measured, and are
 * "na" if the capture has no counter for them. A call trace is not recorded. As in PyProf, kernels
 * of both directions have module, operator and shapes of the operator that the program called, so
 * that scripts can group by it. This is the outermost operator that shows the sequence number of
 * the kernel.
 *
 * What is kept does not grow with records. */

#include "client/report/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/attribution.h"
#include "client/report/sums.h"

enum { MAX_NUMBERS = 64 };

enum field {
	IDX,
	SEQ,
	ALTSEQ,
	TID,
	LAYER,
	TRACE,
	DIR,
	SUB,
	MOD,
	OP,
	KERNEL,
	PARAMS,
	SIL,
	TC,
	DEVICE,
	STREAM,
	GRID,
	BLOCK,
	FLOPS,
	BYTES,
	PYPROF_COLUMNS,
};

static const struct column {
	const char *name, *head;
	size_t width; /* least width */
	bool text;    /* left-aligned and cut */
} all_columns[PYPROF_COLUMNS] = {
	[IDX] = { "idx", "Idx", 7, false },	      [SEQ] = { "seq", "SeqId", 7, true },
	[ALTSEQ] = { "altseq", "AltSeqId", 7, true }, [TID] = { "tid", "TId", 12, false },
	[LAYER] = { "layer", "Layer", 10, true },     [TRACE] = { "trace", "Trace", 25, true },
	[DIR] = { "dir", "Direction", 5, true },      [SUB] = { "sub", "Sub", 3, false },
	[MOD] = { "mod", "Module", 15, true },	      [OP] = { "op", "Op", 15, true },
	[KERNEL] = { "kernel", "Kernel", 0, true },   [PARAMS] = { "params", "Params", 0, true },
	[SIL] = { "sil", "Sil(ns)", 10, false },      [TC] = { "tc", "TC", 2, true },
	[DEVICE] = { "device", "Device", 3, false },  [STREAM] = { "stream", "Stream", 3, false },
	[GRID] = { "grid", "Grid", 12, true },	      [BLOCK] = { "block", "Block", 12, true },
	[FLOPS] = { "flops", "FLOPs", 12, false },    [BYTES] = { "bytes", "Bytes", 12, false },
};

struct pyprof {
	const struct store_info *info;
	const struct exporter_options *options;
	struct attributor *attributor; /* finds what the file does not say: the operator that the
					  program called, and the launch's index in it */
	struct sum flops, bytes;       /* by measure; bytes: of both directions */
	enum field columns[PYPROF_COLUMNS];
	size_t n_columns, width; /* width: of kernel and params each; 0: not cut */
	bool has_head;
	struct buf field;
	double *values; /* values of a launch, by measure */
};

static const char usual_columns[] = "idx,dir,sub,mod,op,kernel,params,sil";

/* --- the choice ------------------------------------------------------------------------------ */

static size_t find_column(const char *name, size_t n)
{
	size_t i = 0;

	while (i < PYPROF_COLUMNS &&
	       (strlen(all_columns[i].name) != n || strncmp(all_columns[i].name, name, n) != 0)) {
		i++;
	}
	return i;
}

static bool take_columns(struct pyprof *p, const char *names, struct buf *why)
{
	bool all = strcmp(names, "all") == 0, more = !all;

	for (size_t i = 0; all && i < PYPROF_COLUMNS; i++) {
		p->columns[p->n_columns++] = (enum field)i;
	}
	while (more) {
		size_t n = strcspn(names, ","), found = find_column(names, n);

		if (found == PYPROF_COLUMNS || p->n_columns == PYPROF_COLUMNS) {
			buf_text(why, found < PYPROF_COLUMNS
					      ? "--columns: more than there are: "
					      : "--columns is 'all' or of these, with commas: ");
			for (size_t i = 0; i < PYPROF_COLUMNS; i++) {
				buf_text(why, i > 0 ? ", " : "");
				buf_text(why, all_columns[i].name);
			}
			return false;
		}
		p->columns[p->n_columns++] = (enum field)found;
		more = names[n] != '\0';
		names += n + more;
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
		needed += all_columns[p->columns[i]].width;
		sharing += all_columns[p->columns[i]].width == 0;
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

/* --- fields ---------------------------------------------------------------------------------- */

static void add_field(struct buf *b, const char *text, char space)
{
	size_t from = b->n;

	text_terminal(b, text);
	for (size_t i = from; i < b->n; i++) {
		b->data[i] = b->data[i] == ' ' ? space : b->data[i];
	}
}

static void add_number_or_dash(struct buf *b, int64_t number)
{
	if (number >= 0) {
		buf_i64(b, number);
	} else {
		buf_char(b, '-');
	}
}

static bool has_number(const int64_t *numbers, size_t n, int64_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (numbers[i] == number) {
			return true;
		}
	}
	return false;
}

/* The other numbers that the ranges around the launch show, innermost first. */
static void add_altseq(struct buf *b, const struct gpuctr_record *r, int64_t seq_of_launch)
{
	int64_t numbers[MAX_NUMBERS] = { seq_of_launch };
	size_t n = 1;

	for (const struct gpuctr_site *site = r->site; site && n < MAX_NUMBERS;
	     site = site->parent) {
		int64_t seq = gpuctr_site_number(site, &r->at);

		if (site->numbered != GPUCTR_NUMBER_SEQ || seq < 0 || has_number(numbers, n, seq)) {
			continue;
		}
		if (n > 1) {
			buf_char(b, ',');
		}
		buf_i64(b, seq);
		numbers[n++] = seq;
	}
	if (n == 1) {
		buf_char(b, '-');
	}
}

/* Appends whether the kernel used tensor cores, unless a value is within three errors of zero. */
static void add_tensor(const struct gpuctr_plan *plan, struct buf *b, const struct gpuctr_record *r)
{
	bool known = false, used = false, unsure = false;

	for (size_t i = 0; i < plan->n_columns; i++) {
		double value = r->values[i];
		double error = r->errors ? r->errors[i] : 0;

		if (strstr(plan->columns[i].name, "tensor") && isfinite(value)) {
			known = true;
			used = used || value > 3 * error;
			unsure = unsure || error > 0;
		}
	}
	if (known && (used || !unsure)) {
		buf_char(b, used ? '1' : '0');
	}
}

static void add_shape(struct buf *b, const uint32_t shape[3])
{
	for (int i = 0; i < 3; i++) {
		if (i > 0) {
			buf_char(b, ',');
		}
		buf_u64(b, shape[i]);
	}
}

static void add_sum(struct buf *b, const double *values, const struct sum *s)
{
	double sum = s->n > 0 ? 0 : NAN;

	for (size_t i = 0; i < s->n; i++) {
		sum += values[s->terms[i]];
	}
	if (isfinite(sum)) {
		buf_double(b, sum);
	}
}

/* Appends "aten" (module) or "conv2d" of the operator's name "aten::conv2d". */
static void add_operator(struct buf *b, const char *name, bool module)
{
	const char *middle = strstr(name, "::");
	CLEAN_BUF struct buf part = { 0 };

	buf_add(&part, name, middle ? (size_t)(middle - name) : 0);
	add_field(b, module ? buf_string(&part) : middle ? middle + 2 : name, '_');
	b->failed |= part.failed;
}

static void add_kernel(struct buf *b, const char *name)
{
	CLEAN_BUF struct buf bare = { 0 };

	text_kernel_bare(&bare, name);
	add_field(b, buf_string(&bare), '_');
	b->failed |= bare.failed;
}

/* Appends a field's text, without spaces; nothing if the value is not known. op: operator that the
 * program called, in both directions; NULL: not known. */
static void add_column(const struct pyprof *p, struct buf *b, enum field field,
		       const struct gpuctr_record *r, const struct attribution *what,
		       const struct scope *op)
{
	switch (field) {
	case IDX:
		buf_u64(b, r->index);
		break;
	case SEQ:
		add_number_or_dash(b, what->seq);
		break;
	case ALTSEQ:
		add_altseq(b, r, what->seq);
		break;
	case TID:
		buf_u64(b, r->thread);
		break;
	case LAYER:
		add_field(b, *what->layer ? what->layer : "-", '_');
		break;
	case DIR:
		buf_text(b, attribution_direction_name(what->direction));
		break;
	case SUB:
		buf_u64(b, what->sub);
		break;
	case MOD:
	case OP:
		add_operator(b, op ? op->name : "", field == MOD);
		break;
	case KERNEL:
		add_kernel(b, r->kernel ? r->kernel->name : "");
		break;
	case PARAMS:
		add_field(b, op ? op->sizes : "", ',');
		break;
	case SIL:
		if (r->duration_ns >= 0) {
			buf_i64(b, r->duration_ns);
		}
		break;
	case TC:
		add_tensor(&p->info->plan, b, r);
		break;
	case DEVICE:
		buf_u64(b, r->device);
		break;
	case STREAM:
		buf_u64(b, r->stream);
		break;
	case GRID:
		add_shape(b, r->grid);
		break;
	case BLOCK:
		add_shape(b, r->block);
		break;
	case FLOPS:
		add_sum(b, p->values, &p->flops);
		break;
	case BYTES:
		add_sum(b, p->values, &p->bytes);
		break;
	case TRACE:
	case PYPROF_COLUMNS:
		break;
	}
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
		put_aligned(p, b, &all_columns[p->columns[i]]);
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
		buf_text(&p->field, all_columns[p->columns[i]].head);
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

static int pyprof_record(void *e, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *of_file)
{
	struct pyprof *p = e;
	struct attribution what;

	if (attributor_take(p->attributor, record, &what)) {
		return -ENOMEM;
	}
	p->values[MEASURE_TIME] = record->duration_ns < 0 ? NAN : (double)record->duration_ns;
	memcpy(&p->values[MEASURE_TIME + 1], record->values,
	       p->info->plan.n_columns * sizeof(double));
	need_head(p, b);
	for (size_t i = 0; i < p->n_columns; i++) {
		add_column(p, &p->field, p->columns[i], record, &what,
			   what.called ? what.called : what.op);
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
