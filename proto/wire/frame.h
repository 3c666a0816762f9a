/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A frame on a stream socket: 8 bytes of header, little endian, then the payload.
 *
 *     0        4       6       8
 *     | size   | type  | zero  | payload: size bytes ...
 *
 * type is one of enum wire_type; size is at most LIMIT_FRAME_BYTES. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buffer.h"

enum { FRAME_HEADER_BYTES = 8 };

enum {
	FRAME_E_MORE = 1,      /* the frame is not complete yet */
	FRAME_E_TOO_LARGE = 2, /* size beyond the limit */
	FRAME_E_MALFORMED = 3, /* the zero bytes are not zero */
};

struct frame {
	unsigned type;
	const uint8_t *payload; /* borrowed from the input */
	size_t size;
};

/* Examines the start of data. 0: *ret_frame is set, and the frame takes FRAME_HEADER_BYTES +
 * size. */
int frame_parse(const uint8_t *data, size_t length, struct frame *ret_frame);

/* Begins a frame at the end of b. The caller appends the payload and then calls frame_end() with
 * *ret_offset. -ENOMEM. */
int frame_begin(struct buffer *b, unsigned type, size_t *ret_offset);
void frame_end(struct buffer *b, size_t offset);
