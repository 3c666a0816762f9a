/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <unistd.h>

#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "client/report/table.h"
#include "proto/base/clock.h"

enum {
	USUAL_ROWS = 20,
	WIDTH_MIN = 40,
	ROWS_BESIDE =
		7 /* around a table, two titles, the rest, the sum, what is left out, the last */
};

void live_begin(struct live *l)
{
	l->redraws = l->updates == 0 && terminal_is(STDOUT_FILENO);
	l->updates = l->updates > 0 || l->redraws ? l->updates : 1;
}

size_t live_width(const struct live *l)
{
	return l->width ? l->width : terminal_width(STDOUT_FILENO);
}

bool live_is_done(const struct live *l)
{
	return l->updates > 0 && l->shown >= l->updates;
}

/* Each line clears what it leaves of its row, so that nothing flickers. The last row stays empty:
 * an end of line in it would scroll. */
static void add_rows(const struct live *l, const struct buf *update, struct buf *b)
{
	size_t width = live_width(l), height = l->redraws ? terminal_height(STDOUT_FILENO) : 0;
	const char *line = update->data, *end = update->data + update->n;

	for (size_t row = 1; line < end && (height == 0 || row < height); row++) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t n = (size_t)((stop ? stop : end) - line);

		buf_add(b, line, text_fit(line, n, width));
		buf_text(b, l->redraws ? "\033[m\033[K\n" : "\n");
		line += n + 1;
	}
}

/* The reader has gone away: drops what it has not read, so that main() does not report a failure to
 * write it. */
static void forget_output(void)
{
	__fpurge(stdout);
	clearerr(stdout);
}

int live_show(struct live *l, const struct buf *update)
{
	CLEAN_BUF struct buf b = { 0 };
	int r = 0;

	if (l->redraws) {
		buf_text(&b, l->shown == 0 ? "\033[H\033[2J" : "\033[H");
	} else if (l->shown > 0) {
		buf_char(&b, '\n');
	}
	add_rows(l, update, &b);
	buf_text(&b, l->redraws ? "\033[J" : "");
	if (update->failed || b.failed) {
		r = -ENOMEM;
	} else if (fwrite(b.data, 1, b.n, stdout) != b.n || fflush(stdout) != 0) {
		r = -errno;
	}
	if (r == -EPIPE) {
		forget_output();
	}
	l->shown++;
	return r;
}

void live_add_records(struct live *l, const struct summary *s, bool grows, struct buf *b)
{
	uint64_t now = clock_now_ns(), records = summary_records(s);

	text_count(b, records);
	buf_printf(b, " kernel%s", records == 1 ? "" : "s");
	if (grows && l->at_ns > 0 && now > l->at_ns && records >= l->records) {
		double per_second = (double)(records - l->records) * 1e9 / (double)(now - l->at_ns);

		buf_text(b, ", ");
		text_count(b, (uint64_t)(per_second + 0.5));
		buf_text(b, "/s");
	}
	l->records = records;
	l->at_ns = now;
}

/* Rows of the table that have room below the lines that are in b. */
static size_t find_rows(const struct live *l, const struct buf *b)
{
	size_t height = l->redraws ? terminal_height(STDOUT_FILENO) : 0, used = ROWS_BESIDE;

	for (size_t i = 0; i < b->n; i++) {
		used += b->data[i] == '\n';
	}
	return height == 0 ? USUAL_ROWS : height > used ? height - used : 1;
}

int live_add_table(const struct live *l, struct summary *s, struct buf *b, struct buf *why)
{
	struct view_options options = { .sort = l->sort,
					.limit = find_rows(l, b),
					.people = true,
					.styled = terminal_has_style(STDOUT_FILENO) };
	size_t width = live_width(l);
	struct groups *groups = summary_groups(s);
	struct view view;
	size_t more = 0;
	int r = groups ? view_init(&view, groups, &options, why) : -ENOMEM;

	if (r) {
		return r;
	}
	buf_char(b, '\n');
	if (summary_records(s) == 0) {
		buf_text(b, "no kernels yet\n");
	} else {
		r = table_print(&view, width > WIDTH_MIN ? width : WIDTH_MIN, b,
				l->redraws ? &more : NULL);
	}
	if (more > 0) {
		buf_printf(b, "%zu more column%s in a wider terminal\n", more,
			   more == 1 ? "" : "s");
	}
	view_deinit(&view);
	return r;
}
