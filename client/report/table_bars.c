/* SPDX-License-Identifier: Apache-2.0 */

/* Bars behind the figures of a table show the sort key; the largest bar is as long as the room
 * allows. Bars use room that readable names leave over, and no room of the figures. */

#include <math.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { BAR_MIN = 10, BAR_MAX = 30, NAME_WIDTH = 48, EIGHTHS = 8 };

size_t table_take_bars(struct table *t, size_t room)
{
	size_t names = 0, left;

	for (unsigned i = 0; i < t->v->keys->n; i++) {
		size_t longest = t->names[i].longest;

		names += longest < NAME_WIDTH ? longest : NAME_WIDTH;
	}
	left = room > names + TABLE_GAP ? room - names - TABLE_GAP : 0;
	if (!t->v->bars || left < BAR_MIN) {
		return room;
	}
	t->bar_width = left < BAR_MAX ? left : BAR_MAX;
	return room - t->bar_width - TABLE_GAP;
}

void table_add_bar_head(const struct table *t, struct buf *b)
{
	struct buf name = { 0 };

	if (t->bar_width > 0) {
		text_terminal(&name, t->v->bars_of);
		table_pad(b, TABLE_GAP);
		buf_add(b, buf_string(&name), text_fit(buf_string(&name), name.n, t->bar_width));
	}
	b->failed |= name.failed;
	buf_deinit(&name);
}

static void add_blocks(struct buf *b, double cells)
{
	static const char *const part[EIGHTHS] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	size_t eighths = (size_t)ceil(cells * EIGHTHS - 0.5);

	for (size_t i = 0; i < eighths / EIGHTHS; i++) {
		buf_text(b, "█");
	}
	buf_text(b, part[eighths % EIGHTHS]);
}

void table_add_bar(const struct table *t, size_t row, struct buf *b)
{
	double cells = t->bar_width > 0 ? t->v->bars[row] * (double)t->bar_width : 0;

	if (cells <= 0) {
		return;
	}
	table_pad(b, TABLE_GAP);
	if (t->v->utf8) {
		add_blocks(b, cells);
		return;
	}
	for (double i = 0.5; i <= cells; i++) {
		buf_char(b, '#');
	}
}
