/* SPDX-License-Identifier: Apache-2.0 */

/* Six rules in a table. Each names its measured value, the limit and a remedy.
 *
 * Of a kernel in one launch shape that takes 5 % of the time or more the first that applies is
 *told:
 *
 * memory	the kernel reaches 60 % of the memory's peak: fewer bytes make it faster
 * few blocks	most launches have fewer blocks than the device has multiprocessors, so that some of
 *		these are idle. Kernels with few blocks that take less than 5 % share one hint
 * latency	it reaches 60 % of no peak, that of tensor cores included: it waits. ncu also draws
 *this line at 60 %. A range lasts longer than its kernel, so its time shows no latency
 *
 * Of an operator that takes 5 % of the time, and is a matrix product or a convolution:
 *
 * unused	its operations on tensor cores were counted, and it has none
 * dimension	it uses tensor cores, which work in blocks of 8, and 8 does not divide a dimension
 *
 * The first convolution of a network for images, with 3 channels, is neither: the libraries have
 * kernels for it. Of the program:
 *
 * launches	the GPU waits half of the time for the next kernel, in pauses so short that nothing
 *but the launch is in them. Measuring in ranges makes pauses of its own */

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
	TIME_PERCENT = 5,   /* of all time, to be worth a hint */
	ROOF_PERCENT = 60,  /* of a roof, to be bound by it */
	SMALL_PERCENT = 20, /* of all time, for all kernels with few blocks together */
	PAUSE_PERCENT = 50, /* of the time of kernels and pauses */
	PAUSE_NS_MAX = 100 * 1000,
	PAUSES_MIN = 100,
	IMAGE_CHANNELS = 4, /* at most: red, green, blue and alpha */
	DIMENSIONS_MAX = 8,
};

enum { LABEL_KERNEL, LABEL_SHAPE };

/* The most launch shapes of kernels that are judged; the limit bounds memory for a program whose
 * shapes all differ. Further shapes share one row, which is not judged. */
enum { SHAPES_MAX = 1 << 14, RECENT_SHAPES = 1 << 10 };

static const char other_shapes[] = "other launch shapes";

/* Pauses between kernels that were launched one after the other. */
struct pace {
	struct gpuctr_record last; /* its pointers are not used */
	int64_t end_ns;		   /* of all until it */
	uint64_t n;
	double busy_ns, paused_ns;
};

