/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/closer.h"
#include "daemon/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/front/dispatch.h"
#include "daemon/front/front.h"
#include "daemon/front/session.h"
#include "proto/limits.h"

/* libuv's own pipes accept only sockets as passed descriptors, so a peer polls its socket and reads
 * by recvmsg(). One read of at most 256 KiB a turn of the loop keeps one busy peer from starving
 * the others. A peer that stops reading costs its queue and nothing else: the queue is bounded, and
 * the agents that fill it are paused long before.
 *
 * An agent whose process has exited leaves its last records in the socket while sending to it
 * already fails: a failed send therefore only mutes a peer; the end of its input closes it. One
 * that is there, and cannot be sent to for want of memory, is cut off: it would wait for an answer.
 *
 * Sending never closes a peer and never handles another's frames: whoever walks over captures or
 * processes may send to each. What follows from a failure, or from room in a queue, happens when
 * the loop comes to that peer. */

enum { PEER_READ_BYTES = 256 * 1024 };

static void on_closed(uv_handle_t *h)
{
	struct peer *p = h->data;

	closer_close(p->fd); /* with it, what the user sent and nobody took */
	buffer_deinit(&p->in);
	buffer_deinit(&p->out);
	arena_deinit(&p->arena);
	free(p);
}

void peer_close(struct peer *p)
{
	if (p->closing) {
		return;
	}
	p->closing = true;
	session_on_peer_closed(p);
	list_remove(&p->link);
	p->front->n_peers--;
	closer_close(p->received_fd);
	p->received_fd = -1;
	uv_poll_stop(&p->poll);
	uv_close((uv_handle_t *)&p->poll, on_closed);
}

static void on_poll(uv_poll_t *h, int status, int events);

static void update_poll(struct peer *p)
{
	int events = (p->paused ? 0 : UV_READABLE) |
		     (buffer_length(&p->out) || p->resumed ? UV_WRITABLE : 0);

	if (p->closing) {
		return;
	}
	if (events == 0) {
		uv_poll_stop(&p->poll);
	} else if (uv_poll_start(&p->poll, events, on_poll) < 0) {
		peer_close(p);
	}
}

static void mute(struct peer *p)
{
	p->muted = true;
	buffer_deinit(&p->out);
	peer_resume(p);
}

/* The loop then reads its end. */
static void cut_off(struct peer *p)
{
	mute(p);
	shutdown(p->fd, SHUT_RDWR);
	update_poll(p);
}

static void flush(struct peer *p)
{
	while (buffer_length(&p->out) > 0) {
		ssize_t n = send(p->fd, p->out.data + p->out.start, buffer_length(&p->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR) {
				continue;
			}
			if (errno == EPIPE || errno == ECONNRESET) {
				mute(p);
			} else if (errno != EAGAIN) {
				cut_off(p);
			}
			break;
		}
		buffer_consume(&p->out, (size_t)n);
	}
	if (p->close_when_sent && buffer_length(&p->out) == 0) {
		peer_close(p);
		return;
	}
	update_poll(p);
}

void peer_send_raw(struct peer *p, const void *frames, size_t bytes)
{
	bool idle = buffer_length(&p->out) == 0;

	if (p->closing || p->muted) {
		return;
	}
	if (buffer_length(&p->out) + bytes > PEER_OUT_MAX_BYTES ||
	    buffer_append(&p->out, frames, bytes) < 0) {
		log_warning("pid %d (uid %u) does not read: cut off with %zu bytes waiting",
			    (int)p->credentials.pid, (unsigned)p->credentials.uid,
			    buffer_length(&p->out));
		cut_off(p);
		return;
	}
	if (idle) {
		flush(p);
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
		cut_off(p);
	} else {
		peer_send_raw(p, b.data + b.start, buffer_length(&b));
	}
	buffer_deinit(&b);
}

void peer_refuse(struct peer *p, uint32_t request, const struct refusal *r)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { request, (uint32_t)r->code, r->message, r->remedy },
	};

	peer_send(p, &m);
}

void peer_close_when_sent(struct peer *p)
{
	p->close_when_sent = true;
	if (buffer_length(&p->out) == 0) {
		peer_close(p);
	}
}

static void refuse_frame(struct peer *p, const char *what)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_PROTOCOL, "Use a client or agent of this daemon's version.", "%s",
		    what);
	peer_refuse(p, 0, &r);
	if (!p->closing) {
		peer_close_when_sent(p);
	}
}

/* Handles every whole frame that has arrived, unless a handler pauses or closes the peer. */
static void handle_frames(struct peer *p)
{
	while (!p->closing && !p->close_when_sent && !p->paused) {
		struct frame f;
		int r = frame_parse(p->in.data + p->in.start, buffer_length(&p->in), &f);

		if (r == FRAME_E_MORE) {
			return;
		}
		if (r != 0) {
			refuse_frame(p, r == FRAME_E_TOO_LARGE ? "the frame is too large"
							       : "the frame is malformed");
			return;
		}
		r = dispatch_frame(p, &f);
		if (p->closing) {
			return;
		}
		buffer_consume(&p->in, FRAME_HEADER_BYTES + f.size);
		if (r > 0) {
			refuse_frame(p, r == WIRE_E_UNKNOWN
						? "the message is unknown or not allowed here"
						: "the message is malformed");
		} else if (r < 0) {
			peer_close(p);
		}
	}
}

static void read_some(struct peer *p)
{
	int fd;
	ssize_t n;

	if (buffer_reserve(&p->in, PEER_READ_BYTES) < 0) {
		peer_close(p);
		return;
	}
	n = fdpass_receive(p->fd, p->in.data + p->in.end, PEER_READ_BYTES, &fd, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		return;
	}
	if (n <= 0 || (fd >= 0 && p->received_fd >= 0)) {
		closer_close(fd);
		peer_close(p);
		return;
	}
	if (fd >= 0) {
		p->received_fd = fd;
	}
	p->in.end += (size_t)n;
	handle_frames(p);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct peer *p = h->data;

	if (status < 0) {
		peer_close(p);
		return;
	}
	if ((events & UV_WRITABLE) != 0) {
		flush(p);
		if (p->role == PEER_CLIENT && !p->closing &&
		    buffer_length(&p->out) <= PEER_OUT_LOW_BYTES) {
			session_on_client_drained(p);
		}
	}
	if (p->resumed && !p->closing) {
		p->resumed = false;
		update_poll(p);
		handle_frames(p);
	}
	if (!p->closing && !p->paused && (events & UV_READABLE) != 0) {
		read_some(p);
	}
}

void peer_pause(struct peer *p)
{
	p->paused = true;
	update_poll(p);
}

void peer_resume(struct peer *p)
{
	if (!p->paused || p->closing) {
		return;
	}
	p->paused = false;
	p->resumed = true;
	update_poll(p);
}

int peer_open(struct front *f, int fd, const struct credentials *credentials)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	p->front = f;
	p->fd = fd;
	p->credentials = *credentials;
	p->role = PEER_NEW;
	p->received_fd = -1;
	arena_init(&p->arena, LIMIT_UNPACKED_BYTES);
	list_init(&p->captures);
	p->poll.data = p;
	r = uv_poll_init(&f->loop, &p->poll, fd);
	if (r < 0) {
		close(fd);
		free(p);
		return r;
	}
	list_append(&f->peers, &p->link);
	f->n_peers++;
	update_poll(p);
	return 0;
}
