/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/sizes.h"

#include <string.h>

static size_t skip_digits(const char *text, size_t n, size_t i)
{
	while (i < n && text[i] >= '0' && text[i] <= '9') {
		i++;
	}
	return i;
}

bool sizes_is_list(const char *sizes)
{
	enum { OPENED, ITEM, COMMA } before = COMMA;
	size_t depth = 0, n = strlen(sizes);

	for (size_t i = 0; i < n; i++) {
		char c = sizes[i];

		if (c == ' ') {
			continue;
		}
		if (before == ITEM && depth > 0 && (c == ',' || c == ']')) {
			depth -= c == ']';
			before = c == ',' ? COMMA : ITEM;
		} else if (before == OPENED && c == ']') {
			depth--;
			before = ITEM;
		} else if (before != ITEM && c == '[') {
			depth++;
			before = OPENED;
		} else if (before != ITEM && depth > 0 && c >= '0' && c <= '9') {
			size_t end = skip_digits(sizes, n, i);

			if (c == '0' && end > i + 1) {
				return false;
			}
			i = end - 1;
			before = ITEM;
		} else {
			return false;
		}
	}
	return depth == 0 && before == ITEM;
}

bool sizes_format(const char *sizes, char *text, size_t max)
{
	size_t n = strlen(sizes), used = 0, keep = 0;
	int depth = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		char c = sizes[i];

		if (c == ' ' || (c == ',' && depth < 2)) {
			continue;
		}
		depth += c == '[';
		if (depth >= 2) {
			if (used + 3 >= max) {
				break;
			}
			if (c == '[' && depth == 2 && used > 0) {
				text[used++] = ' ';
			}
			text[used++] = c;
		}
		depth -= c == ']';
		if (c == ']' && depth == 1 && text[used - 2] != '[') {
			keep = used;
		}
	}
	/* If all sizes are empty the first "[]" stands for all. */
	keep = keep == 0 && used >= 2 ? 2 : keep;
	text[keep] = '\0';
	return depth == 0;
}
