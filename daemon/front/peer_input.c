/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <endian.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/front.h"

/* While a user has much data waiting, the front reads only one of the user's connections at a time,
 * up to the end of a frame. Otherwise incomplete frames could fill the account, and none could be
 * completed. A connection that does not complete its frame while other connections of the user wait
 * is closed. If none waits, a frame may take PEER_HALF_S, since Ctrl-Z may have stopped its sender;
 * but not while all users together have much data waiting, because any number of users might hold
 * an incomplete frame.
 *
 * A turn is one read, within the user's share of the round's time, so one busy peer cannot starve
 * the others. A peer that stops reading fills only its own queue. Long before the account is full,
 * the front pauses the agents that fill the queue, each before it is read, and a client that asks
 * without reading the answers. Output that comes anyway, such as long answers of the planner, ends
 * the connection when the account is full. */

enum { PEER_BITE_BYTES = 32 * 1024 }; /* largest read while the user has much waiting */

/* --- frames --- */

static void refuse_frame(struct peer *p, const char *what)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_PROTOCOL, "Use a client or agent of this daemon's version.", "%s",
		    what);
	peer_refuse_and_close(p, &r);
}

static void handle_frame(struct peer *p, const struct frame *f)
{
	int r = p->front->hooks->on_frame(p, f);

	if (r > 0 && !p->closing) {
		refuse_frame(p, r == WIRE_E_UNKNOWN ? "the message is unknown or not allowed here"
						    : "the message is malformed");
	} else if (r < 0) {
		peer_close(p);
	} else if (p->role == PEER_CLIENT && p->out.bytes > PEER_OUT_HIGH_BYTES) {
		peer_pause(p);
	}
}

static bool takes_frames(const struct peer *p)
{
	return !p->closing && !p->close_when_sent && !p->paused;
}

/* Handles whole frames until a handler pauses or closes the peer, or the round's time is over; at
 * least one. The rest waits for another round. Returns the number of handled bytes. */
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
			peer_enqueue(p);
			break;
		}
		handle_frame(p, &f);
		done += FRAME_HEADER_BYTES + f.size;
	}
	return done;
}

/* Keeps the unhandled rest. The buffer grows with the frame, and not beyond it. */
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

/* Returns the number of handled bytes. */
static size_t handle_kept(struct peer *p, uint64_t until_ns)
{
	size_t done = handle_frames(p, p->in.data + p->in.start, buffer_length(&p->in), until_ns);

	if (p->closing) {
		return done;
	}
	if (done > 0) {
		peer_stop_being_reader(p);
		p->half_ns = 0;
	}
	p->in.start += done;
	if (buffer_length(&p->in) == 0) {
		buffer_deinit(&p->in);
	}
	return done;
}

static void handle_received(struct peer *p, const uint8_t *data, size_t bytes, uint64_t until_ns)
{
	bool whole = buffer_length(&p->in) == 0;
	size_t done = whole ? handle_frames(p, data, bytes, until_ns) : 0;
	struct refusal r;

	if (p->closing || p->close_when_sent) {
		return; /* further input is discarded */
	}
	if (done > 0) {
		peer_stop_being_reader(p);
		p->half_ns = 0;
	}
	if (done < bytes && keep(p, data + done, bytes - done) < 0) {
		account_refuse(p->account, &r);
		peer_refuse_and_close(p, &r);
	} else if (!whole) {
		handle_kept(p, until_ns);
	}
}

/* A peer may send one descriptor at a time. False: there were more, which went to the reaper. */
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
		peer_refuse_and_close(p, &r);
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

/* --- turns --- */

/* Handles or reads p's input; may close p. */
static void work(struct peer *p, uint64_t until_ns)
{
	if (p->front->hooks->hold_back(p)) {
		peer_pause(p);
	} else if (!p->paused && handle_kept(p, until_ns) == 0 && !p->closing) {
		read_some(p, until_ns);
	}
	peer_note_half(p);
	if (!p->closing && (p->paused || buffer_length(&p->in) == 0)) {
		peer_stop_being_reader(p);
	}
	peer_update_poll(p);
}

/* The first ready connection that may work now; NULL: none. */
static struct peer *find_ready(const struct account *a)
{
	list_for_each(l, (struct list *)(uintptr_t)&a->ready) {
		struct peer *p = list_entry(l, struct peer, ready_link);

		if (descriptors_may_receive(p->front, p->role != PEER_NEW) &&
		    (!account_is_high(a) || !a->reader || a->reader == p)) {
			return p;
		}
	}
	return NULL;
}

static void run_account(struct front *f, struct account *a)
{
	uint64_t until_ns = clock_now_ns() + ACCOUNT_ROUND_US * UINT64_C(1000);
	struct peer *p;

	account_ref(a);
	while ((p = find_ready(a)) != NULL && clock_now_ns() < until_ns) {
		list_remove(&p->ready_link);
		if (account_is_high(a) && !a->reader) {
			a->reader = p;
			a->reader_since_ns = clock_now_ns();
		}
		work(p, until_ns);
	}
	if (p) {
		peers_wake(f, a);
	} else if (!list_is_empty(&a->ready)) {
		front_arm_tick(f); /* others hold the memory that these wait for */
	}
	account_unref(a);
}

void peers_on_run(uv_idle_t *h)
{
	struct front *f = h->data;
	struct list turn;

	list_init(&turn);
	while (!list_is_empty(&f->running)) {
		struct list *l = f->running.next;

		list_remove(l);
		list_append(&turn, l);
	}
	while (!list_is_empty(&turn)) {
		struct account *a = list_entry(turn.next, struct account, run_link);

		list_remove(&a->run_link);
		run_account(f, a);
	}
	if (list_is_empty(&f->running)) {
		uv_idle_stop(h);
	}
}
