/* SPDX-License-Identifier: Apache-2.0 */

/* The table of formats: a new one is one file and one line here. */

#include "client/cli/format.h"

const struct format *const formats[] = { &format_table, &format_jsonl, &format_csv, NULL };

const struct format *format_find(const char *name)
{
	for (size_t i = 0; formats[i]; i++) {
		if (strcmp(formats[i]->name, name) == 0) {
			return formats[i];
		}
	}
	return NULL;
}

const struct format *format_of_path(const char *path)
{
	size_t n = strlen(path);

	if (n > 5 && strcmp(path + n - 5, ".json") == 0) {
		return &format_jsonl;
	}
	for (size_t i = 0; formats[i]; i++) {
		size_t n_suffix = strlen(formats[i]->suffix);

		if (n > n_suffix && strcmp(path + n - n_suffix, formats[i]->suffix) == 0) {
			return formats[i];
		}
	}
	return NULL;
}
