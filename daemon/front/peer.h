/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_PEER_H
#define GPUCTR_FRONT_PEER_H

/* One connection of a user: bytes in, frames out to the dispatcher, messages back. */

#include <stdbool.h>
#include <uv.h>

#include "daemon/base/arena.h"
#include "daemon/base/buffer.h"
#include "daemon/base/list.h"
#include "daemon/broker/policy.h"
#include "proto/wire.h"

struct front;
struct process;

enum peer_role {
	PEER_NEW = 1 << 0, /* has not said what it is */
	PEER_CLIENT = 1 << 1,
	PEER_AGENT = 1 << 2,
	PEER_PERMISSION = 1 << 3, /* waits for its one answer */
};

enum {
	PEER_OUT_MAX_BYTES = 16 << 20, /* a reader this far behind is cut off */
	PEER_OUT_HIGH_BYTES = 4 << 20, /* from here its agents are not read any more ... */
	PEER_OUT_LOW_BYTES = 1 << 20,  /* ... until it has read down to here */
};

struct peer {
	struct list link;
	struct front *front;
	uv_poll_t poll;
	int fd;
	struct credentials credentials;
	enum peer_role role;
	struct buffer in, out;
	struct arena arena; /* of the message being handled */
	int received_fd;    /* came with the bytes, not yet claimed; -1: none */
	bool paused;	    /* not read from */
	bool resumed; /* was paused: frames that had arrived are handled in the loop's next turn */
	bool muted;   /* the other end does not read any more: output is discarded */
	bool closing;
	bool close_when_sent;
	char program[64];
	struct list captures;	 /* of a client */
	struct process *process; /* of an agent */
};

/* Consumes fd. -errno: already closed. */
int peer_open(struct front *f, int fd, const struct credentials *credentials);

/* Ends the connection; p is gone after the loop's next turn. May be called twice. */
void peer_close(struct peer *p);

/* Closes once everything queued has been sent. */
void peer_close_when_sent(struct peer *p);

/* Queue and try to send. A message that does not fit in PEER_OUT_MAX_BYTES closes the peer. */
void peer_send(struct peer *p, const struct wire_message *m);
void peer_send_raw(struct peer *p, const void *frames, size_t bytes);
void peer_refuse(struct peer *p, uint32_t request, const struct refusal *r);

static inline size_t peer_backlog(const struct peer *p)
{
	return buffer_length(&p->out);
}

void peer_pause(struct peer *p);
void peer_resume(struct peer *p);

#endif
