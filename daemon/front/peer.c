/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/front/decision.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/front.h"

/* libuv's own pipes accept only sockets as passed descriptors, so a peer polls its socket and reads
 * by recvmsg(), when there is room for descriptors, into memory that all peers share. The peer
 * handles whole frames there, and copies only the incomplete rest. It charges the rest, and output
 * that the user does not read, to the user's account. So an idle peer holds no buffers, and a user
 * can make the daemon hold only bounded memory. See account.c.
 *
 * When an agent's process exits, its last records are still in the socket while sending to it
 * already fails. So a failed send, or an exit with unread output, only mutes the peer; the end of
 * its input closes it. If memory for an answer is short, the connection is shut down, because the
 * peer would wait for the answer.
 *
 * Sending never closes a peer and never handles another peer's frames, so a caller that walks over
 * captures or processes may send to each. The loop handles a failed send, or new room in a queue,
 * when it comes to that peer. peer_input.c reads, and listener.c lets peers in. */

/* --- turns --- */

void peers_wake(struct front *f, struct account *a)
{
	if (!list_is_empty(&a->ready) && list_is_empty(&a->run_link)) {
		list_append(&f->running, &a->run_link);
		uv_idle_start(&f->run, f->hooks->on_run);
	}
}

void peer_enqueue(struct peer *p)
{
	if (!p->closing && !peer_is_queued(p)) {
		list_append(&p->account->ready, &p->ready_link);
		peers_wake(p->front, p->account);
		peer_update_poll(p);
	}
}

void peer_stop_being_reader(struct peer *p)
{
	if (p->account->reader == p) {
		p->account->reader = NULL;
	}
}

static void leave_account(struct peer *p)
{
	peer_stop_being_reader(p);
	list_remove(&p->ready_link);
	peers_wake(p->front, p->account);
	p->account = account_unref(p->account);
}

/* --- poll events --- */

static void on_poll(uv_poll_t *h, int status, int events);

void peer_update_poll(struct peer *p)
{
	bool reads = !p->paused && !peer_is_queued(p);
	bool writes = p->out.bytes > 0 || p->close_when_sent;
	int events = (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0);

	if (p->closing || events == p->events) {
		return;
	}
	p->events = events;
	if (events == 0) {
		uv_poll_stop(&p->poll);
	} else if (uv_poll_start(&p->poll, events, on_poll) < 0) {
		peer_close(p);
	}
}

void peer_pause(struct peer *p)
{
	p->paused = true;
	p->half_ns = 0;
	peer_update_poll(p);
}

void peer_resume(struct peer *p)
{
	if (!p->paused || p->closing) {
		return;
	}
	p->paused = false;
	peer_enqueue(p);
}

/* --- end of a peer --- */

void peer_note_half(struct peer *p)
{
	bool is_half = !p->closing && !p->paused && !peer_is_queued(p) && buffer_length(&p->in) > 0;

	if (!is_half) {
		p->half_ns = 0;
	} else if (p->half_ns == 0) {
		p->half_ns = clock_now_ns();
		front_arm_tick(p->front);
	}
}

