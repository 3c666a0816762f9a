/* SPDX-License-Identifier: Apache-2.0 */

/* Three rules, for rows that take a good part of the time of all:
 *
 * memory	its bytes come near what the memory can move: fewer bytes make it faster, fewer
 *		operations do not
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
#include "client/report/names.h"

enum {
	HINTS_MAX = 6,
	NAME_WIDTH = 56,
	TIME_PERCENT = 5,  /* of all time, for a row to be worth a hint */
	PEAK_PERCENT = 60, /* of the memory's bandwidth */
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

	if (isnan(share) || share < PEAK_PERCENT) {
		return;
	}
	buf_printf(b,
		   "moves bytes at %.0f %% of the memory's peak (limit: %d %%): bound by memory; "
		   "fusing it with what runs before or after, or smaller types, would help",
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

static char **shown_names(const struct view *v, size_t n, size_t width)
{
	const char **labels = calloc(n + 1, sizeof(*labels));
	char **shown;

	if (!labels) {
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		labels[i] = v->rows[i]->labels[0];
	}
	shown = names_shorten(labels, n, width < NAME_WIDTH ? width : NAME_WIDTH,
			      v->keys->keys[0] == KEY_KERNEL);
	free(labels);
	return shown;
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

int hints_print(const struct view *v, size_t width, struct buf *b)
{
	static void (*const rules[])(const struct view *, const struct group *,
				     struct buf *) = { add_memory, add_small, add_eights };
	/* With several keys the names of one would say less than the row. */
	char **names = v->keys->n == 1 ? shown_names(v, v->n_shown, width - 7) : NULL;
	unsigned n = 0;

	if (v->keys->n == 1 && !names) {
		return -ENOMEM;
	}
	for (size_t i = 0; names && i < v->n_shown; i++) {
		for (size_t k = 0; k < 3 && n < HINTS_MAX && matters(v, v->rows[i]); k++) {
			struct buf hint = { 0 };
			size_t head;

			buf_printf(&hint, "hint: %s: ", names[i]);
			head = hint.n;
			rules[k](v, v->rows[i], &hint);
			if (hint.n > head) {
				add_wrapped(buf_string(&hint), width, b);
				n++;
			}
			b->failed |= hint.failed;
			buf_deinit(&hint);
		}
	}
	names_free(names, v->n_shown);
	return b->failed ? -ENOMEM : 0;
}
