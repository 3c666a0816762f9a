/* SPDX-License-Identifier: Apache-2.0 */

/* NVTX ranges, kinds and clocks in lines for programs, and totals as JSON. */

#include "client/cli/range_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/json.h"
#include "proto/base/site_name.h"

enum { STACK_BYTES_MAX = 32 * 1024, STACK_RANGES_MAX = 4096 };

/* Returns how many ranges are written, counted from the innermost. *ret_cut: the limits cut off
 * others. */
static size_t count(const struct gpuctr_site *range, bool *ret_cut)
{
	size_t n = 0, bytes = 0;

	for (; range; range = range->parent, n++) {
		bytes += strlen(range->name) + strlen(range->sizes);
		if (n > 0 && (bytes > STACK_BYTES_MAX || n == STACK_RANGES_MAX)) {
			break;
		}
	}
	*ret_cut = range != NULL;
	return n;
}

void range_stack_add(struct buf *b, const struct gpuctr_site *range,
		     const struct gpuctr_occurrence *at, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_site *site,
				 const struct gpuctr_occurrence *at))
{
	static const struct gpuctr_site more = {
		.domain = "", .name = "..", .sizes = "", .category = ""
	};
	const struct gpuctr_site **stack;
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
		add(b, &more, at);
	}
	for (size_t i = 0; i < n; i++) {
		if (i > 0 || cut) {
			buf_char(b, separator);
		}
		add(b, stack[i], at);
	}
	free(stack);
}

/* The payload's type is an enum nvtxPayloadType_t. */
void json_payload(struct json *m, const struct gpuctr_occurrence *at)
{
	static const char key[] = "payload";
	double number = NAN;
	float narrow;
	uint32_t bits = (uint32_t)at->payload;

	switch (at->payload_type) {
	case 1:
		json_u64(m, key, at->payload);
		return;
	case 2:
		json_i64(m, key, (int64_t)at->payload);
		return;
	case 3:
		memcpy(&number, &at->payload, sizeof(number));
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

void range_text(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at)
{
	site_name_format(b, site->name, site->sizes, (enum site_number)site->numbered,
			 gpuctr_site_number(site, at));
}

void json_range(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at)
{
	CLEAN_BUF struct buf text = { 0 };
	struct json m = { b };
	char color[16] = "";

	range_text(&text, site, at);
	if (site->color) {
		snprintf(color, sizeof(color), "#%08x", site->color);
	}
	json_begin(&m, NULL, '{');
	json_text(&m, "domain", site->domain);
	json_text(&m, "message", buf_string(&text));
	json_text(&m, "category", site->category);
	json_text_or_null(&m, "color", color);
	json_end(&m, '}');
	b->failed |= text.failed;
}

void json_stack(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at)
{
	range_stack_add(b, site, at, ',', json_range);
}

void json_totals(struct json *m, const struct gpuctr_totals *t)
{
#define TOTAL(name) json_u64(m, #name, t->name);
	GPUCTR_TOTALS(TOTAL)
#undef TOTAL
}

const char *format_launch_kind(enum gpuctr_launch_kind kind)
{
	switch (kind) {
	case GPUCTR_LAUNCH_KERNEL:
		return "kernel";
	case GPUCTR_LAUNCH_COOPERATIVE:
		return "cooperative";
	case GPUCTR_LAUNCH_GRAPH:
		return "graph";
	case GPUCTR_LAUNCH_GRAPH_KERNEL:
		return "graph_kernel";
	}
	return "unknown";
}

const char *format_clock(enum gpuctr_clock clock)
{
	switch (clock) {
	case GPUCTR_CLOCK_RANGE:
		return "range";
	case GPUCTR_CLOCK_GPU:
		return "gpu";
	case GPUCTR_CLOCK_NONE:
		break;
	}
	return "none";
}
