/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_PEER_H
#define GPUCTR_FRONT_PEER_H

/* One connection of a user: bytes in, frames out to the dispatcher, messages back. */

#include <stdbool.h>
#include <uv.h>

#include "proto/base/buffer.h"
#include "proto/base/list.h"
#include "daemon/base/queue.h"
#include "daemon/broker/account.h"
#include "daemon/broker/policy.h"
#include "proto/wire/wire.h"

struct front;
struct process;

enum peer_role {
	PEER_NEW = 1 << 0, /* has not said what it is */
	PEER_CLIENT = 1 << 1,
	PEER_AGENT = 1 << 2,
	PEER_PERMISSION = 1 << 3, /* waits for its one answer */
	PEER_GUEST = 1 << 4,	  /* may not measure, and asks for the catalogue alone */
};

enum {
	PEER_OUT_HIGH_BYTES = 2 << 20,	/* from here its agents are not read any more ... */
	PEER_OUT_LOW_BYTES = 512 << 10, /* ... until it has read down to here */
	PEER_GUEST_S = 30,		/* of a guest's connection */
	PEER_PATIENCE_S = 10, /* for a hello, a last word, a message that holds others up */
};

struct peer {
	struct list link;
	struct front *front;
	uv_poll_t poll;
	int fd;
	struct credentials credentials;
	struct buffer groups; /* those of the credentials */
	struct account *account;
	struct list waiting_link; /* among those that may not read, see account.h */
	enum peer_role role;
	struct buffer in; /* what has come and is not handled: part of a frame, or frames */
	struct queue out;
	int events;	      /* of the loop that are waited for */
	int received_fd;      /* came with the bytes, not yet claimed; -1: none */
	uint64_t round;	      /* see account_begin_turn() */
	uint64_t deadline_ns; /* of a new peer, a guest, and of one that is closed when all is sent
			       */
	bool paused;	      /* not read from */
	bool resumed; /* frames that have come already are handled in one of the loop's next turns
		       */
	bool muted;   /* what else is sent to it is discarded */
	bool closing;
	bool close_when_sent;
	char program[64];
	struct list captures;	 /* of a client */
	struct process *process; /* of an agent */
};

/* fd, which is charged to the account, is the peer's when all goes well. -errno: the caller's. */
int peer_open(struct front *f, int fd, const struct credentials *credentials,
	      struct account *account);

/* Ends the connection; p is gone after the loop's next turn. May be called twice. */
void peer_close(struct peer *p);

/* Closes once everything queued has been sent. */
void peer_close_when_sent(struct peer *p);

/* Send, and queue what the socket does not take. A peer whose account has no room for that is told
 * so and closed. */
void peer_send(struct peer *p, const struct wire_message *m);
void peer_send_raw(struct peer *p, const void *frames, size_t bytes);
void peer_refuse(struct peer *p, uint32_t request, const struct refusal *r);

static inline size_t peer_backlog(const struct peer *p)
{
	return p->out.bytes;
}

void peer_pause(struct peer *p);
void peer_resume(struct peer *p);

/* Ends peers whose time is over. True: some have a deadline. */
bool peers_tick(struct front *f, uint64_t now_ns);

#endif
