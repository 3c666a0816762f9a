/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/frame.h"

#include <endian.h>
#include <string.h>

#include "proto/wire/limits.h"

/* The length of a frame is checked before memory is allocated for it. The offsets that
 * frame_begin() returns count from the start of the content, because the buffer may move. */

struct header {
	uint32_t size;
	uint16_t type;
	uint16_t zero;
};

_Static_assert(sizeof(struct header) == FRAME_HEADER_BYTES, "header has no padding");

int frame_parse(const uint8_t *data, size_t length, struct frame *ret_frame)
{
	struct header h;
	size_t size;

	if (length < sizeof(h)) {
		return FRAME_E_MORE;
	}
	memcpy(&h, data, sizeof(h));
	size = le32toh(h.size);
	if (size > LIMIT_FRAME_BYTES) {
		return FRAME_E_TOO_LARGE;
	}
	if (h.zero != 0) {
		return FRAME_E_MALFORMED;
	}
	if (length - sizeof(h) < size) {
		return FRAME_E_MORE;
	}
	*ret_frame = (struct frame){ le16toh(h.type), data + sizeof(h), size };
	return 0;
}

int frame_begin(struct buffer *b, unsigned type, size_t *ret_offset)
{
	struct header h = { 0, htole16((uint16_t)type), 0 };
	size_t offset = buffer_length(b);
	int r = buffer_append(b, &h, sizeof(h));

	if (r < 0) {
		return r;
	}
	*ret_offset = offset;
	return 0;
}

void frame_end(struct buffer *b, size_t offset)
{
	uint32_t size = htole32((uint32_t)(buffer_length(b) - offset - FRAME_HEADER_BYTES));

	memcpy(b->data + b->start + offset, &size, sizeof(size));
}
