/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages that wait until a socket takes them. Each message has its own memory, which is freed
 * when the message has been sent, so a queue takes only the memory of its waiting messages. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/list.h"
#include "proto/base/quota.h"

struct queue {
	struct list messages;
	size_t bytes; /* bytes not sent yet */
	struct quota *quota;
};

void queue_init(struct queue *q, struct quota *quota);

/* Drops everything; the queue can be used again. */
void queue_clear(struct queue *q);

/* Appends the rest of a message of which the first `sent` bytes have been sent; if sent is not 0,
 * the message has begun. -EDQUOT, -ENOMEM. */
int queue_append(struct queue *q, const void *message, size_t bytes, size_t sent);

/* Drops all messages except one that has begun, so that the peer still gets whole messages. */
void queue_drop_unbegun(struct queue *q);

/* Sends what the socket takes. 0, even when the socket takes no more; -errno. */
int queue_send(struct queue *q, int socket);