void peer_forget_groups(struct peer *p)
{
	buffer_deinit(&p->groups);
	p->credentials.groups = NULL;
	p->credentials.n_groups = 0;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void peer_close_received(struct peer *p)
{
	if (p->received_fd >= 0) {
		descriptors_close_received(p->front, p->account, &p->received_fd, 1);
		p->received_fd = -1;
	}
}

void peer_close(struct peer *p)
{
	if (p->closing) {
		return;
	}
	p->closing = true;
	p->front->hooks->on_peer_closed(p);
	list_remove(&p->link);
	p->front->n_peers--;
	peer_close_received(p);
	buffer_deinit(&p->in);
	buffer_deinit(&p->groups);
	queue_clear(&p->out);
	uv_poll_stop(&p->poll);
	uv_close((uv_handle_t *)&p->poll, on_closed);
	descriptors_close_connection(p->front, p->account, p->fd);
	p->fd = -1;
	leave_account(p);
}

/* --- output --- */

static void mute(struct peer *p)
{
	p->muted = true;
	queue_clear(&p->out);
	peer_resume(p);
}

/* Shuts the connection down; the loop then reads its end and closes it. */
static void hang_up(struct peer *p)
{
	mute(p);
	shutdown(p->fd, SHUT_RDWR);
}

static void note_send_error(struct peer *p, int error)
{
	if (error == -EPIPE || error == -ECONNRESET) {
		mute(p);
	} else {
		hang_up(p);
	}
}

static void flush(struct peer *p)
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

/* Called when the account is full. Drops every message of which nothing was sent, and sends a
 * refusal instead, which the peer may or may not read. */
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

/* Returns how many bytes the socket takes at once; 0 while earlier messages wait. */
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
	} else { /* a later message would follow a part of this one */
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

void peer_notify_client(const struct capture *c, struct wire_notice notice)
{
	struct wire_message m = { .type = WIRE_NOTICE, .notice = notice };

	m.notice.capture = c->id;
	peer_send_client(c, &m);
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

void peer_refuse_counted(struct peer *p, uint32_t request, const struct refusal *r)
{
	stats_note_refusal(&p->front->stats, r->code);
	peer_refuse(p, request, r);
}

void peer_refuse_and_close(struct peer *p, const struct refusal *r)
{
	peer_refuse_counted(p, 0, r);
	peer_close_when_sent(p);
}

void peer_turn_away(struct peer *p, const struct refusal *r)
{
	decision_of_peer(p, r);
	peer_refuse(p, 0, r);
	peer_close_when_sent(p);
}

bool peer_refuse_version(struct peer *p, uint32_t version, struct refusal *r)
{
	if (version == PROTO_VERSION) {
		return false;
	}
	refusal_set(r, GPUCTR_E_PROTOCOL,
		    "Use a client and an agent of the daemon's release (" GPUCTR_VERSION ").",
		    "version %u of the protocol is spoken there, version %d here", version,
		    PROTO_VERSION);
	peer_turn_away(p, r);
	return true;
}

/* --- results of the poll --- */

/* Has an agent's process exited without reading all that was sent to it? Clears the socket error
 * that reports this, because the agent's last messages can still be read. */
static bool has_left_frames(struct peer *p)
{
	socklen_t n = sizeof(int);
	int error = 0;

	return p->role == PEER_AGENT && !p->close_when_sent &&
	       getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == ECONNRESET;
}

/* Called after libuv has stopped the poll. */
static void on_poll_error(struct peer *p)
{
	p->events = 0;
	if (has_left_frames(p)) {
		mute(p);
		peer_update_poll(p);
	} else {
		peer_close(p);
	}
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct peer *p = h->data;
	bool drains = (events & UV_WRITABLE) != 0 && p->out.bytes > 0;

	if (status < 0) {
		on_poll_error(p);
		return;
	}
	if ((events & UV_WRITABLE) != 0) {
		flush(p);
	}
	if (p->closing) {
		return;
	}
	if (drains && p->role == PEER_CLIENT && p->out.bytes <= PEER_OUT_LOW_BYTES) {
		peer_resume(p);
		p->front->hooks->on_client_drained(p);
	}
	if (drains) {
		peers_wake(p->front, p->account);
	}
	if ((events & UV_READABLE) != 0) {
		peer_enqueue(p);
	}
}

/* --- time --- */

static bool has_deadline(const struct peer *p)
{
	return p->role == PEER_NEW || p->close_when_sent || p->account->reader == p ||
	       p->half_ns != 0;
}

static bool is_half_for_too_long(const struct peer *p, uint64_t now_ns)
{
	const struct quota *all = p->account->bytes.whole;
	uint64_t patience_s = all && all->used > all->max / 2 ? PEER_PATIENCE_S : PEER_HALF_S;

	return p->half_ns != 0 && now_ns >= p->half_ns + patience_s * CLOCK_NS_PER_S;
}

static bool others_wait(const struct peer *p)
{
	list_for_each(l, &p->account->ready) {
		if (l != &p->ready_link) {
			return true;
		}
	}
	return false;
}

static bool end_if_late(struct peer *p, uint64_t now_ns)
{
	const struct account *a = p->account;
	struct refusal r;

	if (p->role == PEER_NEW || p->close_when_sent) {
		if (now_ns < p->deadline_ns) {
			return false;
		}
		if (p->close_when_sent) {
			peer_close(p);
			return true;
		}
		refusal_set(&r, GPUCTR_E_TIMEOUT, "Say hello at once after connecting.",
			    "nothing was said for %d s after connecting", PEER_PATIENCE_S);
	} else if (a->reader == p && others_wait(p) &&
		   now_ns >= a->reader_since_ns + PEER_PATIENCE_S * CLOCK_NS_PER_S) {
		log_notice("pid %d (uid %u) holds up its siblings with half a message: closed",
			   (int)p->credentials.pid, (unsigned)p->credentials.uid);
		account_refuse(a, &r);
	} else if (is_half_for_too_long(p, now_ns)) {
		log_notice("pid %d (uid %u) has sent half a message and no more: closed",
			   (int)p->credentials.pid, (unsigned)p->credentials.uid);
		refusal_set(&r, GPUCTR_E_TIMEOUT, "Connect again, and send messages as a whole.",
			    "the rest of a message did not come");
	} else {
		return false;
	}
	peer_refuse_and_close(p, &r);
	return true;
}

/* Ending one peer may end others, the agents of its capture, so the caller begins at the start of
 * the list again when this returns true. */
static bool end_one_late(struct front *f, uint64_t now_ns, bool *ret_deadlines)
{
	*ret_deadlines = false;
	list_for_each(l, &f->peers) {
		struct peer *p = list_entry(l, struct peer, link);

		*ret_deadlines = *ret_deadlines || has_deadline(p) || peer_is_queued(p);
		if (end_if_late(p, now_ns)) {
			return true;
		}
	}
	return false;
}

bool peers_tick(struct front *f, uint64_t now_ns)
{
	bool deadlines;

	list_for_each(l, &f->accounts.all) {
		peers_wake(f, list_entry(l, struct account, link));
	}
	while (end_one_late(f, now_ns, &deadlines)) {
	}
	return deadlines;
}

/* --- begin of a peer --- */

int peer_open(struct front *f, int fd, const struct credentials *credentials,
	      struct account *account, struct peer **ret)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		return -ENOMEM;
	}
	p->front = f;
	p->fd = fd;
	p->credentials = *credentials;
	p->role = PEER_NEW;
	p->received_fd = -1;
	p->deadline_ns = clock_now_ns() + PEER_PATIENCE_S * CLOCK_NS_PER_S;
	p->in.quota = p->groups.quota = &account->bytes;
	queue_init(&p->out, &account->bytes);
	list_init(&p->captures);
	list_init(&p->ready_link);
	p->poll.data = p;
	r = uv_poll_init(&f->loop, &p->poll, fd);
	if (r < 0) {
		free(p);
		return r;
	}
	p->account = account_ref(account);
	list_append(&f->peers, &p->link);
	f->n_peers++;
	front_arm_tick(f);
	peer_update_poll(p);
	*ret = p;
	return 0;
}
