/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <errno.h>
#include <sys/socket.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/front/front.h"

/* An agent whose process has exited leaves its last records in the socket while sending to it
 * already fails. So a failed send, or a process that exits before it has read all, only mutes a
 * peer, and the end of its input closes it. A peer that still reads, but cannot be sent to for want
 * of memory, is hung up on: it would wait for an answer.
 *
 * Sending never closes a peer and never handles another peer's frames, so a caller that walks over
 * captures or processes may send to each. What follows from a failure, or from new room in a queue,
 * happens when the loop comes to that peer. */

void peer_mute(struct peer *p)
{
	p->muted = true;
	p->lists = false;
	queue_clear(&p->out);
	peer_resume(p);
}

/* Shuts the connection down; the loop then reads its end and closes it. */
static void hang_up(struct peer *p)
{
	peer_mute(p);
	shutdown(p->fd, SHUT_RDWR);
}

static void note_send_error(struct peer *p, int error)
{
	if (error == -EPIPE || error == -ECONNRESET) {
		peer_mute(p);
	} else {
		hang_up(p);
	}
}

void peer_flush(struct peer *p)
{
	int r = queue_send(&p->out, p->fd);

	if (r < 0) {
		note_send_error(p, r);
	}
	if (p->close_when_sent && p->out.bytes == 0) {
		peer_close(p);
		return;
	}
	peer_update_poll(p);
}

static void close_soon(struct peer *p)
{
	p->close_when_sent = true;
	p->deadline_ns = clock_now_ns() + PEER_PATIENCE_S * CLOCK_NS_PER_S;
	front_arm_tick(p->front);
	peer_update_poll(p);
}

/* The account is full. Drops every message that was not begun, and sends one sentence that says so,
 * which the peer may or may not read. */
static void cut_off(struct peer *p)
{
	struct refusal r;

	log_warning("pid %d (uid %u) does not read: cut off with %zu bytes waiting",
		    (int)p->credentials.pid, (unsigned)p->credentials.uid, p->out.bytes);
	account_refuse(p->account, &r);
	stats_note_refusal(&p->front->stats, r.code);
	queue_drop_unbegun(&p->out);
	close_soon(p);
	peer_refuse(p, 0, &r);
	p->muted = true;
}

/* Returns how many bytes the socket takes at once; none while earlier messages wait. */
static size_t send_at_once(struct peer *p, const void *frames, size_t bytes)
{
	ssize_t n;

	if (p->out.bytes > 0) {
		return 0;
	}
	do {
		n = send(p->fd, frames, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		note_send_error(p, -errno);
	}
	return n < 0 ? 0 : (size_t)n;
}

void peer_send_raw(struct peer *p, const void *frames, size_t bytes)
{
	size_t sent;

	if (p->closing || p->muted) {
		return;
	}
	sent = send_at_once(p, frames, bytes);
	if (p->muted || sent == bytes) {
		return;
	}
	if (queue_append(&p->out, frames, bytes, sent) == 0) {
		peer_update_poll(p);
	} else if (sent == 0 && !p->close_when_sent) {
		cut_off(p);
	} else { /* the stream would go on in the middle of a message */
		hang_up(p);
	}
}

void peer_send(struct peer *p, const struct wire_message *m)
{
	struct buffer b = { 0 };
	int r;

	if (p->closing || p->muted) {
		return;
	}
	r = wire_encode(&p->front->scratch, &b, m);
	arena_reset(&p->front->scratch);
	if (r < 0) {
		log_error("a %s of ours cannot be encoded: %d", wire_type_to_string(m->type), r);
		hang_up(p);
	} else {
		peer_send_raw(p, b.data + b.start, buffer_length(&b));
	}
	buffer_deinit(&b);
}

void peer_send_client(const struct capture *c, const struct wire_message *m)
{
	if (c->client) {
		peer_send(c->client, m);
	}
}

void peer_refuse(struct peer *p, uint32_t request, const struct refusal *r)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = {
			.request = request,
			.code = (uint32_t)r->code,
			.message = r->message,
			.remedy = r->remedy,
		},
	};

	peer_send(p, &m);
}

void peer_close_when_sent(struct peer *p)
{
	if (p->out.bytes == 0) {
		peer_close(p);
	} else if (!p->closing) {
		close_soon(p);
	}
}

void peer_refuse_and_close(struct peer *p, const struct refusal *r)
{
	stats_note_refusal(&p->front->stats, r->code);
	peer_refuse(p, 0, r);
	if (!p->closing) {
		peer_close_when_sent(p);
	}
}
