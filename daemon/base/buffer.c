/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Content moves to the front before the buffer grows, so a stream that is consumed as fast as it is
 * filled stays at the size of its largest message. */

enum { BUFFER_KEEP_BYTES = 64 * 1024 };

void buffer_deinit(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){ 0 };
}

int buffer_reserve(struct buffer *b, size_t bytes)
{
	size_t length = buffer_length(b);
	size_t size = b->size ? b->size : 512;
	uint8_t *data;

	if (b->size - b->end >= bytes && b->data) {
		return 0;
	}
	if (b->start > 0) {
		memmove(b->data, b->data + b->start, length);
		b->start = 0;
		b->end = length;
	}
	while (size - length < bytes) {
		size *= 2;
	}
	if (size == b->size) {
		return 0;
	}
	data = realloc(b->data, size);
	if (!data) {
		return -ENOMEM;
	}
	b->data = data;
	b->size = size;
	return 0;
}

int buffer_append(struct buffer *b, const void *data, size_t bytes)
{
	int r = buffer_reserve(b, bytes);

	if (r < 0) {
		return r;
	}
	if (bytes > 0) {
		memcpy(b->data + b->end, data, bytes);
	}
	b->end += bytes;
	return 0;
}

void buffer_consume(struct buffer *b, size_t bytes)
{
	b->start += bytes;
	if (b->start < b->end) {
		return;
	}
	b->start = b->end = 0;
	if (b->size > BUFFER_KEEP_BYTES) {
		buffer_deinit(b);
	}
}
