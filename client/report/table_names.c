/* SPDX-License-Identifier: Apache-2.0 */

/* Labels of a table's rows: found once, measured, and cut to the room that there is. */

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/table_internal.h"

enum { MAX_NAME_WIDTH = 90 };

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t find_text(const struct table_names *names, const char *text)
{
	const char **found =
		bsearch(&text, names->texts, names->n, sizeof(*names->texts), compare_texts);

	return found ? (size_t)(found - names->texts) : 0;
}

/* The distinct labels of a key. */
static bool collect_names(struct table *t, unsigned key)
{
	const struct view *v = t->v;
	struct table_names *names = &t->names[key];
	size_t n = 0;

	names->texts = calloc(v->n_shown + 1, sizeof(*names->texts));
	names->of_row = calloc(v->n_shown + 1, sizeof(*names->of_row));
	if (!names->texts || !names->of_row) {
		return false;
	}
	for (size_t i = 0; i < v->n_shown; i++) {
		names->texts[n++] = v->rows[i]->labels[key];
	}
	qsort(names->texts, n, sizeof(*names->texts), compare_texts);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(names->texts[i], names->texts[names->n - 1]) != 0) {
			names->texts[names->n++] = names->texts[i];
		}
	}
	for (size_t i = 0; i < v->n_shown; i++) {
		names->of_row[i] = find_text(names, v->rows[i]->labels[key]);
	}
	return true;
}

static bool measure_names(struct table *t, unsigned key)
{
	struct table_names *names = &t->names[key];
	char **whole = names_shorten(names->texts, names->n, MAX_NAME_WIDTH,
				     t->v->keys->keys[key] == KEY_KERNEL);

	names->longest = strlen(keys_name(t->v->keys->keys[key]));
	for (size_t i = 0; whole && i < names->n; i++) {
		size_t width = text_width(whole[i], strlen(whole[i]));

		names->longest = width > names->longest ? width : names->longest;
	}
	names_free(whole, names->n);
	return whole != NULL;
}

bool table_make_names(struct table *t, unsigned key)
{
	return collect_names(t, key) && measure_names(t, key);
}

bool table_shorten(struct table *t)
{
	for (unsigned i = 0; i < t->v->keys->n; i++) {
		struct table_names *names = &t->names[i];

		names->shown = names_shorten(names->texts, names->n, names->width,
					     t->v->keys->keys[i] == KEY_KERNEL);
		if (!names->shown) {
			return false;
		}
	}
	return true;
}

/* Shares room out: what one does not need is left to those that need more. */
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
