/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Growing memory for bytes that are appended at the end and consumed at the start. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/quota.h"

struct buffer {
	uint8_t *data;
	size_t start, end, size; /* data[start..end) is the content */
	struct quota *quota;	 /* account for size; NULL: none */
};

/* Frees the memory; the buffer is empty, and may be used again on the same quota. */
void buffer_deinit(struct buffer *b);

static inline size_t buffer_length(const struct buffer *b)
{
	return b->end - b->start;
}

/* Makes room for bytes at data + end. -ENOMEM, -EDQUOT. */
int buffer_reserve(struct buffer *b, size_t bytes);

/* buffer_reserve() that grows by no more than needed. */
int buffer_reserve_exactly(struct buffer *b, size_t bytes);
int buffer_append(struct buffer *b, const void *data, size_t bytes);

/* Makes room for bytes and appends at most so many that the socket has now. flags are recv()'s. 0;
 * -EPIPE at the end of the stream; another -errno. */
int buffer_receive(struct buffer *b, int socket, size_t bytes, int flags);

/* Sends the bytes that the socket takes and drops them; flags are send()'s. 0, even if some remain;
 * -errno. */
int buffer_send(struct buffer *b, int socket, int flags);

/* Drops the first bytes; frees the memory of a large buffer that becomes empty. */
void buffer_consume(struct buffer *b, size_t bytes);
