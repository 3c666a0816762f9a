/* SPDX-License-Identifier: Apache-2.0 */

/* NVTX ranges in lines for programs, and totals as JSON. */

#include "client/cli/range_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/json.h"

enum { STACK_BYTES_MAX = 32 * 1024, STACK_RANGES_MAX = 4096 };

/* How many ranges are written, counted from the innermost, and whether the limits cut others
 * off. */
static size_t count(const struct gpuctr_range *range, bool *ret_cut)
{
	size_t n = 0, bytes = 0;

	for (; range; range = range->parent, n++) {
		bytes += strlen(range->message);
		if (n > 0 && (bytes > STACK_BYTES_MAX || n == STACK_RANGES_MAX)) {
			break;
		}
	}
	*ret_cut = range != NULL;
	return n;
}

void range_stack_add(struct buf *b, const struct gpuctr_range *range, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_range *range))
{
	static const struct gpuctr_range more = { .domain = "", .message = "..", .category = "" };
	const struct gpuctr_range **stack;
	bool cut;
	size_t n = count(range, &cut);

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

/* By enum nvtxPayloadType_t. */
static void add_payload(struct json *m, const struct gpuctr_range *range)
{
	static const char key[] = "payload";
	double number = NAN;
	float narrow;
	uint32_t bits = (uint32_t)range->payload;

	switch (range->payload_type) {
	case 1:
		json_u64(m, key, range->payload);
		return;
	case 2:
		json_i64(m, key, (int64_t)range->payload);
		return;
	case 3:
		memcpy(&number, &range->payload, sizeof(number));
		break;
	case 4:
		json_u64(m, key, bits);
		return;
	case 5:
		json_i64(m, key, (int32_t)bits);
		return;
	case 6:
		memcpy(&narrow, &bits, sizeof(narrow));
		number = (double)narrow;
		break;
	default:
		break;
	}
	json_double(m, key, number);
}

void json_range(struct buf *b, const struct gpuctr_range *range)
{
	struct json m = { b };
	char color[16] = "";

	if (range->color) {
		snprintf(color, sizeof(color), "#%08x", range->color);
	}
	json_begin(&m, NULL, '{');
	json_text(&m, "domain", range->domain);
	json_text(&m, "message", range->message);
	json_text(&m, "category", range->category);
	json_text_or_null(&m, "color", color);
	add_payload(&m, range);
	json_end(&m, '}');
}

void json_stack(struct buf *b, const struct gpuctr_range *range)
{
	range_stack_add(b, range, ',', json_range);
}

void json_totals(struct json *m, const struct gpuctr_totals *t)
{
#define TOTAL(name) json_u64(m, #name, t->name);
	GPUCTR_TOTALS(TOTAL)
#undef TOTAL
}
