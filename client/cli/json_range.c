/* SPDX-License-Identifier: Apache-2.0 */

/* NVTX ranges as JSON. */

#include "client/cli/json_range.h"

#include <math.h>
#include <string.h>

#include "client/cli/range_stack.h"
#include "client/cli/text.h"

/* enum nvtxPayloadType_t */
static void add_payload(struct buf *b, const struct gpuctr_range *range)
{
	double number = NAN;
	float narrow;
	uint32_t bits = (uint32_t)range->payload;

	switch (range->payload_type) {
	case 1:
		buf_u64(b, range->payload);
		return;
	case 2:
		buf_i64(b, (int64_t)range->payload);
		return;
	case 3:
		memcpy(&number, &range->payload, sizeof(number));
		break;
	case 4:
		buf_u64(b, bits);
		return;
	case 5:
		buf_i64(b, (int32_t)bits);
		return;
	case 6:
		memcpy(&narrow, &bits, sizeof(narrow));
		number = (double)narrow;
		break;
	default:
		break;
	}
	if (isfinite(number)) {
		buf_double(b, number);
	} else {
		buf_text(b, "null");
	}
}

void json_range(struct buf *b, const struct gpuctr_range *range)
{
	buf_text(b, "{\"domain\":");
	text_json(b, range->domain);
	buf_text(b, ",\"message\":");
	text_json(b, range->message);
	buf_text(b, ",\"category\":");
	text_json(b, range->category);
	if (range->color) {
		buf_printf(b, ",\"color\":\"#%08x\"", range->color);
	} else {
		buf_text(b, ",\"color\":null");
	}
	buf_text(b, ",\"payload\":");
	add_payload(b, range);
	buf_char(b, '}');
}

void json_stack(struct buf *b, const struct gpuctr_range *range)
{
	range_stack_add(b, range, SIZE_MAX, ',', json_range);
}
