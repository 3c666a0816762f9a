/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/labels.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/names.h"

static char *join(const struct view *v, const struct group *row)
{
	CLEAN_BUF struct buf name = { 0 };

	for (unsigned i = 0; i < v->keys->n; i++) {
		buf_text(&name, i > 0 ? ", " : "");
		buf_text(&name, *row->labels[i] ? row->labels[i] : TEXT_UNKNOWN);
	}
	return buf_take(&name);
}

char **labels_shorten(const struct view *v, const struct group *const *rows, size_t n, size_t width)
{
	char **joined = calloc(n + 1, sizeof(*joined)), **shown = NULL;
	bool ok = joined != NULL;

	for (size_t i = 0; ok && i < n; i++) {
		joined[i] = join(v, rows[i]);
		ok = joined[i] != NULL;
	}
	if (ok) {
		shown = names_shorten((const char *const *)joined, n, width,
				      v->keys->n == 1 && v->keys->keys[0] == KEY_KERNEL);
	}
	for (size_t i = 0; joined && i < n; i++) {
		free(joined[i]);
	}
	free(joined);
	return shown;
}
