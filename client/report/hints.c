/* SPDX-License-Identifier: Apache-2.0 */

/* Seven rules, each with its measured value, the limit and a remedy.
 *
 * For a kernel in one launch shape that takes at least 5 % of the time, the first rule that applies
 * gives a hint:
 *
 * memory	the kernel reaches 60 % of the memory's peak: fewer bytes make it faster
 * few blocks	most launches have fewer blocks than the device has multiprocessors, so that some of
 *		these are idle. Kernels with few blocks that take less than 5 % share one hint
 * latency	it reaches 60 % of no peak, that of tensor cores included: it waits. ncu also draws
 *		this line at 60 %. A range lasts longer than its kernel, so its time shows no
 *		latency
 *
 * For an operator that takes at least 5 % of the time and is a matrix product or a convolution:
 *
 * unused	its operations on tensor cores were counted, and it has none
 * dimension	it uses tensor cores, which work in blocks of 8, and 8 does not divide a dimension
 *
 * The first convolution of a network for images, with 3 channels, gives neither hint, because the
 * libraries have kernels for it. For the program:
 *
 * launches	the GPU waits half of the time for the next kernel, in pauses so short that nothing
 *		but the launch is in them. Measuring in ranges makes pauses of its own */

#include "client/report/hints.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/names.h"
#include "proto/base/clean.h"

enum {
	NAME_WIDTH = 48,
	TIME_PERCENT = 5,   /* least share of all time that gives a hint */
	ROOF_PERCENT = 60,  /* least share of a peak that counts as bound by it */
	SMALL_PERCENT = 20, /* least share of all time, for all kernels with few blocks together */
	PAUSE_PERCENT = 50, /* share of pauses in the time of kernels and pauses */
	PAUSE_NS_MAX = 100 * 1000,
	PAUSES_MIN = 100,
	IMAGE_CHANNELS = 4, /* most channels of images: red, green, blue and alpha */
	DIMENSIONS_MAX = 8,
};

enum { LABEL_KERNEL, LABEL_SHAPE };

/* Pauses between kernels that were launched one after the other. */
struct pace {
	unsigned process, device; /* of the last kernel */
	uint64_t index;
	int64_t end_ns; /* latest end of the kernels so far */
	uint64_t n;
	double busy_ns, paused_ns;
};

struct hints {
	struct groups *groups;
	struct view kernels; /* view of the groups, sorted by time */
	struct pace pace;
	struct hint items[HINTS_MAX];
	const struct group *rows[HINTS_MAX]; /* row of each item; NULL: no kernel */
	size_t n, n_left_out;
	struct texts texts; /* texts of items */
};

/* --- captures -------------------------------------------------------------------------------- */

struct hints *hints_new(struct groups *groups)
{
	static const struct keys keys = {
		.keys = { [LABEL_KERNEL] = KEY_KERNEL, [LABEL_SHAPE] = KEY_GRID },
		.n = 2,
		.nested = -1
	};
	struct hints *h = calloc(1, sizeof(*h));

	if (h) {
		h->groups = groups_beside(groups, &keys);
	}
	return h && h->groups ? h : hints_free(h);
}

static void forget(struct hints *h)
{
	view_deinit(&h->kernels);
	texts_deinit(&h->texts);
	h->n = h->n_left_out = 0;
}

struct hints *hints_free(struct hints *h)
{
	if (h) {
		forget(h);
		groups_free(h->groups);
		free(h);
	}
	return NULL;
}

/* Pauses within a graph do not count: the program does not launch its kernels one by one. */
static void add_pause(struct pace *p, const struct gpuctr_record *record)
{
	int64_t end_ns = record->start_ns + record->duration_ns;
	bool follows = record->process == p->process && record->device == p->device &&
		       record->index == p->index + 1 && record->graph_node == 0;

	if (record->clock != GPUCTR_CLOCK_GPU || record->kind == GPUCTR_LAUNCH_GRAPH) {
		*p = (struct pace){ .n = p->n, .busy_ns = p->busy_ns, .paused_ns = p->paused_ns };
		return;
	}
	if (follows && record->start_ns - p->end_ns <= PAUSE_NS_MAX) {
		p->n++;
		p->busy_ns += (double)record->duration_ns;
		p->paused_ns += fmax(0, (double)(record->start_ns - p->end_ns));
	}
	p->end_ns = follows && p->end_ns > end_ns ? p->end_ns : end_ns;
	p->process = record->process;
	p->device = record->device;
	p->index = record->index;
}

