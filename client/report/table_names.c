/* SPDX-License-Identifier: Apache-2.0 */

/* Labels of a table's rows: finds their widths, and cuts them to the room that is left. */

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { MAX_NAME_WIDTH = 90 };

static char **shorten(const struct table *t, unsigned key, size_t width)
{
	return names_shorten(t->names[key].texts, t->v->n_shown, width,
			     t->v->keys->keys[key] == KEY_KERNEL);
}

bool table_make_names(struct table *t, unsigned key)
{
	const struct view *v = t->v;
	struct table_names *names = &t->names[key];
	char **whole;

	names->texts = calloc(v->n_shown + 1, sizeof(*names->texts));
	for (size_t i = 0; names->texts && i < v->n_shown; i++) {
		names->texts[i] = v->rows[i]->labels[key];
	}
	whole = names->texts ? shorten(t, key, MAX_NAME_WIDTH) : NULL;
	names->longest = strlen(keys_name(v->keys->keys[key]));
	for (size_t i = 0; whole && i < v->n_shown; i++) {
		size_t width = text_width(whole[i], strlen(whole[i]));

		names->longest = width > names->longest ? width : names->longest;
	}
	names_free(whole, v->n_shown);
	return whole != NULL;
}

bool table_shorten(struct table *t)
{
	for (unsigned i = 0; i < t->v->keys->n; i++) {
		t->names[i].shown = shorten(t, i, t->names[i].width);
		if (!t->names[i].shown) {
			return false;
		}
	}
	return true;
}

/* Distributes room: what one column does not need goes to the others. */
void table_share_room(struct table *t, size_t room)
{
	unsigned n = t->v->keys->n, left = n;
	bool done[KEYS_MAX] = { false };

	for (bool again = true; again && left > 0;) {
		again = false;
		for (unsigned i = 0; i < n; i++) {
			if (!done[i] && t->names[i].longest <= room / left) {
				t->names[i].width = t->names[i].longest;
				room -= t->names[i].width;
				left--;
				done[i] = again = true;
				if (left == 0) {
					break;
				}
			}
		}
	}
	for (unsigned i = 0; i < n; i++) {
		if (!done[i]) {
			t->names[i].width = room / left;
		}
	}
}
