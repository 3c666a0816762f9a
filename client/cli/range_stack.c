/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/range_stack.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES_MAX = 32 * 1024, STACK_RANGES_MAX = 4096 };

/* How many ranges are written, counted from the innermost, and whether the limits cut others
 * off. */
static size_t count(const struct gpuctr_range *range, size_t max, bool *ret_cut)
{
	size_t n = 0, bytes = 0;

	for (; range && n < max; range = range->parent, n++) {
		bytes += strlen(range->message);
		if (n > 0 && (bytes > STACK_BYTES_MAX || n == STACK_RANGES_MAX)) {
			break;
		}
	}
	*ret_cut = range && n < max;
	return n;
}

void range_stack_add(struct buf *b, const struct gpuctr_range *range, size_t max, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_range *range))
{
	static const struct gpuctr_range more = { .domain = "", .message = "..", .category = "" };
	const struct gpuctr_range **stack;
	bool cut;
	size_t n = count(range, max, &cut);

	stack = malloc((n + 1) * sizeof(*stack));
	if (!stack) {
		b->failed = true;
		return;
	}
	for (size_t i = n; i > 0; range = range->parent) {
		stack[--i] = range;
	}
	if (cut) {
		add(b, &more);
	}
	for (size_t i = 0; i < n; i++) {
		if (i > 0 || cut) {
			buf_char(b, separator);
		}
		add(b, stack[i]);
	}
	free(stack);
}
