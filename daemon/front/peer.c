/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/front/dispatch.h"
#include "daemon/front/front.h"
#include "daemon/front/proc.h"
#include "daemon/front/session.h"
#include "proto/wire/limits.h"

/* libuv's own pipes accept only sockets as passed descriptors, so a peer polls its socket and reads
 * by recvmsg(), when there is room for descriptors, into memory that all peers share. Whole frames
 * are handled there. Only what is left over is copied, and the user's account pays for it, as for
 * output that is not read. So an idle peer holds no buffers, and the memory that a user can make
 * the daemon hold is bounded. See account.c.
 *
 * A user who has much waiting has one connection read at a time, up to the end of a frame. Many
 * halves of frames could otherwise fill the account so that none of them ever becomes whole. A
 * connection that does not end its frame while siblings wait for that is closed. Without siblings
 * that wait, a frame may take its time, since its sender may have been stopped by Ctrl-Z.
 *
 * One read in a round of the loop, and the user's share of the round's time, keep one busy peer
 * from starving the others. A peer that stops reading fills its own queue and no other. The agents
 * that fill it are paused long before the account is full, and so is a client that asks and does
 * not read the answers. What comes all the same, such as long answers of the planner, ends the
 * connection when the account is full.
 *
 * An agent whose process has exited leaves its last records in the socket while sending to it
 * already fails. So a failed send only mutes a peer, and the end of its input closes it. A peer
 * that still reads, but cannot be sent to for want of memory, is hung up on: it would wait for an
 * answer.
 *
 * Sending never closes a peer and never handles another peer's frames, so a caller that walks over
 * captures or processes may send to each. What follows from a failure, or from new room in a queue,
 * happens when the loop comes to that peer. */

enum { PEER_BITE_BYTES = 32 * 1024 }; /* of one read, while the user has much waiting */

static void on_closed(uv_handle_t *h)
{
	struct peer *p = h->data;

	free(p);
}

static void leave_account(struct peer *p);

static void close_received(struct peer *p)
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
	session_on_peer_closed(p);
	list_remove(&p->link);
	p->front->n_peers--;
	close_received(p);
	buffer_deinit(&p->in);
	buffer_deinit(&p->groups);
	queue_clear(&p->out);
	uv_poll_stop(&p->poll);
	uv_close((uv_handle_t *)&p->poll, on_closed);
	descriptors_close_connection(p->front, p->account, p->fd);
	p->fd = -1;
	leave_account(p);
}

static void on_poll(uv_poll_t *h, int status, int events);

static bool is_waiting(const struct peer *p)
{
	return !list_is_empty(&p->waiting_link);
}

static void update_poll(struct peer *p)
{
	bool reads = !p->paused && !p->resumed && !is_waiting(p);
	bool writes = p->out.bytes > 0 || p->resumed || p->close_when_sent;
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

/* --- the account --- */

static bool has_room(const struct peer *p)
{
	return descriptors_may_receive(p->front, p->role != PEER_NEW);
}

static struct peer *find_waiting(struct account *a)
{
	list_for_each(l, &a->waiting) {
		struct peer *p = list_entry(l, struct peer, waiting_link);

		if (has_room(p)) {
			return p;
		}
	}
	return NULL;
}

/* Lets waiting connections of a read: the next one while the account is high, else all of them. */
static void wake_waiting(struct account *a)
{
	struct peer *p;

	while ((!account_is_high(a) || !a->reader) && (p = find_waiting(a)) != NULL) {
		list_remove(&p->waiting_link);
		if (account_is_high(a)) {
			a->reader = p;
			a->reader_since_ns = clock_now_ns();
		}
		update_poll(p);
	}
}

static void stop_being_reader(struct peer *p)
{
	if (p->account->reader == p) {
		p->account->reader = NULL;
	}
}

static void leave_account(struct peer *p)
{
	stop_being_reader(p);
	list_remove(&p->waiting_link);
	wake_waiting(p->account);
	p->account = account_unref(p->account);
}

static bool may_read(struct peer *p)
{
	struct account *a = p->account;

	if (has_room(p) && account_is_high(a) && !a->reader) {
		a->reader = p;
		a->reader_since_ns = clock_now_ns();
	}
	if (has_room(p) && (!account_is_high(a) || a->reader == p)) {
		return true;
	}
	list_append(&a->waiting, &p->waiting_link);
	front_arm_tick(p->front);
	update_poll(p);
	return false;
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
	update_poll(p);
}

static void close_soon(struct peer *p)
{
	p->close_when_sent = true;
	p->deadline_ns = clock_now_ns() + PEER_PATIENCE_S * CLOCK_NS_PER_S;
	front_arm_tick(p->front);
	update_poll(p);
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
		update_poll(p);
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

static void refuse_and_close(struct peer *p, const struct refusal *r)
{
	stats_note_refusal(&p->front->stats, r->code);
	peer_refuse(p, 0, r);
	if (!p->closing) {
		peer_close_when_sent(p);
	}
}

static void refuse_frame(struct peer *p, const char *what)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_PROTOCOL, "Use a client or agent of this daemon's version.", "%s",
		    what);
	refuse_and_close(p, &r);
}

