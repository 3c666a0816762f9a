/* SPDX-License-Identifier: Apache-2.0 */

/* Two sorts of kernels in one launch shape are judged: those that take 5 % of the time or more, and
 * the one that moves most bytes. Each is compared with the peaks of its device:
 *
 * memory	the kernel reaches 60 % of the memory's peak: fewer bytes make it faster
 * computation	the kernel reaches 60 % of the tensor cores' peak
 * few blocks	most launches have fewer blocks than the device has multiprocessors, so that some of
 *		these are idle. Kernels with few blocks that take less than 5 % share one hint
 * latency	none of these: the kernel waits. ncu also draws this line at 60 %
 *
 * An operator that takes 5 % of the time, and is a matrix product or a convolution, gets a hint if
 * 8 does not divide its batch or its channels, because tensor cores work in blocks of 8.
 *
 * Each hint names its measured value, the limit, and a remedy. Where none of these can be concluded
 * there is no hint: a kernel whose operations were not counted may be bound by computation, which
 * only the hint of the kernel that moves most bytes says; and a range lasts longer than its kernel,
 * so that its time shows no latency. */

#include "client/report/hints.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/names.h"

enum {
	NAME_WIDTH = 48,
	TIME_PERCENT = 5,   /* of all time, to be worth a hint */
	ROOF_PERCENT = 60,  /* of a roof, to be bound by it */
	SMALL_PERCENT = 20, /* of all time, for all kernels with few blocks together */
};

enum { LABEL_KERNEL, LABEL_SHAPE };

/* The most launch shapes of kernels that are judged; the limit bounds memory for a program whose
 * shapes all differ. Further shapes share one row, which is not judged. */
enum { SHAPES_MAX = 1 << 14 };

static const char other_shapes[] = "other launch shapes";

struct hints {
	struct groups *groups;
	const struct measure *measures;
	size_t n_measures;
	struct derived derived[DERIVED_MAX];
	size_t n_derived;
	struct hint items[HINTS_MAX];
	const struct group *rows[HINTS_MAX]; /* of items; NULL: of an operator */
	size_t n, n_left_out;
	struct map shapes; /* by a hash of kernel and shape, which stands for both */
};

/* --- captures -------------------------------------------------------------------------------- */

struct hints *hints_new(struct intake *in)
{
	static const struct keys keys = {
		.keys = { [LABEL_KERNEL] = KEY_KERNEL, [LABEL_SHAPE] = KEY_CALL_SITE },
		.n = 2,
		.nested = -1
	};
	struct hints *h = calloc(1, sizeof(*h));

	if (h) {
		h->groups = intake_add(in, groups_new(&keys));
	}
	return h && h->groups ? h : hints_free(h);
}

static void forget(struct hints *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->items[i].name);
		free(h->items[i].shown);
		free(h->items[i].text);
	}
	h->n = h->n_left_out = 0;
}

struct hints *hints_free(struct hints *h)
{
	if (h) {
		forget(h);
		groups_free(h->groups);
		map_deinit(&h->shapes);
		free(h);
	}
	return NULL;
}

static bool is_same(const void *item, const void *key)
{
	return item == key;
}

/* False: SHAPES_MAX others came before. */
static bool has_own_row(struct hints *h, const struct gpuctr_record *record)
{
	uint64_t hash = map_mix(record->process, record->kernel ? record->kernel->id : 0);

	for (int k = 0; k < 3; k++) {
		hash = map_mix(hash, (uint64_t)record->grid[k] << 32 | record->block[k]);
	}
	return map_find(&h->shapes, hash, is_same, h) ||
	       (h->shapes.n < SHAPES_MAX && map_add(&h->shapes, hash, h) == 0);
}

int hints_at(struct hints *h, const struct gpuctr_record *record)
{
	char shape[96];

	if (!has_own_row(h, record)) {
		return groups_at(h->groups, other_shapes);
	}
	snprintf(shape, sizeof(shape), "grid %ux%ux%u block %ux%ux%u", record->grid[0],
		 record->grid[1], record->grid[2], record->block[0], record->block[1],
		 record->block[2]);
	return groups_at(h->groups, record->kind == GPUCTR_LAUNCH_GRAPH ? "" : shape);
}

/* --- what a row does ------------------------------------------------------------------------- */

