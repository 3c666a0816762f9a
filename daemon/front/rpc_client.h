/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to the gpu process or, on another link, to the planner. Each process answers one request
 * after the other, and each answer has a deadline. A process gets one request of a user at a time,
 * so another user waits for at most one of them. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/list.h"
#include "daemon/broker/account.h"
#include "daemon/config/control.h"
#include "daemon/front/watch.h"
#include "proto/wire/wire.h"

struct front;

struct rpc_client {
	struct front *front;
	const char *name;      /* name of the process, for messages */
	enum worker_id worker; /* id for the supervisor */
	struct watch watch;    /* closed: the process does not run now */
	struct buffer in, out;
	struct arena arena;
	struct list pending;
	uint32_t last_id;
	uint64_t answer_by_ns; /* 0: no answer is due */
};

/* m is NULL when the process died or took too long. METRICS_REPLY may come several times, until its
 * `last` is set. request is the number given to rpc_client_request(). */
typedef void (*rpc_client_done)(struct front *f, void *owner, uint32_t request,
				const struct wire_message *m);

void rpc_client_init(struct rpc_client *l, struct front *f, const char *name,
		     enum worker_id worker);
int rpc_client_attach(struct rpc_client *l, int fd); /* consumes fd; fails pending requests */
void rpc_client_deinit(struct rpc_client *l);

static inline bool rpc_client_is_up(const struct rpc_client *l)
{
	return l->watch.fd >= 0;
}

/* Sends m, whose first field is its request number; the link replaces the number on the way and
 * restores it for done. The request is charged to payer, whose requests are sent one at a time;
 * NULL: the daemon's own request. owner is only compared, by rpc_client_forget(). -ENOTCONN,
 * -ENOMEM, -EDQUOT: done is not called then. */
int rpc_client_request(struct rpc_client *l, struct account *payer, struct wire_message *m,
		       rpc_client_done done, void *owner, uint32_t request);

/* The number of owner's requests that wait for an answer. */
size_t rpc_client_count(const struct rpc_client *l, const void *owner);

/* Cancels owner's requests: done is not called for them any more. */
void rpc_client_forget(struct rpc_client *l, const void *owner);

void rpc_client_tick(struct rpc_client *l, uint64_t now_ns);
