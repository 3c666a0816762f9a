/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_QUEUE_H
#define GPUCTR_BASE_QUEUE_H

/* Messages on their way into a socket that does not take them yet. Each is held in a piece of
 * memory of its own, which is freed as soon as it has been sent: a queue costs what waits in it and
 * no more. */

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

/* Forgets everything; the queue can be used again. */
void queue_clear(struct queue *q);

/* A message whose first bytes have been sent already: those are left out, and it counts as begun.
 * -EDQUOT, -ENOMEM. */
int queue_append(struct queue *q, const void *message, size_t bytes, size_t sent);

/* Forgets all but the rest of a message that has been begun: what comes next is whole again. */
void queue_drop_unbegun(struct queue *q);

/* Sends what the socket takes: 0, also when it takes no more; -errno. */
int queue_send(struct queue *q, int socket);

#endif
