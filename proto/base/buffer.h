/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A growing run of bytes: written at the end, consumed at the start. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/quota.h"

struct buffer {
	uint8_t *data;
	size_t start, end, size; /* data[start..end) is the content */
	struct quota *quota;	 /* who pays for size; NULL: nobody */
};

/* Frees the memory; the buffer is empty, and may be used again on the same quota. */
void buffer_deinit(struct buffer *b);

static inline size_t buffer_length(const struct buffer *b)
{
	return b->end - b->start;
}

/* Makes room for bytes at data + end. -ENOMEM, -EDQUOT. */
int buffer_reserve(struct buffer *b, size_t bytes);

/* The same, but grows by no more than is asked for. */
int buffer_reserve_exactly(struct buffer *b, size_t bytes);
int buffer_append(struct buffer *b, const void *data, size_t bytes);

/* Appends what a socket has to read, if it has anything now; makes room for so many bytes. flags
 * are recv()'s. 0; -EPIPE at its end; another -errno. */
int buffer_receive(struct buffer *b, int socket, size_t bytes, int flags);

/* Sends and drops what a socket takes; flags are send()'s. 0, even if that is not all; -errno. */
int buffer_send(struct buffer *b, int socket, int flags);

/* Drops the first bytes; frees a large buffer that becomes empty. */
void buffer_consume(struct buffer *b, size_t bytes);
