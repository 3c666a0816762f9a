/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages that wait until a socket takes them. Each has a piece of memory of its own, which is
 * freed as soon as the message has been sent: a queue costs what waits in it and no more. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/list.h"
#include "proto/base/quota.h"

struct queue {
	struct list messages;
	size_t bytes; /* not sent yet */
	struct quota *quota;
};

void queue_init(struct queue *q, struct quota *quota);

/* Drops everything; the queue can be used again. */
void queue_clear(struct queue *q);

/* Appends the rest of a message of which the first `sent` bytes have been sent; if sent is not 0
 * the message counts as begun. -EDQUOT, -ENOMEM. */
int queue_append(struct queue *q, const void *message, size_t bytes, size_t sent);

/* Drops all messages but one that was begun, so that the peer still gets whole messages. */
void queue_drop_unbegun(struct queue *q);

/* Sends what the socket takes. 0, even when the socket takes no more; -errno. */
int queue_send(struct queue *q, int socket);
