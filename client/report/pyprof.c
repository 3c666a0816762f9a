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

#include "client/report/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/fragments.h"
#include "client/cli/text.h"
#include "client/report/attribution.h"
#include "client/report/derived.h"

enum { MAX_COLUMNS = 20, MAX_NUMBERS = 64 };

struct pyprof {
	const struct store_info *info;
	const struct exporter_options *options;
	struct attributor *attributor;
	struct fragments *kernels; /* names as fields */
	struct derived sums;	   /* flops and bytes, by measure: number 0 is the time */
	bool has_bytes;		   /* of both directions */
	const struct column *columns[MAX_COLUMNS];
	size_t n_columns, width; /* of kernel and params each; 0: as long as they are */
	bool has_head;
	struct buf field;
};

/* A launch, as all its columns see it. */
struct launch {
	const struct gpuctr_record *record;
	struct attribution what;
	const struct scope *op; /* as the program called it, in both directions; NULL: not known */
};

/* What is appended has no space in it; nothing: not known. */
struct column {
	const char *name, *head;
	size_t width; /* at least */
	bool text;    /* to the left, and cut */
	void (*add)(struct pyprof *p, struct buf *b, const struct launch *l);
};

/* --- fields ---------------------------------------------------------------------------------- */

static void add_field(struct buf *b, const char *text, char space)
{
	size_t from = b->n;

	text_terminal(b, text);
	for (size_t i = from; i < b->n; i++) {
		b->data[i] = b->data[i] == ' ' ? space : b->data[i];
	}
}

static void add_index(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_u64(b, l->record->index);
}