void hints_record(struct hints *h, const struct gpuctr_record *record)
{
	add_pause(&h->pace, record);
}

/* --- hints ----------------------------------------------------------------------------------- */

/* Adds a hint unless it exists already. row: NULL if the hint is about no kernel. */
static int add_hint(struct hints *h, const struct group *row, struct buf *name, struct buf *text)
{
	struct hint hint = { texts_add_string(&h->texts, buf_string(name)), NULL,
			     texts_add_string(&h->texts, buf_string(text)) };
	bool failed = name->failed || text->failed || !hint.name || !hint.text;

	hint.shown = hint.name;
	for (size_t i = 0; i < h->n; i++) {
		if (h->items[i].name == hint.name && h->items[i].text == hint.text) {
			return failed ? -ENOMEM : 0;
		}
	}
	if (h->n == HINTS_MAX) {
		h->n_left_out++;
	} else {
		h->rows[h->n] = row;
		h->items[h->n++] = hint;
	}
	return failed ? -ENOMEM : 0;
}

static bool takes_time(const struct group *row, const struct group *all)
{
	double whole = all->own[MEASURE_TIME].sum;

	return whole > 0 && row->own[MEASURE_TIME].sum * 100 >= whole * TIME_PERCENT;
}

/* --- kernels --------------------------------------------------------------------------------- */

/* Value of a derived column in percent. NaN: not known. */
static double part_of_peak(const struct view *v, const char *column, const struct group *row)
{
	const struct derived *d = derived_named(&v->derived, column);

	return d ? derived_value(d, row) : NAN;
}

/* Appends "moves 515 MB (4% of all) in 913 us, at 11% of the memory's peak: ". The time of launches
 * with unknown bytes is shown apart. */
static void add_traffic(const struct view *v, const struct group *row, double memory, struct buf *b)
{
	const struct sum *sum = &v->derived.sums->bytes;
	double bytes = sums_value(sum, row), all = sums_value(sum, v->all);
	double time = row->timed[MEASURE_TIME].sum, known = sums_ns(sum, row);

	if (!(bytes > 0) || time <= 0) {
		return;
	}
	buf_text(b, "moves ");
	text_scaled(b, bytes, "byte");
	if (!isnan(all)) {
		buf_printf(b, " (%.0f%% of all)", bytes / all * 100);
	}
	buf_text(b, " in ");
	text_scaled(b, known, "nanosecond");
	if (known < time) {
		buf_text(b, " (of ");
		text_scaled(b, time, "nanosecond");
		buf_text(b, ", the rest without a value)");
	}
	if (!isnan(memory)) {
		buf_printf(b, ", at %.0f%% of the memory's peak", memory);
	}
	buf_text(b, ": ");
}

static bool is_small(const struct group *row)
{
	return row->small * 2 > row->calls;
}

static int judge_kernel(struct hints *h, const struct group *row)
{
	const struct view *v = &h->kernels;
	const char *shape = row->labels[LABEL_SHAPE];
	double memory = part_of_peak(v, "of_peak", row);
	double computation = part_of_peak(v, "of_flop_peak", row);
	CLEAN_BUF struct buf name = { 0 }, text = { 0 };

	add_traffic(v, row, memory, &text);
	if (memory >= ROOF_PERCENT) {
		buf_text(&text, "bound by memory (limit: 60%): fuse it with the kernel before or "
				"after it, or use smaller data types");
	} else if (is_small(row) && !(computation >= ROOF_PERCENT)) {
		text_count(&text, row->small);
		buf_text(&text, " of ");
		text_count(&text, row->calls);
		buf_text(&text, " launches have fewer blocks than the device has multiprocessors: "
				"use larger batches or several streams");
	} else if (memory < ROOF_PERCENT && computation < ROOF_PERCENT && row->total_ranged == 0 &&
		   row->graphs == 0) {
		buf_printf(&text,
			   "bound by latency, at %.0f%% of the tensor cores' peak (both below "
			   "60%%): run more warps at a time, or fuse it with other kernels",
			   computation);
	} else {
		return 0;
	}
	text_terminal(&name, row->labels[LABEL_KERNEL]);
	buf_printf(&name, "%s%s", *shape ? ", " : "", shape);
	return add_hint(h, row, &name, &text);
}