/* --- input --- */

static void handle_frame(struct peer *p, const struct frame *f)
{
	int r = dispatch_frame(p, f);

	if (r > 0 && !p->closing) {
		refuse_frame(p, r == WIRE_E_UNKNOWN ? "the message is unknown or not allowed here"
						    : "the message is malformed");
	} else if (r < 0) {
		peer_close(p);
	} else if ((p->role & (PEER_CLIENT | PEER_GUEST)) != 0 &&
		   p->out.bytes > PEER_OUT_HIGH_BYTES) {
		peer_pause(p);
	}
}

static bool takes_frames(const struct peer *p)
{
	return !p->closing && !p->close_when_sent && !p->paused;
}

/* Handles whole frames until a handler pauses or closes the peer, or the round's time is over; at
 * least one. What is left waits for another round. Returns how many bytes were handled. */
static size_t handle_frames(struct peer *p, const uint8_t *data, size_t bytes, uint64_t until_ns)
{
	size_t done = 0;

	while (takes_frames(p)) {
		struct frame f;
		int r = frame_parse(data + done, bytes - done, &f);

		if (r == FRAME_E_MORE) {
			break;
		}
		if (r != 0) {
			refuse_frame(p, r == FRAME_E_TOO_LARGE ? "the frame is too large"
							       : "the frame is malformed");
			break;
		}
		if (done > 0 && clock_now_ns() >= until_ns) {
			p->resumed = true;
			update_poll(p);
			break;
		}
		handle_frame(p, &f);
		done += FRAME_HEADER_BYTES + f.size;
	}
	return done;
}

/* Keeps what is left over. The buffer grows with the frame, and not beyond it. */
static int keep(struct peer *p, const uint8_t *data, size_t bytes)
{
	size_t length = buffer_length(&p->in), more = length;
	uint32_t size;
	int r;

	if (length >= FRAME_HEADER_BYTES) {
		memcpy(&size, p->in.data + p->in.start, sizeof(size));
		size = le32toh(size);
		more = FRAME_HEADER_BYTES + size > length ? FRAME_HEADER_BYTES + size - length : 0;
		more = more < length ? more : length;
	}
	r = buffer_reserve_exactly(&p->in, bytes > more ? bytes : more);
	return r < 0 ? r : buffer_append(&p->in, data, bytes);
}

static void handle_kept(struct peer *p, uint64_t until_ns)
{
	size_t done = handle_frames(p, p->in.data + p->in.start, buffer_length(&p->in), until_ns);

	if (p->closing) {
		return;
	}
	if (done > 0) {
		stop_being_reader(p);
	}
	p->in.start += done;
	if (buffer_length(&p->in) == 0) {
		buffer_deinit(&p->in);
	}
}