static void add_seq(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	if (l->what.seq >= 0) {
		buf_i64(b, l->what.seq);
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
static void add_altseq(struct pyprof *p, struct buf *b, const struct launch *l)
{
	int64_t numbers[MAX_NUMBERS] = { l->what.seq };
	size_t n = 1;

	(void)p;
	for (const struct gpuctr_range *r = l->record->range; r && n < MAX_NUMBERS; r = r->parent) {
		struct marker marker;

		marker_parse(r->message, &marker);
		if (marker.seq < 0 || has_number(numbers, n, marker.seq)) {
			continue;
		}
		if (n > 1) {
			buf_char(b, ',');
		}
		buf_i64(b, marker.seq);
		numbers[n++] = marker.seq;
	}
	if (n == 1) {
		buf_char(b, '-');
	}
}

static void add_thread(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_u64(b, l->record->thread);
}

static void add_layer(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	add_field(b, *l->what.layer ? l->what.layer : "-", '_');
}

static void add_nothing(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	(void)b;
	(void)l;
}

static void add_direction(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_text(b, attribution_direction_name(l->what.direction));
}

static void add_sub(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_u64(b, l->what.sub);
}

/* "aten" of "aten::conv2d". */
static void add_module(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const char *end = l->op ? strstr(l->op->name, "::") : NULL;
	struct buf module = { 0 };

	(void)p;
	if (end) {
		buf_add(&module, l->op->name, (size_t)(end - l->op->name));
		add_field(b, buf_string(&module), '_');
	}
	b->failed |= module.failed;
	buf_deinit(&module);
}

static void add_operator(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const char *after = l->op ? strstr(l->op->name, "::") : NULL;

	(void)p;
	if (l->op) {
		add_field(b, after ? after + 2 : l->op->name, '_');
	}
}

static void add_kernel(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const struct gpuctr_kernel *kernel = l->record->kernel;
	struct buf *text, bare = { 0 };
	bool fresh;

	if (!kernel) {
		return;
	}
	text = fragments_get(p->kernels, l->record->process, kernel->id, &fresh);
	if (fresh) {
		text_kernel_bare(&bare, kernel->name);
		add_field(text, buf_string(&bare), '_');
		text->failed |= bare.failed;
		buf_deinit(&bare);
	}
	buf_add(b, text->data, text->n);
	b->failed |= text->failed;
}

static void add_params(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	if (l->op) {
		add_field(b, l->op->sizes, ',');
	}
}

static void add_duration(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	if (l->record->duration_ns >= 0) {
		buf_i64(b, l->record->duration_ns);
	}
}

/* Did the kernel use tensor cores? */
static void add_tensor(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const struct gpuctr_plan *plan = &p->info->plan;
	bool known = false, used = false;

	for (size_t i = 0; i < plan->n_columns; i++) {
		if (strstr(plan->columns[i].name, "tensor") && isfinite(l->record->values[i])) {
			known = true;
			used = used || l->record->values[i] > 0;
		}
	}
	if (known) {
		buf_char(b, used ? '1' : '0');
	}
}

static void add_device(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_u64(b, l->record->device);
}

static void add_stream(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	buf_u64(b, l->record->stream);
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

static void add_grid(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	add_shape(b, l->record->grid);
}

static void add_block(struct pyprof *p, struct buf *b, const struct launch *l)
{
	(void)p;
	add_shape(b, l->record->block);
}

/* Of measures, which begin with the time. */
static void add_sum(struct buf *b, const struct launch *l, const size_t *terms, size_t n)
{
	double sum = n > 0 ? 0 : NAN;

	for (size_t i = 0; i < n; i++) {
		sum += l->record->values[terms[i] - 1];
	}
	if (isfinite(sum)) {
		buf_double(b, sum);
	}
}

static void add_flops(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_sum(b, l, p->sums.flops, p->sums.n_flops);
}

static void add_bytes(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_sum(b, l, p->sums.bytes, p->has_bytes ? p->sums.n_bytes : 0);
}

static const struct column columns[MAX_COLUMNS] = {
	{ "idx", "Idx", 7, false, add_index },
	{ "seq", "SeqId", 7, true, add_seq },
	{ "altseq", "AltSeqId", 7, true, add_altseq },
	{ "tid", "TId", 12, false, add_thread },
	{ "layer", "Layer", 10, true, add_layer },
	{ "trace", "Trace", 25, true, add_nothing },
	{ "dir", "Direction", 5, true, add_direction },
	{ "sub", "Sub", 3, false, add_sub },
	{ "mod", "Module", 15, true, add_module },
	{ "op", "Op", 15, true, add_operator },
	{ "kernel", "Kernel", 0, true, add_kernel },
	{ "params", "Params", 0, true, add_params },
	{ "sil", "Sil(ns)", 10, false, add_duration },
	{ "tc", "TC", 2, true, add_tensor },
	{ "device", "Device", 3, false, add_device },
	{ "stream", "Stream", 3, false, add_stream },
	{ "grid", "Grid", 12, true, add_grid },
	{ "block", "Block", 12, true, add_block },
	{ "flops", "FLOPs", 12, false, add_flops },
	{ "bytes", "Bytes", 12, false, add_bytes },
};

static const char usual_columns[] = "idx,dir,sub,mod,op,kernel,params,sil";

/* --- the choice ------------------------------------------------------------------------------ */

static const struct column *find_column(const char *name, size_t n)
{
	for (size_t i = 0; i < MAX_COLUMNS; i++) {
		if (strlen(columns[i].name) == n && strncmp(columns[i].name, name, n) == 0) {
			return &columns[i];
		}
	}
	return NULL;
}

static void list_columns(struct buf *why)
{
	for (size_t i = 0; i < MAX_COLUMNS; i++) {
		buf_text(why, i > 0 ? ", " : "");
		buf_text(why, columns[i].name);
	}
}

static bool take_columns(struct pyprof *p, const char *names, struct buf *why)
{
	bool all = strcmp(names, "all") == 0;

	for (size_t i = 0; all && i < MAX_COLUMNS; i++) {
		p->columns[p->n_columns++] = &columns[i];
	}
	while (!all) {
		size_t n = strcspn(names, ",");
		const struct column *column = find_column(names, n);

		if (!column || p->n_columns == MAX_COLUMNS) {
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

/* Kernel and parameters share what the others leave. */
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
		p->sums = found[i - 1];
		p->has_bytes = p->has_bytes || p->sums.kind == DERIVED_PEAK;
	}
	free(measures);
	return true;
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

/* What stands in p->field, the i-th of its line. */
static void put(struct pyprof *p, struct buf *b, size_t i)
{
	if (p->field.n == 0) {
		buf_text(&p->field, "na");
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
	fragments_free(p->kernels);
	buf_deinit(&p->field);
	free(p);
}

static void *pyprof_open(const struct store_info *info, const struct exporter_options *options,
			 struct buf *why)
{
	struct pyprof *p = calloc(1, sizeof(*p));

	if (!p) {
		return NULL;
	}
	p->info = info;
	p->options = options;
	p->attributor = attributor_new();
	p->kernels = fragments_new();
	if (!p->attributor || !p->kernels || !find_sums(p) ||
	    !take_columns(p, options->columns ? options->columns : usual_columns, why) ||
	    !share_width(p, why)) {
		pyprof_close(p);
		return NULL;
	}
	return p;
}

static int pyprof_record(void *e, struct buf *b, const struct gpuctr_record *record)
{
	struct pyprof *p = e;
	struct launch launch = { .record = record };

	if (attributor_take(p->attributor, record, &launch.what)) {
		return -ENOMEM;
	}
	launch.op = launch.what.called ? launch.what.called : launch.what.op;
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
	if (p->info->budget_ppm > 0) {
		buf_text(b, "the capture had a --budget: these are the launches that were chosen, "
			    "and sums of them are not the program's\n");
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
