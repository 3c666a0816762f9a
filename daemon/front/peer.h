/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One connection of a user: bytes in, frames to the dispatcher, messages out. */

#include <stdbool.h>
#include <uv.h>

#include "proto/base/buffer.h"
#include "proto/base/list.h"
#include "daemon/base/queue.h"
#include "daemon/broker/account.h"
#include "daemon/broker/policy.h"
#include "proto/wire/wire.h"

struct capture;
struct frame;
struct front;
struct permission;
struct process;

enum peer_role {
	PEER_NEW, /* has not sent a hello yet */
	PEER_CLIENT,
	PEER_AGENT,
	PEER_PERMISSION, /* has asked for a permission and waits for its only answer */
};

enum {
	PEER_OUT_HIGH_BYTES = 2 << 20,	/* above this unsent output of a client the front does not
					   read its agents ... */
	PEER_OUT_LOW_BYTES = 512 << 10, /* ... until the output is down to this */
	PEER_PATIENCE_S = 10, /* limit for a hello, a last message, a frame that holds up siblings,
				 and any frame while all users together have much waiting */
	PEER_HALF_S = 600,    /* limit for any frame */
};

struct peer {
	struct list link;
	struct front *front;
	uv_poll_t poll;
	int fd;
	struct credentials credentials;
	struct buffer groups; /* storage of credentials.groups */
	struct account *account;
	struct list ready_link; /* in the list of connections that have work, see account.h */
	enum peer_role role;
	struct buffer in; /* received bytes not handled yet: frames, or a part of one */
	struct queue out;
	int events;	 /* events that the poll waits for */
	int received_fd; /* a descriptor that came with the bytes and was not taken yet; -1: none */
	uint64_t deadline_ns; /* deadline of a new peer, or of one that closes once all is sent */
	uint64_t half_ns;     /* time since which a frame is incomplete while the peer may send its
				 rest; 0: none is */
	bool paused;	      /* the front does not read from it */
	bool muted;	      /* further output is discarded */
	bool closing;
	bool close_when_sent;
	char program[64];
	struct list captures;	       /* captures of a client */
	struct process *process;       /* process of an agent */
	struct permission *permission; /* pending at the granter; the request owns it */
};

/* Handles a message of p's; frame holds its bytes. 0; WIRE_E_*: p is refused as malformed, then
 * closed; -errno: p is closed. requests.c has the table of all handlers. */
typedef int peer_handler(struct peer *p, const struct wire_message *m, const struct frame *frame);

/* Consumes fd, which was charged to the account before. On -errno fd remains the caller's. */
int peer_open(struct front *f, int fd, const struct credentials *credentials,
	      struct account *account, struct peer **ret);

/* Ends the connection; p is freed in the loop's next round. May be called twice. */
void peer_close(struct peer *p);

/* Closes p once everything queued has been sent. */
void peer_close_when_sent(struct peer *p);

/* Sends m and queues the bytes that the socket does not take. If the account has no room for them,
 * the peer gets a refusal as its last message and is closed. */
void peer_send(struct peer *p, const struct wire_message *m);
void peer_send_raw(struct peer *p, const void *frames, size_t bytes);
/* Sends m to the client of c, unless the client is gone. */
void peer_send_client(const struct capture *c, const struct wire_message *m);
/* Closes the descriptor that came with the bytes, if there is one. */
void peer_close_received(struct peer *p);
/* Sends a line for a person to the client of c; fills in the capture. */
void peer_notify_client(const struct capture *c, struct wire_notice notice);
/* Frees the groups, which are not needed any more. */
void peer_forget_groups(struct peer *p);

void peer_refuse(struct peer *p, uint32_t request, const struct refusal *r);
/* Refuses a request like peer_refuse() and counts the refusal, which has no audit line. */
void peer_refuse_counted(struct peer *p, uint32_t request, const struct refusal *r);
/* Refuses the peer itself, notes that in the audit log, and closes the peer once the refusal is
 * sent. */
void peer_turn_away(struct peer *p, const struct refusal *r);

static inline size_t peer_backlog(const struct peer *p)
{
	return p->out.bytes;
}

void peer_pause(struct peer *p);
void peer_resume(struct peer *p);

/* Ends peers whose time is over. True: some peers have a deadline. */
bool peers_tick(struct front *f, uint64_t now_ns);

/* Gives each account a part of the round's time, in which its connections take turns. */
void peers_on_run(uv_idle_t *h);

/* --- for peer_input.c --- */

/* Sets the poll's events to what p can do now; call it when that has changed. */
void peer_update_poll(struct peer *p);

/* Does p have work that waits for its turn? Its poll waits for no input meanwhile. */
static inline bool peer_is_queued(const struct peer *p)
{
	return !list_is_empty(&p->ready_link);
}

/* Called when p has work. */
void peer_enqueue(struct peer *p);
/* Called when there is more room, so that a connection of a may take its turn. */
void peers_wake(struct front *f, struct account *a);
/* Called when a frame is complete: a sibling may be read. */
void peer_stop_being_reader(struct peer *p);
/* Starts or stops the time limit, which runs while part of a frame has arrived and the rest may
 * come; call it when that has changed. */
void peer_note_half(struct peer *p);
/* True if the peer uses another version of the protocol: it was turned away, and *r is set. */
bool peer_refuse_version(struct peer *p, uint32_t version, struct refusal *r);
/* Sends the refusal and closes the peer when it is sent. */
void peer_refuse_and_close(struct peer *p, const struct refusal *r);
