/* SPDX-License-Identifier: Apache-2.0 */

/* Lines are cut where they are shown, by the columns that their characters take: the same frame is
 * drawn again when the terminal changes its size. Each line is written at its own place and clears
 * what it leaves over, so that nothing flickers and nothing wraps; only a line that fills its row
 * clears nothing, because some terminals would then clear its last character. */

#include "client/cli/frame.h"

#include <stdlib.h>

#include "client/cli/text.h"

void frame_clear(struct frame *f)
{
	buf_clear(&f->text);
	f->n = 0;
	f->n_head = 0;
	f->failed = false;
}

void frame_deinit(struct frame *f)
{
	buf_deinit(&f->text);
	free(f->lines);
	*f = (struct frame){ 0 };
}

void frame_end_line(struct frame *f, enum look look)
{
	if (f->n == f->max) {
		size_t max = f->max ? f->max * 2 : 64;
		struct frame_line *lines = realloc(f->lines, max * sizeof(*lines));

		if (!lines) {
			f->failed = true;
			return;
		}
		f->lines = lines;
		f->max = max;
	}
	f->lines[f->n++] = (struct frame_line){ f->text.n, look };
}

void frame_add(struct frame *f, const char *text, enum look look)
{
	for (;;) {
		size_t n = strcspn(text, "\n");

		buf_add(&f->text, text, n);
		frame_end_line(f, look);
		if (text[n] == '\0' || text[n + 1] == '\0') {
			return;
		}
		text += n + 1;
	}
}

void frame_fix_head(struct frame *f)
{
	f->n_head = f->n;
}

/* Without a row for each line of the head, nothing is left to be scrolled. */
static size_t head_shown(const struct frame *f, size_t height)
{
	return f->n_head < height ? f->n_head : height;
}

size_t frame_scroll_max(const struct frame *f, size_t height)
{
	size_t rows = height > 1 ? height - 1 : 0;
	size_t body = rows - head_shown(f, rows);

	return f->n - f->n_head > body ? f->n - f->n_head - body : 0;
}

static const char *line_text(const struct frame *f, size_t i, size_t *ret_n)
{
	size_t begin = i > 0 ? f->lines[i - 1].end : 0;

	*ret_n = f->lines[i].end - begin;
	return f->text.data + begin;
}

static void add_line(struct buf *b, const char *text, size_t n, size_t width, size_t row,
		     const char *look)
{
	size_t shown = text_fit(text, n, width);

	buf_printf(b, "\033[%zu;1H%s", row + 1, look);
	buf_add(b, text, shown);
	if (*look) {
		buf_text(b, "\033[m");
	}
	if (text_width(text, shown) < width) {
		buf_text(b, "\033[K");
	}
}

void frame_draw(const struct frame *f, const char *foot, size_t width, size_t height, size_t scroll,
		bool plain, struct buf *b)
{
	static const char *const looks[] = { "", "\033[1m", "\033[2m" };
	size_t rows = height > 1 ? height - 1 : 0, head = head_shown(f, rows), row = 0;

	for (size_t i = 0; i < f->n && row < rows; i++, row++) {
		size_t n;
		const char *text;

		if (i == head) {
			i = f->n_head + scroll;
		}
		if (i >= f->n) {
			break;
		}
		text = line_text(f, i, &n);
		add_line(b, text, n, width, row, plain ? "" : looks[f->lines[i].look]);
	}
	if (row < rows) {
		buf_printf(b, "\033[%zu;1H\033[J", row + 1);
	}
	if (height > 0) {
		add_line(b, foot, strlen(foot), width, height - 1, plain ? "" : looks[LOOK_DIM]);
	}
}

void frame_print(const struct frame *f, size_t width, struct buf *b)
{
	for (size_t i = 0; i < f->n; i++) {
		size_t n;
		const char *text = line_text(f, i, &n);

		buf_add(b, text, text_fit(text, n, width));
		buf_char(b, '\n');
	}
}
