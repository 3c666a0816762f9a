/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { QUEUE_PIECES_AT_ONCE = 32 };

struct message {
	struct list link;
	size_t start, size; /* data[start..size) is not sent yet */
	bool begun;
	uint8_t data[];
};

void queue_init(struct queue *q, struct quota *quota)
{
	*q = (struct queue){ .quota = quota };
	list_init(&q->messages);
}

static void drop(struct queue *q, struct message *m)
{
	q->bytes -= m->size - m->start;
	quota_give(q->quota, sizeof(*m) + m->size);
	list_remove(&m->link);
	free(m);
}

void queue_clear(struct queue *q)
{
	while (!list_is_empty(&q->messages)) {
		drop(q, list_entry(q->messages.next, struct message, link));
	}
}

int queue_append(struct queue *q, const void *message, size_t bytes, size_t sent)
{
	size_t rest = bytes - sent;
	struct message *m;

	if (!quota_take(q->quota, sizeof(*m) + rest)) {
		return -EDQUOT;
	}
	m = malloc(sizeof(*m) + rest);
	if (!m) {
		quota_give(q->quota, sizeof(*m) + rest);
		return -ENOMEM;
	}
	m->start = 0;
	m->size = rest;
	m->begun = sent > 0;
	memcpy(m->data, (const uint8_t *)message + sent, rest);
	list_append(&q->messages, &m->link);
	q->bytes += rest;
	return 0;
}

void queue_drop_unbegun(struct queue *q)
{
	list_for_each_safe(l, &q->messages) {
		struct message *m = list_entry(l, struct message, link);

		if (!m->begun) {
			drop(q, m);
		}
	}
}

static size_t gather(struct queue *q, struct iovec pieces[QUEUE_PIECES_AT_ONCE])
{
	size_t n = 0;

	list_for_each(l, &q->messages) {
		struct message *m = list_entry(l, struct message, link);

		if (n == QUEUE_PIECES_AT_ONCE) {
			break;
		}
		pieces[n++] = (struct iovec){ m->data + m->start, m->size - m->start };
	}
	return n;
}

static void consume(struct queue *q, size_t bytes)
{
	while (bytes > 0) {
		struct message *m = list_entry(q->messages.next, struct message, link);
		size_t rest = m->size - m->start;

		if (bytes < rest) {
			m->start += bytes;
			m->begun = true;
			q->bytes -= bytes;
			return;
		}
		bytes -= rest;
		drop(q, m);
	}
}

int queue_send(struct queue *q, int socket)
{
	while (!list_is_empty(&q->messages)) {
		struct iovec pieces[QUEUE_PIECES_AT_ONCE];
		struct msghdr h = { .msg_iov = pieces, .msg_iovlen = gather(q, pieces) };
		ssize_t n = sendmsg(socket, &h, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			consume(q, (size_t)n);
		} else if (errno == EAGAIN) {
			return 0;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}
