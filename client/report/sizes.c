/* SPDX-License-Identifier: Apache-2.0 */
#include "client/report/sizes.h"

#include <string.h>
#include <yajl/yajl_parse.h>

bool sizes_is_list(const char *sizes)
{
	size_t n = strlen(sizes);
	yajl_handle yajl = yajl_alloc(NULL, NULL, NULL);
	bool is_list = yajl && strchr(sizes, '[') && strspn(sizes, "[], 0123456789") == n &&
		       yajl_parse(yajl, (const unsigned char *)sizes, n) == yajl_status_ok &&
		       yajl_complete_parse(yajl) == yajl_status_ok;

	if (yajl) {
		yajl_free(yajl);
	}
	return is_list;
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
	/* If all sizes are empty, one "[]" stands for all of them. */
	keep = keep == 0 && used >= 2 ? 2 : keep;
	text[keep] = '\0';
	return depth == 0;
}