/* --- operators ------------------------------------------------------------------------------- */

static bool is_product(const struct scope *op)
{
	static const char *const products[] = { "conv", "mm", "linear", "matmul" };
	bool is = false;

	for (size_t i = 0; op && i < ARRAY_SIZE(products); i++) {
		is = is || strstr(op->name, products[i]);
	}
	return is;
}

/* Reads the next list of "[64,3,224,224] [64,3,7,7]". Returns how many dimensions it has. *at is
 * NULL when there is no further list. */
static size_t read_size(const char **at, unsigned long dims[DIMENSIONS_MAX])
{
	size_t n = 0;
	char *end;

	*at = strchr(*at, '[');
	while (*at && n < DIMENSIONS_MAX && (**at == '[' || **at == ',')) {
		dims[n] = strtoul(*at + 1, &end, 10);
		n += end > *at + 1;
		*at = end;
	}
	return n;
}

/* Checks the dimensions over which products are summed: channels of convolutions, else rows and
 * columns. Returns the first one that 8 does not divide, or 0. *ret_images: an input has the
 * channels of images. */
static unsigned long odd_dimension(const struct scope *op, bool *ret_images)
{
	bool is_convolution = strstr(op->name, "conv") != NULL;
	const char *at = op->sizes;
	unsigned long odd = 0;

	*ret_images = false;
	while (at && *at) {
		unsigned long dims[DIMENSIONS_MAX];
		size_t n = read_size(&at, dims), first = is_convolution ? 1 : n > 2 ? n - 2 : 0;
		size_t end = is_convolution && n > 2 ? 2 : n;

		for (size_t i = first; i < end; i++) {
			odd = odd == 0 && dims[i] > 1 && dims[i] % 8 != 0 ? dims[i] : odd;
			*ret_images |= is_convolution && dims[i] > 1 && dims[i] <= IMAGE_CHANNELS;
		}
	}
	return odd;
}

/* Judges by the counts of tensor cores in the row's own launches. A sampled count within three
 * errors of zero may be zero. */
static enum tensor_use {
	TENSOR_UNKNOWN,
	TENSOR_UNUSED,
	TENSOR_USED
} tensor_use(const struct view *v, const struct group *row)
{
	enum tensor_use use = TENSOR_UNKNOWN;

	for (size_t i = 0; i < v->n_measures && use != TENSOR_USED; i++) {
		const struct measure *m = &v->measures[i];
		const struct part *own = &row->own[i];
		double error = row->self_error ? row->self_error[i] : 0;

		if (m->adds_up && strstr(m->name, "tensor") && own->n * 2 > row->calls) {
			use = own->sum > 3 * error ? TENSOR_USED : TENSOR_UNUSED;
		}
	}
	return use;
}

static bool has_key(const struct view *v, enum key key)
{
	bool has = false;

	for (unsigned i = 0; i < v->keys->n; i++) {
		has = has || v->keys->keys[i] == key;
	}
	return has;
}

/* Rows by kernel get no hint of unused tensor cores: some kernels of an operator need none. */
static int judge_operator(struct hints *h, const struct view *v, const struct group *row)
{
	bool images = true;
	unsigned long odd = is_product(row->op) ? odd_dimension(row->op, &images) : 0;
	enum tensor_use use = images ? TENSOR_UNKNOWN : tensor_use(v, row);
	CLEAN_BUF struct buf name = { 0 }, text = { 0 };

	if (use == TENSOR_UNUSED && !has_key(v, KEY_KERNEL)) {
		buf_text(&text, "none of its operations ran on tensor cores, as far as these were "
				"counted: use bf16, fp16 or tf32");
	} else if (use == TENSOR_USED && odd > 0) {
		buf_printf(&text, "a dimension of %lu, as in ", odd);
		text_terminal(&text, row->op->sizes);
		buf_text(&text, ", is not a multiple of 8, in which tensor cores work: pad it");
	} else {
		return 0;
	}
	text_terminal(&name, row->op->name);
	return add_hint(h, NULL, &name, &text);
}

/* --- all ------------------------------------------------------------------------------------- */

