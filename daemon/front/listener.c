/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/listener.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/peer.h"
#include "daemon/front/proc.h"

/* Identity is taken once, from the kernel, at accept: SO_PEERCRED for uid and pid as they were at
 * connect, and for root whether it is this machine's, which alone has no quota. The peer adds the
 * supplementary groups, and looks where an operator is. A peer whose identity cannot be read is
 * refused. A connection is charged to its user before anything else is decided, even when it is
 * refused. When descriptors run out, accepting pauses for a second instead of spinning. */

enum {
	LISTENER_PAUSE_MS = 1000,
	LISTENER_MOMENT_MS = 5,
	LISTENER_BURST = 8,
	LISTENER_OF_ROOT = 16, /* connections that are left to root of the machine */
};

static int read_credentials(int fd, struct credentials *c)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	*c = (struct credentials){ 0 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) < 0 || n != sizeof(u)) {
		return -EPERM;
	}
	c->uid = u.uid;
	c->gid = u.gid;
	c->pid = u.pid;
	c->host_root = u.uid == 0 && proc_peer_is_of_this_host(fd, u.pid);
	c->of_host = c->host_root;
	return 0;
}

static void refuse(int fd, struct front *f, const char *message)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { 0, GPUCTR_E_QUOTA, message,
			     "Close some first, or ask for a higher limit." },
	};
	struct buffer b = { 0 };

	stats_note_refusal(&f->stats, GPUCTR_E_QUOTA);
	if (wire_encode(&f->scratch, &b, &m) == 0 &&
	    send(fd, b.data + b.start, buffer_length(&b), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		log_debug("a refused peer did not hear why");
	}
	arena_reset(&f->scratch);
	buffer_deinit(&b);
}

/* Out-of-band bytes are kept in the stream. The kernel would otherwise drop the ones it finds in
 * the way of others, and close what came with them, in the middle of recvmsg() (observed on Linux
 * 6.18). */
static int keep_in_band(int fd)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

/* The most connections of all users; programs in standby have a limit of their own. Any number of
 * users may be allowed to measure, so some connections are reserved for root of the machine, who
 * looks after them. */
static unsigned connections_max(const struct front *f, const struct credentials *c)
{
	return f->config.connections_max + (unsigned)f->processes.n_registered +
	       (c->host_root ? LISTENER_OF_ROOT : 0);
}

/* True: a peer owns the connection now. */
static bool admit(struct front *f, int fd, const struct credentials *c, struct account *a)
{
	if (f->n_peers >= connections_max(f, c)) {
		refuse(fd, f, "the daemon has as many connections as it takes");
	} else if (!c->host_root &&
		   a->connections > f->config.connections_per_user + a->registered) {
		refuse(fd, f, "you have as many connections as a user may");
	} else if (peer_open(f, fd, c, a) < 0) {
		log_warning("a connection could not be taken");
	} else {
		f->stats.connections++;
		return true;
	}
	return false;
}

static void take(struct front *f, int fd)
{
	struct account *a = NULL;
	struct credentials c;
	bool known = keep_in_band(fd) == 0 && read_credentials(fd, &c) == 0 &&
		     (a = account_of(&f->accounts, policy_user(c.uid, c.host_root))) != NULL;

	descriptors_add_connection(f, a);
	if (!known || !admit(f, fd, &c, a)) {
		descriptors_close_connection(f, a, fd);
	}
	account_unref(a);
}

static void on_poll(uv_poll_t *h, int status, int events);

static void on_pause_over(uv_timer_t *t)
{
	struct listener *l = t->data;

	uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static void pause_for(struct listener *l, uint64_t ms)
{
	uv_poll_stop(&l->poll);
	uv_timer_start(&l->pause, on_pause_over, ms, 0);
}

/* Descriptors that are being closed make room in a moment. */
static bool has_room(struct listener *l)
{
	if (descriptors_may_accept(l->front)) {
		return true;
	}
	if (fd_reaper_count() > 0) {
		pause_for(l, LISTENER_MOMENT_MS);
	} else {
		log_warning("out of descriptors: not accepting for a second");
		pause_for(l, LISTENER_PAUSE_MS);
	}
	return false;
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct listener *l = h->data;

	for (int i = 0; i < LISTENER_BURST && has_room(l); i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			take(l->front, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_warning("out of descriptors: not accepting for a second");
			pause_for(l, LISTENER_PAUSE_MS);
		}
		if (errno != ECONNABORTED && errno != EINTR) {
			return;
		}
	}
}

int listener_open(struct listener *l, struct front *f, int fd)
{
	int r;

	l->front = f;
	l->fd = fd;
	l->poll.data = l->pause.data = l;
	uv_timer_init(&f->loop, &l->pause);
	r = uv_poll_init(&f->loop, &l->poll, fd);
	return r < 0 ? r : uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

void listener_close(struct listener *l)
{
	uv_poll_stop(&l->poll);
	uv_close((uv_handle_t *)&l->poll, NULL);
	uv_close((uv_handle_t *)&l->pause, NULL);
}
