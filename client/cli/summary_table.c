/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/summary.h"

#include "client/cli/text.h"
#include "client/report/table.h"

static bool add_table(struct summary *s, const struct summary_end *end, struct buf *b)
{
	const struct view_options options = { .limit = end->rows,
					      .people = true,
					      .styled = end->styled };
	struct groups *groups = summary_groups(s);
	struct view view;
	int r;

	if (!groups || view_init(&view, groups, &options, NULL)) {
		return false;
	}
	buf_char(b, '\n');
	r = table_print(&view, end->width, b, NULL);
	buf_char(b, '\n');
	view_deinit(&view);
	return r == 0;
}

void summary_print(struct summary *s, const struct summary_end *end, struct buf *b)
{
	CLEAN_BUF struct buf tail = { 0 };

	if (groups_records(s->groups) == 0) {
		summary_add_nothing(s, end, b);
	} else if (!add_table(s, end, b)) {
		buf_text(b, "\nThere is no memory for the table.\n");
	}
	summary_print_tail(s, end, NULL, &tail);
	text_wrap(b, buf_string(&tail), end->wrapped ? end->width : SIZE_MAX);
	b->failed = b->failed || tail.failed;
}
