/* SPDX-License-Identifier: Apache-2.0 */

/* The hottest kernels: the table at the end of a run, as of now. Its columns that do not fit beside
 * each other come as further tables, divided by an empty line; here each of them is a page. */

#include "client/cli/top.h"

#include <errno.h>
#include <stdlib.h>

#include "client/cli/progress.h"
#include "client/cli/text.h"
#include "client/report/table.h"

enum {
	TABLE_WIDTH_MIN = 40,
	ROWS_BESIDE = 4 /* two of titles, the rest, the sum */,
	USUAL_ROWS = 20
};

uint64_t top_now_ns(void)
{
	return progress_now_ns();
}

/* NULL is the usual order, by time; then each counter, launches, names, and round again. */
static const char *find_sort(struct groups *groups, const char *asked, unsigned times)
{
	const struct measure *measures;
	size_t n = groups_measures(groups, &measures), i;

	if (times == 0) {
		return asked;
	}
	/* Time, the other measures, calls, name. */
	i = (times - (asked ? 1u : 0u)) % (n + 2);
	return i < n ? measures[i].name : i == n ? "calls" : "name";
}

static unsigned count_pages(const char *text)
{
	unsigned pages = 1;

	for (; (text = strstr(text, "\n\n")); text += 2) {
		pages++;
	}
	return pages;
}

/* Cuts the text behind it. */
static char *find_page(char *page, unsigned n)
{
	char *end;

	while (n-- > 0) {
		page = strstr(page, "\n\n") + 2;
	}
	end = strstr(page, "\n\n");
	if (end) {
		end[1] = '\0';
	}
	return page;
}

/* The page that has the column of the order among its titles; 0: none has. */
static unsigned page_of(const char *text, const char *sort)
{
	const char *page = text, *found = sort ? strstr(text, sort) : NULL;
	unsigned n = 0;

	for (; found && (page = strstr(page, "\n\n")) && page < found; page += 2) {
		n++;
	}
	return n;
}

static char *add_title(char *line, struct frame *f)
{
	size_t n = strcspn(line, "\n");

	buf_add(&f->text, line, n);
	frame_end_line(f, LOOK_DIM);
	return line + n + (line[n] == '\n');
}

/* Titles begin with the room of the names below them; a row of a narrow table begins with its name.
 */
static void add_page(char *page, struct frame *f)
{
	if (*page == ' ') {
		page = add_title(page, f);
		page = add_title(page, f);
	}
	frame_fix_head(f);
	frame_add(f, page, LOOK_PLAIN);
}

static void add_order(const char *sort, unsigned page, unsigned pages, struct frame *f)
{
	buf_text(&f->text, "by ");
	text_terminal(&f->text, sort ? sort : "time");
	if (pages > 1) {
		buf_printf(&f->text, ", columns %u of %u", page + 1, pages);
	}
	frame_end_line(f, LOOK_DIM);
}

static void add_table(struct view *v, const struct top_look *look, const char *sort,
		      struct frame *f)
{
	size_t width = look->width < TABLE_WIDTH_MIN ? TABLE_WIDTH_MIN : look->width;
	struct buf b = { 0 };

	f->failed |= table_print(v, width, &b, NULL) != 0;
	buf_string(&b);
	f->failed |= b.failed;
	if (!b.failed && look->height > 0) {
		unsigned pages = count_pages(b.data);
		unsigned page = (page_of(b.data, sort) + look->page) % pages;

		add_order(sort, page, pages, f);
		add_page(find_page(b.data, page), f);
	} else if (!b.failed) {
		/* Without a terminal there is nobody to turn the pages. */
		frame_add(f, b.data, LOOK_PLAIN);
	}
	buf_deinit(&b);
}

int top_add_kernels(struct summary *s, const char *sort, const struct top_look *look,
		    struct frame *f, struct buf *why)
{
	size_t rows =
		look->height > f->n + ROWS_BESIDE + 2 ? look->height - f->n - ROWS_BESIDE - 2 : 1;
	struct view_options options = { .limit = look->height ? rows + look->scroll : USUAL_ROWS };
	struct groups *groups = summary_groups(s);
	struct view view;
	int r;

	if (!groups) {
		f->failed = true;
		return 0;
	}
	options.sort = find_sort(groups, sort, look->sort);
	r = view_init(&view, groups, &options, why);
	if (r == 0 && summary_records(s) > 0) {
		add_table(&view, look, options.sort, f);
	} else if (r == 0) {
		frame_fix_head(f);
		frame_add(f, "no kernels yet", LOOK_PLAIN);
	}
	if (r == 0) {
		view_deinit(&view);
	}
	f->failed |= r == -ENOMEM;
	return r == -ENOMEM ? 0 : r;
}