static const struct derived *find_derived(const struct hints *h, enum derived_kind kind)
{
	for (size_t i = 0; i < h->n_derived; i++) {
		if (h->derived[i].kind == kind) {
			return &h->derived[i];
		}
	}
	return NULL;
}

/* NaN: not known. */
static double share_of(const struct hints *h, enum derived_kind kind, const struct group *row)
{
	const struct derived *d = find_derived(h, kind);

	return d ? derived_value(d, row) : NAN;
}

/* DRAM bytes of the launches whose time is known. NaN: not known. */
static double bytes_of(const struct hints *h, const struct group *row)
{
	const struct derived *d = find_derived(h, DERIVED_BANDWIDTH);

	return d ? derived_part(d, row) : NAN;
}

static bool takes_time(double time, const struct group *all)
{
	double whole = all->self[MEASURE_TIME].sum;

	return whole > 0 && time * 100 >= whole * TIME_PERCENT;
}

static bool has_few_blocks(const struct group *row)
{
	return row->small * 2 > row->calls;
}

/* --- rules ----------------------------------------------------------------------------------- */

/* The time of launches of which nobody knows the bytes is told apart. */
static void add_time(const struct hints *h, const struct group *row, struct buf *b)
{
	const struct derived *d = find_derived(h, DERIVED_BANDWIDTH);
	double time = row->timed[MEASURE_TIME].sum, known = d ? derived_part_ns(d, row) : time;

	text_scaled(b, known < time ? known : time, "nanosecond");
	if (known < time) {
		buf_text(b, " (of ");
		text_scaled(b, time, "nanosecond");
		buf_text(b, ", the rest without a value)");
	}
}

/* "moves 515 MB (4% of all) in 913 us, 11% of the memory's peak" */
static void add_traffic(const struct hints *h, const struct group *row, bool most, struct buf *b)
{
	double bytes = bytes_of(h, row), all = bytes_of(h, groups_all(h->groups));
	double time = row->timed[MEASURE_TIME].sum, memory = share_of(h, DERIVED_PEAK, row);

	if (!(bytes > 0) || time <= 0) {
		return;
	}
	buf_text(b, most ? "moves most, " : "moves ");
	text_scaled(b, bytes, "byte");
	if (!isnan(all)) {
		buf_printf(b, " (%.0f%% of all)", bytes / all * 100);
	}
	buf_text(b, " in ");
	add_time(h, row, b);
	if (!isnan(memory)) {
		buf_printf(b, ", at %.0f%% of the memory's peak", memory);
	}
}

static void add_blocks(const struct group *row, struct buf *b)
{
	text_count(b, row->small);
	buf_text(b, " of ");
	text_count(b, row->calls);
	buf_text(b, " launches have fewer blocks than the device has multiprocessors: use larger "
		    "batches or several streams");
}

/* Appends what bounds a kernel and the remedy; nothing where neither can be concluded. */
static void add_verdict(const struct hints *h, const struct group *row, bool most, struct buf *b)
{
	double memory = share_of(h, DERIVED_PEAK, row);
	double computation = share_of(h, DERIVED_FLOP_PEAK, row);

	if (memory >= ROOF_PERCENT) {
		buf_printf(b,
			   "bound by memory (limit: %d%%): fuse it with the kernel before or after "
			   "it, or use smaller data types",
			   ROOF_PERCENT);
	} else if (computation >= ROOF_PERCENT) {
		buf_printf(b,
			   "bound by computation, at %.0f%% of the tensor cores' peak (limit: "
			   "%d%%): use smaller data types, or compute less",
			   computation, ROOF_PERCENT);
	} else if (has_few_blocks(row)) {
		add_blocks(row, b);
	} else if (isnan(memory) || row->total_ranged > 0 || row->graphs > 0) {
		return;
	} else if (isnan(computation)) {
		if (most) {
			buf_printf(b,
				   "not bound by memory (limit: %d%%); --metrics roofline tells "
				   "whether by computation or latency",
				   ROOF_PERCENT);
		}
	} else {
		buf_printf(b,
			   "bound by latency, at %.0f%% of the tensor cores' peak (both below "
			   "%d%%): run more warps at a time, or fuse it with other kernels",
			   computation, ROOF_PERCENT);
	}
}

/* Looks at the first two dimensions of each size: batch and channels, or rows and columns. Returns
 * the first that 8 does not divide, or 0. */