struct hints {
	struct groups *groups;
	struct view kernels; /* of these groups, by time */
	struct map shapes;   /* by a hash of kernel and shape, which stands for both */
	struct {
		uint64_t hash;
		char text[96];
	} recent[RECENT_SHAPES]; /* direct-mapped */
	struct pace pace;
	double small_ns; /* kernels with few blocks that take little time each */
	uint64_t n_small;
	struct hint items[HINTS_MAX];
	const struct group *rows[HINTS_MAX]; /* of items; NULL: of no kernel */
	size_t n, n_left_out;
	struct texts texts; /* of items */
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
	view_deinit(&h->kernels);
	texts_deinit(&h->texts);
	h->n = h->n_left_out = h->n_small = 0;
	h->small_ns = 0;
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

static uint64_t hash_of(const struct gpuctr_record *record)
{
	uint64_t hash = map_mix(record->process, record->kernel ? record->kernel->id : 0);

	hash = map_mix(hash, record->kind == GPUCTR_LAUNCH_GRAPH);
	for (int k = 0; k < 3; k++) {
		hash = map_mix(hash, (uint64_t)record->grid[k] << 32 | record->block[k]);
	}
	return hash;
}

/* False: SHAPES_MAX others came before. */
static bool has_own_row(struct hints *h, uint64_t hash)
{
	return map_find(&h->shapes, hash, is_same, h) ||
	       (h->shapes.n < SHAPES_MAX && map_add(&h->shapes, hash, h) == 0);
}

static const char *shape_of(struct hints *h, const struct gpuctr_record *record)
{
	uint64_t hash = hash_of(record);
	char *text = h->recent[hash % RECENT_SHAPES].text;

	if (h->recent[hash % RECENT_SHAPES].hash == hash) {
		return text;
	}
	if (!has_own_row(h, hash)) {
		return other_shapes;
	}
	h->recent[hash % RECENT_SHAPES].hash = hash;
	snprintf(text, sizeof(h->recent[0].text), "grid %ux%ux%u block %ux%ux%u", record->grid[0],
		 record->grid[1], record->grid[2], record->block[0], record->block[1],
		 record->block[2]);
	if (record->kind == GPUCTR_LAUNCH_GRAPH) {
		*text = '\0';
	}
	return text;
}

/* Kernels of a graph follow each other without launches. */
static void add_pause(struct pace *p, const struct gpuctr_record *record)
{
	int64_t end_ns = record->start_ns + record->duration_ns;
	bool follows = record->process == p->last.process && record->device == p->last.device &&
		       record->index == p->last.index + 1 && record->graph_node == 0;

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
	p->last = *record;
}

int hints_at(struct hints *h, const struct gpuctr_record *record)
{
	add_pause(&h->pace, record);
	return groups_at(h->groups, shape_of(h, record));
}

/* --- kernels --------------------------------------------------------------------------------- */

/* What a rule looks at: a row by kernel and launch shape, a row by operator, or all. */
struct subject {
	const struct hints *hints;
	const struct view *view;
	const struct group *row;
};

/* In percent. NaN: not known. */
static double part_of_peak(const struct subject *s, const char *column)
{
	const struct derived *d = derived_named(&s->view->derived, column);

	return d ? derived_value(d, s->row) : NAN;
}

static bool is_bound_by_memory(const struct subject *s)
{
	return part_of_peak(s, "of_peak") >= ROOF_PERCENT;
}

static bool is_small(const struct group *row)
{
	return row->small * 2 > row->calls;
}

static bool has_few_blocks(const struct subject *s)
{
	return is_small(s->row) && !(part_of_peak(s, "of_flop_peak") >= ROOF_PERCENT);
}

static bool waits(const struct subject *s)
{
	return part_of_peak(s, "of_peak") < ROOF_PERCENT &&
	       part_of_peak(s, "of_flop_peak") < ROOF_PERCENT && s->row->total_ranged == 0 &&
	       s->row->graphs == 0;
}

static void add_small(const struct subject *s, struct buf *b)
{
	text_count(b, s->row->small);
	buf_text(b, " of ");
	text_count(b, s->row->calls);
}

static void add_computation(const struct subject *s, struct buf *b)
{
	buf_printf(b, "%.0f%%", part_of_peak(s, "of_flop_peak"));
}

/* "moves 515 MB (4% of all) in 913 us, at 11% of the memory's peak: ". The time of launches of
 * which nobody knows the bytes is told apart. */
static void add_traffic(const struct subject *s, struct buf *b)
{
	const struct sum *sum = &s->view->derived.sums->bytes;
	double bytes = sums_value(sum, s->row), all = sums_value(sum, s->view->all);
	double time = s->row->timed[MEASURE_TIME].sum, known = sums_ns(sum, s->row);
	double memory = part_of_peak(s, "of_peak");

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

/* Reads the next of "[64,3,224,224] [64,3,7,7]". Returns how many dimensions it has; *at is NULL
 * behind the last. */
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

/* What is multiplied and added up: of convolutions the channels, of others rows and columns.
 * Returns the first such dimension that 8 does not divide; 0: none, or the channels are those of
 * images. */
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

/* By counts of tensor cores in the row's own launches. What is within three errors of nothing may
 * be nothing. */
static enum tensor_use {
	TENSOR_UNKNOWN,
	TENSOR_UNUSED,
	TENSOR_USED
} tensor_use(const struct subject *s)
{
	enum tensor_use use = TENSOR_UNKNOWN;

	for (size_t i = 0; i < s->view->n_measures && use != TENSOR_USED; i++) {
		const struct measure *m = &s->view->measures[i];
		const struct part *own = &s->row->own[i];
		double error = s->row->self_error ? s->row->self_error[i] : 0;

		if (m->adds_up && strstr(m->name, "tensor") && own->n * 2 > s->row->calls) {
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

/* Rows by kernel are of a part of what an operator launches. */
static bool has_tensor_cores_unused(const struct subject *s)
{
	bool images;

	if (!is_product(s->row->op) || has_key(s->view, KEY_KERNEL)) {
		return false;
	}
	odd_dimension(s->row->op, &images);
	return !images && tensor_use(s) == TENSOR_UNUSED;
}

static bool has_odd_dimension(const struct subject *s)
{
	bool images;

	return is_product(s->row->op) && odd_dimension(s->row->op, &images) > 0 && !images &&
	       tensor_use(s) == TENSOR_USED;
}

static void add_dimension(const struct subject *s, struct buf *b)
{
	bool images;

	buf_printf(b, "%lu, as in ", odd_dimension(s->row->op, &images));
	text_terminal(b, s->row->op->sizes);
}

/* --- all ------------------------------------------------------------------------------------- */

static double small_percent(const struct subject *s)
{
	return s->hints->small_ns / s->row->own[MEASURE_TIME].sum * 100;
}

static bool has_many_small(const struct subject *s)
{
	return small_percent(s) >= SMALL_PERCENT;
}

static void add_many_small(const struct subject *s, struct buf *b)
{
	text_count(b, s->hints->n_small);
	buf_printf(b, " launches, which take %.0f%% of the time", small_percent(s));
}

static double paused_percent(const struct pace *p)
{
	return p->paused_ns / (p->paused_ns + p->busy_ns) * 100;
}

static bool is_bound_by_launches(const struct subject *s)
{
	const struct pace *p = &s->hints->pace;
	bool in_ranges = s->view->n_measures > 1 && !s->row->total_error;

	return !in_ranges && p->n >= PAUSES_MIN && paused_percent(p) >= PAUSE_PERCENT;
}

static void add_pauses(const struct subject *s, struct buf *b)
{
	const struct pace *p = &s->hints->pace;

	text_count(b, p->n);
	buf_text(b, " kernels of ");
	text_scaled(b, p->busy_ns / (double)p->n, "nanosecond");
	buf_printf(b, " on average follow pauses that take %.0f%% of the time", paused_percent(p));
}

/* --- rules ----------------------------------------------------------------------------------- */

enum of { OF_KERNELS, OF_OPERATORS, OF_ALL };

/* The text is what stands before the figure, the figure and what stands behind it. */
static const struct rule {
	enum of of;
	bool (*applies)(const struct subject *s);
	const char *before;
	void (*add_figure)(const struct subject *s, struct buf *b); /* NULL: none */
	const char *behind;
	const char *name; /* of what there is one */
} rules[] = {
	{ OF_KERNELS, is_bound_by_memory,
	  "bound by memory (limit: 60%): fuse it with the kernel before or after it, or use "
	  "smaller data types",
	  NULL, "" },
	{ OF_KERNELS, has_few_blocks, "", add_small,
	  " launches have fewer blocks than the device has multiprocessors: use larger batches or "
	  "several streams" },
	{ OF_KERNELS, waits, "bound by latency, at ", add_computation,
	  " of the tensor cores' peak (both below 60%): run more warps at a time, or fuse it with "
	  "other kernels" },
	{ OF_OPERATORS, has_tensor_cores_unused,
	  "none of its operations ran on tensor cores, as far as these were counted: use bf16, "
	  "fp16 or tf32",
	  NULL, "" },
	{ OF_OPERATORS, has_odd_dimension, "a dimension of ", add_dimension,
	  ", is not a multiple of 8, in which tensor cores work: pad it" },
	{ OF_ALL, has_many_small, "", add_many_small,
	  " (limit: 20%), have fewer blocks than the device has multiprocessors: use larger "
	  "batches "
	  "or several streams",
	  "kernels below 5% of the time" },
	{ OF_ALL, is_bound_by_launches, "", add_pauses,
	  " (limit: 50%): launching takes longer than computing: use CUDA graphs, torch.compile or "
	  "larger batches",
	  "launches" },
};

/* Adds a hint unless it exists already. */
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

static int tell(struct hints *h, const struct rule *rule, const struct subject *s)
{
	CLEAN_BUF struct buf name = { 0 }, text = { 0 };
	const char *const *labels = s->row->labels;

	if (rule->of == OF_KERNELS) {
		text_terminal(&name, labels[LABEL_KERNEL]);
		buf_printf(&name, "%s%s", *labels[LABEL_SHAPE] ? ", " : "", labels[LABEL_SHAPE]);
		add_traffic(s, &text);
	} else if (rule->of == OF_OPERATORS) {
		text_terminal(&name, s->row->op->name);
	} else {
		buf_text(&name, rule->name);
	}
	buf_text(&text, rule->before);
	if (rule->add_figure) {
		rule->add_figure(s, &text);
	}
	buf_text(&text, rule->behind);
	return add_hint(h, rule->of == OF_KERNELS ? s->row : NULL, &name, &text);
}

/* Of a kernel and of an operator the first rule that applies. */
static int judge(struct hints *h, enum of of, const struct view *v, const struct group *row)
{
	const struct subject s = { h, v, row };
	bool told = false;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rules) && r == 0 && !told; i++) {
		if (rules[i].of == of && rules[i].applies(&s)) {
			r = tell(h, &rules[i], &s);
			told = of != OF_ALL;
		}
	}
	return r;
}

static bool takes_time(const struct group *row, const struct group *all)
{
	double whole = all->own[MEASURE_TIME].sum;

	return whole > 0 && row->own[MEASURE_TIME].sum * 100 >= whole * TIME_PERCENT;
}

static int judge_kernels(struct hints *h)
{
	const struct view *v = &h->kernels;
	int r = 0;

	for (size_t i = 0; i < v->n_rows && r == 0; i++) {
		const struct group *row = v->rows[i];

		if (strcmp(row->labels[LABEL_SHAPE], other_shapes) == 0) {
			continue;
		}
		if (takes_time(row, v->all)) {
			r = judge(h, OF_KERNELS, v, row);
		} else if (is_small(row)) {
			h->small_ns += row->own[MEASURE_TIME].sum;
			h->n_small += row->calls;
		}
	}
	return r ? r : judge(h, OF_ALL, v, v->all);
}

static int judge_operators(struct hints *h, const struct view *v)
{
	int r = 0;

	for (size_t i = 0; has_key(v, KEY_OP) && i < v->n_shown && r == 0; i++) {
		if (v->rows[i]->calls > 0 && takes_time(v->rows[i], v->all)) {
			r = judge(h, OF_OPERATORS, v, v->rows[i]);
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
