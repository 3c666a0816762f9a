/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The content moves to the front before the buffer grows. So the buffer of a stream that is
 * consumed as fast as it is filled stays at the size of its largest message. */

enum { BUFFER_KEEP_BYTES = 64 * 1024 };

void buffer_deinit(struct buffer *b)
{
	free(b->data);
	quota_give(b->quota, b->size);
	*b = (struct buffer){ .quota = b->quota };
}

static int resize(struct buffer *b, size_t size)
{
	uint8_t *data;

	if (!quota_take(b->quota, size - b->size)) {
		return -EDQUOT;
	}
	data = realloc(b->data, size);
	if (!data) {
		quota_give(b->quota, size - b->size);
		return -ENOMEM;
	}
	b->data = data;
	b->size = size;
	return 0;
}

static void move_to_front(struct buffer *b)
{
	size_t length = buffer_length(b);

	if (b->start > 0) {
		memmove(b->data, b->data + b->start, length);
		b->start = 0;
		b->end = length;
	}
}

static bool has_room(const struct buffer *b, size_t bytes)
{
	return b->data && b->size - b->end >= bytes;
}

int buffer_reserve(struct buffer *b, size_t bytes)
{
	size_t length = buffer_length(b);
	size_t size = b->size ? b->size : 512;

	if (has_room(b, bytes)) {
		return 0;
	}
	move_to_front(b);
	while (size - length < bytes) {
		size *= 2;
	}
	return size == b->size ? 0 : resize(b, size);
}

int buffer_reserve_exactly(struct buffer *b, size_t bytes)
{
	if (!has_room(b, bytes)) {
		move_to_front(b);
	}
	return has_room(b, bytes) ? 0 : resize(b, buffer_length(b) + bytes);
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

int buffer_receive(struct buffer *b, int socket, size_t bytes, int flags)
{
	int r = buffer_reserve(b, bytes);
	ssize_t n;

	if (r < 0) {
		return r;
	}
	do {
		n = recv(socket, b->data + b->end, b->size - b->end, flags);
	} while (n < 0 && errno == EINTR);
	if (n <= 0) {
		return n == 0 ? -EPIPE : errno == EAGAIN ? 0 : -errno;
	}
	b->end += (size_t)n;
	return 0;
}

int buffer_send(struct buffer *b, int socket, int flags)
{
	while (buffer_length(b) > 0) {
		ssize_t n =
			send(socket, b->data + b->start, buffer_length(b), flags | MSG_NOSIGNAL);

		if (n >= 0) {
			buffer_consume(b, (size_t)n);
		} else if (errno != EINTR) {
			return errno == EAGAIN ? 0 : -errno;
		}
	}
	return 0;
}
