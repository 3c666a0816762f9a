/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <stdlib.h>

#include "proto/base/clock.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/front.h"

/* libuv's own pipes accept only sockets as passed descriptors, so a peer polls its socket and reads
 * by recvmsg(), when there is room for descriptors, into memory that all peers share. Whole frames
 * are handled there. Only what is left over is copied, and the user's account pays for it, as for
 * output that is not read. So an idle peer holds no buffers, and the memory that a user can make
 * the daemon hold is bounded. See account.c.
 *
 * Here is what every part of the front does with a peer: it pauses, resumes or closes it. Above are
 * peer_output.c, which sends, peer_input.c, which reads, and peer_life.c, which opens a peer and
 * looks after its time. */

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

/* --- what its poll waits for --- */

void peer_update_poll(struct peer *p)
{
	bool reads = !p->paused && !peer_is_queued(p);
	bool writes = p->out.bytes > 0 || p->close_when_sent || (p->lists && !peer_is_queued(p));
	int events = (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0);

	if (p->closing || events == p->events) {
		return;
	}
	p->events = events;
	if (events == 0) {
		uv_poll_stop(&p->poll);
	} else if (uv_poll_start(&p->poll, events, p->front->hooks->on_peer_poll) < 0) {
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
	if (!p->paused || p->lists || p->closing) {
		return;
	}
	p->paused = false;
	peer_enqueue(p);
}

/* --- its end --- */

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
	struct peer *p = h->data;

	free(p);
}

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
	p->front->hooks->on_peer_closed(p);
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
