/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to the gpu process, and on a link of the same kind to the planner. Each process answers
 * one request after the other, and each answer has a deadline. A process gets one request of a user
 * at a time, so another user waits for at most one of them. */

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

struct gpu_link {
	struct front *front;
	const char *name;     /* name of the process, for messages */
	enum control_op hung; /* report to the supervisor if the process does not answer */
	struct watch watch;   /* closed: there is no such process now */
	struct buffer in, out;
	struct arena arena;
	struct list pending;
	uint32_t last_id;
	uint64_t answer_by_ns; /* 0: no answer is due */
};

/* m is NULL when the process died or took too long. METRICS_REPLY may come several times, until its
 * `last` is set. request is the number given to gpu_link_request(). */
typedef void (*gpu_link_done)(struct front *f, void *owner, uint32_t request,
			      const struct wire_message *m);

void gpu_link_init(struct gpu_link *l, struct front *f, const char *name, enum control_op hung);
int gpu_link_attach(struct gpu_link *l, int fd); /* consumes fd; fails what was pending */
void gpu_link_deinit(struct gpu_link *l);

static inline bool gpu_link_is_up(const struct gpu_link *l)
{
	return l->watch.fd >= 0;
}

/* Sends m, whose first field is its request number; the link replaces the number on the way and
 * restores it for done. payer pays for the request, and has one under way; NULL: it is the daemon's
 * own. owner is only compared, by gpu_link_forget(). -ENOTCONN, -ENOMEM, -EDQUOT: done is not
 * called then. */
int gpu_link_request(struct gpu_link *l, struct account *payer, struct wire_message *m,
		     gpu_link_done done, void *owner, uint32_t request);

/* The number of owner's requests that wait for an answer. */
size_t gpu_link_count(const struct gpu_link *l, const void *owner);

/* Cancels owner's requests: done is not called for them any more. */
void gpu_link_forget(struct gpu_link *l, const void *owner);

void gpu_link_tick(struct gpu_link *l, uint64_t now_ns);
