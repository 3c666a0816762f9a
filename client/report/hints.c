/* SPDX-License-Identifier: Apache-2.0 */

/* Three rules, for rows that take a good part of the time of all:
 *
 * memory	its bytes are a good part of what the memory can move: fewer bytes make it faster
 *		rather than fewer operations do. Few kernels come near the peak, because they wait
 *		for what they fetch: of a training step, batch normalisation and activations are
 *		between a third of it and two (H200)
 * small	most launches have fewer blocks than the device has multiprocessors, so that a part
 *		of it is idle
 * eights	a matrix product or convolution has a batch or channels that are not divisible by 8,
 *		which is what tensor cores work in
 *
 * The limits are in the text of each, so that a reader can judge them. */

#include "client/report/hints.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/labels.h"
#include "client/report/names.h"

enum {
	NAME_WIDTH = 56,
	TIME_PERCENT = 5,  /* of all time, for a row to be worth a hint */
	PEAK_PERCENT = 30, /* of the memory's bandwidth */
};

static const struct derived *find_derived(const struct view *v, enum derived_kind kind)
{
	for (size_t i = 0; i < v->n_derived; i++) {
		if (v->derived[i].kind == kind) {
			return &v->derived[i];
		}
	}
	return NULL;
}

static void add_memory(const struct view *v, const struct group *row, struct buf *b)
{
	const struct derived *peak = find_derived(v, DERIVED_PEAK);
	double share = peak ? derived_value(peak, row) : NAN;
	double time = row->timed[MEASURE_TIME].sum, bytes = 0;

	if (isnan(share) || share < PEAK_PERCENT) {
		return;
	}
	for (size_t i = 0; i < peak->n_bytes; i++) {
		bytes += row->timed[peak->bytes[i]].sum;
	}
	buf_text(b, "moves ");
	text_scaled(b, bytes, "byte");
	buf_text(b, " in ");
	text_scaled(b, time, "nanosecond");
	buf_text(b, ", which is ");
	text_scaled(b, bytes / time * 1e9, "byte/second");
	buf_printf(b,
		   ", %.0f%% of the memory's peak (limit: %d%%): bound by memory; fusing it "
		   "with what runs before or after, or smaller types, would help",
		   share, PEAK_PERCENT);
}

static void add_small(const struct view *v, const struct group *row, struct buf *b)
{
	(void)v;
	if (row->small * 2 <= row->calls) {
		return;
	}
	text_count(b, row->small);
	buf_text(b, " of ");
	text_count(b, row->calls);
	buf_text(b, " launches have fewer blocks than the device has multiprocessors: a part of it "
		    "is idle; larger batches, or several streams, would help");
}

/* The first two dimensions of each size: batch and channels, or rows and columns. Returns the first
 * that eight does not divide, 0: none. */
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

static void add_eights(const struct view *v, const struct group *row, struct buf *b)
{
	static const char *const products[] = { "conv", "mm", "linear", "matmul", "attention" };
	bool is_product = false;
	unsigned odd;

	(void)v;
	for (size_t i = 0; row->op && i < sizeof(products) / sizeof(products[0]); i++) {
		is_product |= strstr(row->op->name, products[i]) != NULL;
	}
	odd = is_product ? odd_dimension(row->op->sizes) : 0;
	if (odd == 0) {
		return;
	}
	buf_printf(b, "a dimension of %u, as in ", odd);
	text_terminal(b, row->op->sizes);
	buf_text(b, ", is not divisible by 8, which is what tensor cores work in; padding it would "
		    "help");
}

static bool matters(const struct view *v, const struct group *row)
{
	double whole = v->all->self[MEASURE_TIME].sum;

	return row->calls > 0 && whole > 0 &&
	       row->self[MEASURE_TIME].sum * 100 >= whole * TIME_PERCENT;
}

/* At spaces, what follows a line indented. */
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

/* --- all ------------------------------------------------------------------------------------- */

static int add_hint(struct hints *h, size_t row, const char *text)
{
	if (h->n == HINTS_MAX) {
		h->n_left_out++;
		return 0;
	}
	h->items[h->n].row = row;
	h->items[h->n].text = strdup(text);
	return h->items[h->n++].text ? 0 : -ENOMEM;
}

int hints_find(const struct view *v, struct hints *ret)
{
	static void (*const rules[])(const struct view *, const struct group *,
				     struct buf *) = { add_memory, add_small, add_eights };
	int r = 0;

	*ret = (struct hints){ 0 };
	for (size_t i = 0; i < v->n_shown && r == 0; i++) {
		for (size_t k = 0; k < 3 && r == 0 && matters(v, v->rows[i]); k++) {
			struct buf text = { 0 };

			rules[k](v, v->rows[i], &text);
			r = text.failed	 ? -ENOMEM
			    : text.n > 0 ? add_hint(ret, i, buf_string(&text))
					 : 0;
			buf_deinit(&text);
		}
	}
	return r;
}

void hints_deinit(struct hints *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->items[i].text);
	}
	*h = (struct hints){ 0 };
}

int hints_print(const struct view *v, size_t width, struct buf *b)
{
	char **names = labels_shorten(v, (const struct group *const *)v->rows, v->n_shown,
				      width - 7 < NAME_WIDTH ? width - 7 : NAME_WIDTH);
	struct hints h = { 0 };
	int r = names ? hints_find(v, &h) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < h.n; i++) {
		struct buf line = { 0 };

		buf_printf(&line, "hint: %s: %s", names[h.items[i].row], h.items[i].text);
		add_wrapped(buf_string(&line), width, b);
		b->failed |= line.failed;
		buf_deinit(&line);
	}
	if (r == 0 && h.n_left_out > 0) {
		buf_printf(b, "%zu hints more are not shown\n", h.n_left_out);
	}
	hints_deinit(&h);
	names_free(names, v->n_shown);
	return r == 0 && b->failed ? -ENOMEM : r;
}
