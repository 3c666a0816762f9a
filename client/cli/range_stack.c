/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/range_stack.h"

#include <stdlib.h>

void range_stack_add(struct buf *b, const struct gpuctr_range *range, size_t max, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_range *range))
{
	const struct gpuctr_range **stack;
	size_t n = 0;

	for (const struct gpuctr_range *r = range; r && n < max; r = r->parent) {
		n++;
	}
	stack = malloc((n + 1) * sizeof(*stack));
	if (!stack) {
		b->failed = true;
		return;
	}
	for (size_t i = n; i > 0; range = range->parent) {
		stack[--i] = range;
	}
	for (size_t i = 0; i < n; i++) {
		if (i > 0) {
			buf_char(b, separator);
		}
		add(b, stack[i]);
	}
	free(stack);
}