static int judge_small(struct hints *h, double small_ns, uint64_t n_small)
{
	double percent = small_ns / h->kernels.all->own[MEASURE_TIME].sum * 100;
	CLEAN_BUF struct buf name = { 0 }, text = { 0 };

	if (!(percent >= SMALL_PERCENT)) {
		return 0;
	}
	buf_text(&name, "kernels below 5% of the time");
	text_count(&text, n_small);
	buf_printf(&text,
		   " launches, which take %.0f%% of the time (limit: 20%%), have fewer blocks than "
		   "the device has multiprocessors: use larger batches or several streams",
		   percent);
	return add_hint(h, NULL, &name, &text);
}

static int judge_launches(struct hints *h)
{
	const struct pace *p = &h->pace;
	double percent = p->paused_ns / (p->paused_ns + p->busy_ns) * 100;
	bool in_ranges = h->kernels.n_measures > 1 && !h->kernels.all->total_error;
	CLEAN_BUF struct buf name = { 0 }, text = { 0 };

	if (in_ranges || p->n < PAUSES_MIN || !(percent >= PAUSE_PERCENT)) {
		return 0;
	}
	buf_text(&name, "launches");
	text_count(&text, p->n);
	buf_text(&text, " kernels of ");
	text_scaled(&text, p->busy_ns / (double)p->n, "nanosecond");
	buf_printf(
		&text,
		" on average follow pauses that take %.0f%% of the time (limit: 50%%): launching "
		"takes longer than computing: use CUDA graphs, torch.compile or larger batches",
		percent);
	return add_hint(h, NULL, &name, &text);
}

static int judge(struct hints *h, const struct view *operators)
{
	const struct view *v = &h->kernels;
	double small_ns = 0;
	uint64_t n_small = 0;
	int r = 0;

	for (size_t i = 0; i < v->n_rows && r == 0; i++) {
		const struct group *row = v->rows[i];

		if (strcmp(row->labels[LABEL_SHAPE], GROUPS_OTHER_SHAPES) == 0) {
			continue;
		}
		if (takes_time(row, v->all)) {
			r = judge_kernel(h, row);
		} else if (is_small(row)) {
			small_ns += row->own[MEASURE_TIME].sum;
			n_small += row->calls;
		}
	}
	r = r ? r : judge_small(h, small_ns, n_small);
	r = r ? r : judge_launches(h);
	for (size_t i = 0; has_key(operators, KEY_OP) && i < operators->n_shown && r == 0; i++) {
		const struct group *row = operators->rows[i];

		if (row->calls > 0 && takes_time(row, operators->all)) {
			r = judge_operator(h, operators, row);
		}
	}
	return r;
}

/* Shortens the names of kernels as tables do: two names that differ never look the same. */
static int shorten(struct hints *h)
{
	const char *names[HINTS_MAX];
	char **shown;
	bool failed;

	for (size_t i = 0; i < h->n; i++) {
		names[i] = h->rows[i] ? h->rows[i]->labels[LABEL_KERNEL] : "";
	}
	shown = names_shorten(names, h->n, NAME_WIDTH, true);
	failed = !shown;
	for (size_t i = 0; shown && i < h->n; i++) {
		CLEAN_BUF struct buf b = { 0 };

		if (h->rows[i]) {
			const char *shape = h->rows[i]->labels[LABEL_SHAPE];

			buf_printf(&b, "%s%s%s", shown[i], *shape ? ", " : "", shape);
			h->items[i].shown = texts_add_string(&h->texts, buf_string(&b));
			failed = failed || b.failed || !h->items[i].shown;
		}
	}
	names_free(shown, h->n);
	return failed ? -ENOMEM : 0;
}

int hints_find(struct hints *h, const struct view *v)
{
	static const struct view_options by_time = { .sort = "time" };
	int r = groups_finish(h->groups);

	forget(h);
	r = r ? r : view_init(&h->kernels, h->groups, &by_time, NULL);
	r = r ? r : judge(h, v);
	return r ? r : shorten(h);
}

size_t hints_list(const struct hints *h, const struct hint **ret, size_t *ret_left_out)
{
	*ret = h->items;
	*ret_left_out = h->n_left_out;
	return h->n;
}

void hints_print(const struct hints *h, size_t width, struct buf *b)
{
	for (size_t i = 0; i < h->n; i++) {
		CLEAN_BUF struct buf line = { 0 };

		buf_printf(&line, "hint: %s: %s", h->items[i].shown, h->items[i].text);
		text_wrap(b, buf_string(&line), width);
		b->failed |= line.failed;
	}
	if (h->n_left_out > 0) {
		buf_printf(b, "%zu more hints are not shown\n", h->n_left_out);
	}
}