static unsigned odd_dimension(const char *sizes)
{
	for (const char *p = strchr(sizes, '['); p; p = strchr(p, '[')) {
		char *end;

		p++;
		for (int i = 0; i < 2; i++) {
			unsigned long n = strtoul(p, &end, 10);

			if (end == p) {
				break;
			}
			if (n > 1 && n % 8 != 0) {
				return (unsigned)n;
			}
			if (*end != ',') {
				break;
			}
			p = end + 1;
		}
	}
	return 0;
}

/* The same of an operator that is a matrix product or a convolution; 0 of others. */
static unsigned odd_of(const struct scope *op)
{
	static const char *const products[] = { "conv", "mm", "linear", "matmul", "attention" };

	for (size_t i = 0; op && i < sizeof(products) / sizeof(products[0]); i++) {
		if (strstr(op->name, products[i])) {
			return odd_dimension(op->sizes);
		}
	}
	return 0;
}

/* --- list ------------------------------------------------------------------------------------ */

/* Adds a hint unless it exists already. Empties name and text. */
static int add_hint(struct hints *h, const struct group *row, struct buf *name, struct buf *text)
{
	struct hint *item = &h->items[h->n];
	bool failed = name->failed || text->failed;

	for (size_t i = 0; i < h->n && !failed; i++) {
		if (strcmp(h->items[i].name, buf_string(name)) == 0 &&
		    strcmp(h->items[i].text, buf_string(text)) == 0) {
			buf_deinit(name);
			buf_deinit(text);
			return 0;
		}
	}
	if (h->n == HINTS_MAX && !failed) {
		h->n_left_out++;
		buf_deinit(name);
		buf_deinit(text);
		return 0;
	}
	item->name = buf_take(name);
	item->text = buf_take(text);
	item->shown = item->name ? strdup(item->name) : NULL;
	h->rows[h->n++] = row;
	return item->name && item->text && item->shown ? 0 : -ENOMEM;
}

static int judge(struct hints *h, const struct group *row, bool most)
{
	struct buf name = { 0 }, text = { 0 }, verdict = { 0 };

	add_verdict(h, row, most, &verdict);
	text.failed = verdict.failed;
	if (verdict.n > 0) {
		add_traffic(h, row, most, &text);
		buf_text(&text, text.n > 0 ? ": " : "");
		buf_text(&text, buf_string(&verdict));
		text_terminal(&name, row->labels[LABEL_KERNEL]);
		buf_text(&name, *row->labels[LABEL_SHAPE] ? ", " : "");
		buf_text(&name, row->labels[LABEL_SHAPE]);
	}
	buf_deinit(&verdict);
	return text.n > 0 || text.failed ? add_hint(h, row, &name, &text) : 0;
}

/* Kernels with few blocks that take less than TIME_PERCENT each, but much time together. */
static int judge_small(struct hints *h, double time, uint64_t launches)
{
	double whole = groups_all(h->groups)->self[MEASURE_TIME].sum;
	struct buf name = { 0 }, text = { 0 };

	if (whole <= 0 || time * 100 < whole * SMALL_PERCENT) {
		return 0;
	}
	buf_printf(&name, "kernels below %d%% of the time", TIME_PERCENT);
	text_count(&text, launches);
	buf_printf(&text,
		   " launches, which take %.0f%% of the time (limit: %d%%), have fewer blocks "
		   "than the device has multiprocessors: use larger batches or several streams",
		   time / whole * 100, SMALL_PERCENT);
	return add_hint(h, NULL, &name, &text);
}

static int compare_times(const void *a, const void *b)
{
	const struct group *x = *(const struct group *const *)a,
			   *y = *(const struct group *const *)b;
	double left = x->self[MEASURE_TIME].sum, right = y->self[MEASURE_TIME].sum;
	int order = strcmp(x->labels[LABEL_KERNEL], y->labels[LABEL_KERNEL]);

	return left != right ? (left < right ? 1 : -1)
	       : order	     ? order
			     : strcmp(x->labels[LABEL_SHAPE], y->labels[LABEL_SHAPE]);
}

static bool is_judged(const struct group *row)
{
	return strcmp(row->labels[LABEL_SHAPE], other_shapes) != 0;
}

