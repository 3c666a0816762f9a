/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to the granter, and events that it reports by itself. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/list.h"
#include "daemon/front/watch.h"
#include "daemon/granter/granter.h"

struct front;

struct granter_link {
	struct front *front;
	struct watch watch; /* closed: no granter runs now */
	struct list pending;
	uint64_t last_id;
	uint64_t closing[GRANTER_LEASES_MAX]; /* leases to end, not sent yet because the link was
						 full */
	size_t n_closing;
	uint64_t hung_gpus; /* GPUs among which one or more hang in the driver */
	uint64_t hung_since_ns[64];
};

/* reply is NULL when the granter has died or hangs. */
typedef void (*granter_link_done)(struct front *f, void *owner, const struct granter_reply *reply);

void granter_link_init(struct granter_link *l, struct front *f);
int granter_link_attach(struct granter_link *l, int fd);

static inline bool granter_link_is_up(const struct granter_link *l)
{
	return l->watch.fd >= 0;
}

void granter_link_detach(struct granter_link *l);

/* Fills in q->id and q->size. fd -1: no descriptor; the caller still owns fd. done may be NULL. */
int granter_link_request(struct granter_link *l, struct granter_request *q, int fd,
			 granter_link_done done, void *owner);

/* Ends a lease. If the request cannot be sent now, it is sent later, before any other. */
void granter_link_close_lease(struct granter_link *l, uint64_t lease);

/* Sends a ping, unless one is pending. */
void granter_link_ping(struct granter_link *l);

/* True: no answer is due and no request waits to be sent. */
bool granter_link_is_idle(const struct granter_link *l);

void granter_link_forget(struct granter_link *l, const void *owner);
void granter_link_tick(struct granter_link *l, uint64_t now_ns);