static void handle_received(struct peer *p, const uint8_t *data, size_t bytes, uint64_t until_ns)
{
	bool whole = buffer_length(&p->in) == 0;
	size_t done = whole ? handle_frames(p, data, bytes, until_ns) : 0;
	struct refusal r;

	if (p->closing || p->close_when_sent) {
		return; /* what else comes is thrown away */
	}
	if (done > 0) {
		stop_being_reader(p);
	}
	if (done < bytes && keep(p, data + done, bytes - done) < 0) {
		account_refuse(p->account, &r);
		refuse_and_close(p, &r);
	} else if (!whole) {
		handle_kept(p, until_ns);
	}
}

/* A peer may send one descriptor at a time. False: there were more, and they go to the closers. */
static bool take_received(struct peer *p, const struct fdpass_set *set)
{
	descriptors_add_received(p->front, p->account, set->n);
	if (set->n == 1 && p->received_fd < 0) {
		p->received_fd = set->fds[0];
		return true;
	}
	descriptors_close_received(p->front, p->account, set->fds, set->n);
	return set->n == 0;
}

static void read_some(struct peer *p, uint64_t until_ns)
{
	size_t most = account_is_high(p->account) ? PEER_BITE_BYTES : FRONT_READ_BYTES;
	struct fdpass_set set;
	struct refusal r;
	ssize_t n;

	if (!descriptors_may_send(p->account, &r)) {
		refuse_and_close(p, &r);
		return;
	}
	n = fdpass_receive_set(p->fd, p->front->received, most, &set, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		return;
	}
	if (!take_received(p, &set) || n <= 0) {
		peer_close(p);
		return;
	}
	handle_received(p, p->front->received, (size_t)n, until_ns);
}

/* Handles what p has sent, within what is left of its user's time in this round. */
static void work(struct peer *p)
{
	struct account *a = p->account;
	uint64_t began = clock_now_ns();
	uint64_t until = began + ACCOUNT_ROUND_US * UINT64_C(1000) - a->spent_ns;

	account_ref(a);
	if (p->resumed) {
		p->resumed = false;
		update_poll(p);
		handle_kept(p, until);
	} else if (may_read(p)) {
		read_some(p, until);
	}
	a->spent_ns += clock_now_ns() - began;
	if (!p->closing && (p->paused || buffer_length(&p->in) == 0)) {
		stop_being_reader(p);
	}
	wake_waiting(a);
	account_unref(a);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct peer *p = h->data;
	bool drains = (events & UV_WRITABLE) != 0 && p->out.bytes > 0;

	if (status < 0) {
		peer_close(p);
		return;
	}
	if ((events & UV_WRITABLE) != 0) {
		flush(p);
	}
	if (p->closing) {
		return;
	}
	if (drains && (p->role & (PEER_CLIENT | PEER_GUEST)) != 0 &&
	    p->out.bytes <= PEER_OUT_LOW_BYTES) {
		peer_resume(p);
		session_on_client_drained(p);
	}
	if (drains) {
		wake_waiting(p->account);
	}
	if ((p->resumed || (!p->paused && !is_waiting(p) && (events & UV_READABLE) != 0)) &&
	    account_begin_round(p->account, p->front->round, &p->lap)) {
		work(p);
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

/* --- time --- */

static void refuse_silent(struct peer *p)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_TIMEOUT, "Say hello at once after connecting.",
		    "nothing was said for %d s after connecting", PEER_PATIENCE_S);
	refuse_and_close(p, &r);
}

static void refuse_guest(struct peer *p)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_TIMEOUT, "Connect again.",
		    "who may not measure is connected for %d s at a time", PEER_GUEST_S);
	refuse_and_close(p, &r);
}

/* Siblings wait for the end of this connection's message. */
static void refuse_stalled(struct peer *p)
{
	struct refusal r;

	account_refuse(p->account, &r);
	log_notice("pid %d (uid %u) holds up its siblings with half a message: closed",
		   (int)p->credentials.pid, (unsigned)p->credentials.uid);
	refuse_and_close(p, &r);
}