static int judge_kernels(struct hints *h)
{
	struct group **rows;
	const struct group *most = NULL;
	size_t n = groups_rows(h->groups, &rows);
	double small_time = 0;
	uint64_t n_small = 0;
	int r = 0;

	if (n > 1) {
		qsort(rows, n, sizeof(*rows), compare_times);
	}
	for (size_t i = 0; i < n; i++) {
		if (is_judged(rows[i]) && bytes_of(h, rows[i]) > (most ? bytes_of(h, most) : 0)) {
			most = rows[i];
		}
	}
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!is_judged(rows[i])) {
			continue;
		}
		if (rows[i] == most ||
		    takes_time(rows[i]->self[MEASURE_TIME].sum, groups_all(h->groups))) {
			r = judge(h, rows[i], rows[i] == most && n > 1);
		} else if (has_few_blocks(rows[i])) {
			small_time += rows[i]->self[MEASURE_TIME].sum;
			n_small += rows[i]->calls;
		}
	}
	return r ? r : judge_small(h, small_time, n_small);
}

static bool is_of_operators(const struct view *v)
{
	for (unsigned i = 0; i < v->keys->n; i++) {
		if (v->keys->keys[i] == KEY_OP) {
			return true;
		}
	}
	return false;
}

static int judge_operators(struct hints *h, const struct view *v)
{
	int r = 0;

	for (size_t i = 0; is_of_operators(v) && i < v->n_shown && r == 0; i++) {
		const struct group *row = v->rows[i];
		unsigned odd =
			takes_time(row->self[MEASURE_TIME].sum, v->all) ? odd_of(row->op) : 0;
		struct buf name = { 0 }, text = { 0 };

		if (odd > 0 && row->calls > 0) {
			text_terminal(&name, row->op->name);
			buf_printf(&text, "a dimension of %u, as in ", odd);
			text_terminal(&text, row->op->sizes);
			buf_text(&text, ", is not a multiple of 8, in which tensor cores work: pad "
					"it");
			r = add_hint(h, NULL, &name, &text);
		}
	}
	return r;
}

/* Shortens the names of kernels as tables do: two names that differ never look the same. */
static int shorten(struct hints *h)
{
	const char *names[HINTS_MAX];
	char **shown;
	int r = 0;

	for (size_t i = 0; i < h->n; i++) {
		names[i] = h->rows[i] ? h->rows[i]->labels[LABEL_KERNEL] : "";
	}
	shown = names_shorten(names, h->n, NAME_WIDTH, true);
	for (size_t i = 0; shown && i < h->n && r == 0; i++) {
		const char *shape = h->rows[i] ? h->rows[i]->labels[LABEL_SHAPE] : NULL;
		struct buf b = { 0 };

		if (shape) {
			buf_printf(&b, "%s%s%s", shown[i], *shape ? ", " : "", shape);
			free(h->items[i].shown);
			h->items[i].shown = buf_take(&b);
			r = h->items[i].shown ? 0 : -ENOMEM;
		}
	}
	names_free(shown, h->n);
	return shown ? r : -ENOMEM;
}

int hints_find(struct hints *h, const struct view *v)
{
	int r = groups_finish(h->groups);

	forget(h);
	h->n_measures = groups_measures(h->groups, &h->measures);
	h->n_derived = derived_find(h->measures, h->n_measures, h->derived);
	r = r ? r : judge_kernels(h);
	r = r ? r : judge_operators(h, v);
	return r ? r : shorten(h);
}

size_t hints_list(const struct hints *h, const struct hint **ret, size_t *ret_left_out)
{
	*ret = h->items;
	*ret_left_out = h->n_left_out;
	return h->n;
}

/* Breaks lines at spaces and indents all but the first. */
static void add_wrapped(const char *text, size_t width, struct buf *b)
{
	size_t used = 0;

	while (*text) {
		size_t n = strcspn(text, " "), columns = text_width(text, n);

		if (used > 0 && used + 1 + columns > width) {
			buf_text(b, "\n      ");
			used = 6;
		} else if (used > 0) {
			buf_char(b, ' ');
			used++;
		}
		buf_add(b, text, n);
		used += columns;
		text += n + (text[n] == ' ');
	}
	buf_char(b, '\n');
}

void hints_print(const struct hints *h, size_t width, struct buf *b)
{
	for (size_t i = 0; i < h->n; i++) {
		CLEAN_BUF struct buf line = { 0 };

		buf_printf(&line, "hint: %s: %s", h->items[i].shown, h->items[i].text);
		add_wrapped(buf_string(&line), width, b);
		b->failed |= line.failed;
	}
	if (h->n_left_out > 0) {
		buf_printf(b, "%zu more hints are not shown\n", h->n_left_out);
	}
}
