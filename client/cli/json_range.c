/* SPDX-License-Identifier: Apache-2.0 */

/* NVTX ranges as JSON. */

#include "client/cli/json_range.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/members.h"
#include "client/cli/range_stack.h"

/* By enum nvtxPayloadType_t. */
static void add_payload(struct members *m, const struct gpuctr_range *range)
{
	static const char key[] = "payload";
	double number = NAN;
	float narrow;
	uint32_t bits = (uint32_t)range->payload;

	switch (range->payload_type) {
	case 1:
		members_u64(m, key, range->payload);
		return;
	case 2:
		members_i64(m, key, (int64_t)range->payload);
		return;
	case 3:
		memcpy(&number, &range->payload, sizeof(number));
		break;
	case 4:
		members_u64(m, key, bits);
		return;
	case 5:
		members_i64(m, key, (int32_t)bits);
		return;
	case 6:
		memcpy(&narrow, &bits, sizeof(narrow));
		number = (double)narrow;
		break;
	default:
		break;
	}
	members_double(m, key, number);
}

void json_range(struct buf *b, const struct gpuctr_range *range)
{
	struct members m = { b };
	char color[16];

	snprintf(color, sizeof(color), "#%08x", range->color);
	members_begin(&m, NULL, '{');
	members_text(&m, "domain", range->domain);
	members_text(&m, "message", range->message);
	members_text(&m, "category", range->category);
	members_text_or_null(&m, "color", range->color ? color : NULL);
	add_payload(&m, range);
	members_end(&m, '}');
}

void json_stack(struct buf *b, const struct gpuctr_range *range)
{
	range_stack_add(b, range, SIZE_MAX, ',', json_range);
}