static bool has_deadline(const struct peer *p)
{
	return (p->role & (PEER_NEW | PEER_GUEST)) != 0 || p->close_when_sent ||
	       p->account->reader == p;
}

static bool is_late(const struct peer *p, uint64_t now_ns)
{
	const struct account *a = p->account;

	if ((p->role & (PEER_NEW | PEER_GUEST)) != 0 || p->close_when_sent) {
		return now_ns >= p->deadline_ns;
	}
	return a->reader == p && !list_is_empty(&a->waiting) &&
	       now_ns >= a->reader_since_ns + PEER_PATIENCE_S * CLOCK_NS_PER_S;
}

static void end_late(struct peer *p)
{
	if (p->close_when_sent) {
		peer_close(p);
	} else if (p->role == PEER_NEW) {
		refuse_silent(p);
	} else if (p->role == PEER_GUEST) {
		refuse_guest(p);
	} else {
		refuse_stalled(p);
	}
}

/* Finds one peer whose time is over. Ending it may end others, the agents of its capture, so the
 * caller begins at the start of the list again. */
static struct peer *find_late(struct front *f, uint64_t now_ns, bool *ret_deadlines)
{
	*ret_deadlines = false;
	list_for_each(l, &f->peers) {
		struct peer *p = list_entry(l, struct peer, link);

		*ret_deadlines = *ret_deadlines || has_deadline(p) || is_waiting(p);
		if (is_late(p, now_ns)) {
			return p;
		}
	}
	return NULL;
}

bool peers_tick(struct front *f, uint64_t now_ns)
{
	bool deadlines;
	struct peer *p;

	list_for_each(l, &f->accounts.all) {
		wake_waiting(list_entry(l, struct account, link));
	}
	while ((p = find_late(f, now_ns, &deadlines)) != NULL) {
		end_late(p);
	}
	return deadlines;
}

/* Reads the supplementary groups as they were at connect; there may be 65,536 of them. */
static int read_groups(struct peer *p)
{
	socklen_t n = 0;
	int r;

	if (getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n) < 0 && errno != ERANGE) {
		return -EPERM;
	}
	r = n > 0 ? buffer_reserve_exactly(&p->groups, n) : 0;
	if (r < 0) {
		return r;
	}
	if (n > 0 && getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, p->groups.data, &n) < 0) {
		return -EPERM;
	}
	p->credentials.groups = (const gid_t *)(const void *)p->groups.data;
	p->credentials.n_groups = n / sizeof(gid_t);
	return 0;
}

/* Who may act for other users must not be in a container, whose root takes any uid and group. A
 * look into /proc, so only for those to whom it matters. */
static void find_place(struct peer *p)
{
	struct credentials *c = &p->credentials;

	if (!c->of_machine && policy_names_operator(&p->front->config.policy, c)) {
		c->of_machine = proc_peer_is_of_this_machine(p->fd, c->pid);
	}
}

void peer_forget_groups(struct peer *p)
{
	buffer_deinit(&p->groups);
	p->credentials.groups = NULL;
	p->credentials.n_groups = 0;
}

/* A peer whose groups cannot be read is refused and told why. */
static void refuse_groups(struct peer *p, int why)
{
	struct refusal r;

	if (why == -EDQUOT) {
		account_refuse(p->account, &r);
	} else {
		refusal_set(&r, GPUCTR_E_NOT_ALLOWED, "Try again in a moment.",
			    "your groups could not be read: %s", strerror(-why));
	}
	refuse_and_close(p, &r);
}

int peer_open(struct front *f, int fd, const struct credentials *credentials,
	      struct account *account)
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
	list_init(&p->waiting_link);
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
	update_poll(p);
	r = read_groups(p);
	if (r < 0) {
		refuse_groups(p, r);
	} else {
		find_place(p);
	}
	return 0;
}
