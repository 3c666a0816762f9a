/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/front.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/front/admission.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/peer.h"
#include "daemon/front/proc.h"
#include "daemon/front/users.h"

/* The listener takes a peer's identity once, from the kernel, at accept: uid and pid at the time of
 * connect (SO_PEERCRED), and whether root is this machine's, which alone has no quota. It then adds
 * the supplementary groups and checks whether an operator is in a container. A peer whose identity
 * cannot be read is refused. The listener charges each connection to its user before it decides
 * anything else, even if it then refuses it. When descriptors run out, accepting pauses for a
 * second instead of spinning. */

enum {
	LISTENER_PAUSE_MS = 1000,
	LISTENER_MOMENT_MS = 5,
	LISTENER_BURST = 8,
	LISTENER_OF_ROOT = 16, /* connections reserved for root of the machine */
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

/* --- users whom the settings admit --- */

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

/* Users who may act for others must not be in a container, whose root can take any uid and group.
 * Reads /proc, so this is done only for such users. */
static void find_host(struct peer *p)
{
	struct credentials *c = &p->credentials;

	if (!c->of_host && policy_names_operator(&p->front->config.policy, c)) {
		c->of_host = proc_peer_is_of_this_host(p->fd, c->pid);
	}
}

/* Asks for the user's name now, so that it is known when it is shown. */
static void look_up_name(struct peer *p)
{
	char name[64];

	users_name(p->front->users, p->credentials.uid, name, sizeof(name));
	users_ask(p->front->users, p->front->control);
}

/* Uids are cheap (a container has any number), so users who may do nothing here are refused before
 * the front reads a byte from them. Unknown users, as many as somebody has subordinate uids, may
 * use at most half of the connections. */
static void admit_user(struct peer *p)
{
	const struct front *f = p->front;
	struct refusal r;

	if (admission_is_known(f, &p->credentials, &r)) {
		look_up_name(p);
		return;
	}
	if (admission_lets_in(f, &p->credentials, &r)) {
		if (f->n_peers <= f->config.connections_max / 2 + f->processes.n_registered) {
			look_up_name(p);
			return;
		}
		refusal_set(&r, GPUCTR_E_QUOTA, "Try again later.",
			    "the connections that are left are for users who may measure");
	}
	peer_turn_away(p, &r);
}

/* A peer whose groups cannot be read is refused with the reason. */
static void refuse_groups(struct peer *p, int why)
{
	struct refusal r;

	if (why == -EDQUOT) {
		account_refuse(p->account, &r);
	} else {
		refusal_set(&r, GPUCTR_E_NOT_ALLOWED, "Try again in a moment.",
			    "your groups could not be read: %s", strerror(-why));
	}
	peer_refuse_and_close(p, &r);
}

static void welcome(struct peer *p)
{
	int r = read_groups(p);

	if (r < 0) {
		refuse_groups(p, r);
	} else {
		find_host(p);
		admit_user(p);
	}
}

/* --- room for connections --- */

/* Out-of-band bytes are kept in the stream. The kernel would otherwise drop out-of-band bytes that
 * block other bytes, and close descriptors that came with them inside recvmsg() (observed on Linux
 * 6.18). */
static int keep_in_band(int fd)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

/* The most connections of all users; programs in standby have a limit of their own. Any number of
 * users may be allowed to measure, so some connections are reserved for root of the machine. */
static unsigned connections_max(const struct front *f, const struct credentials *c)
{
	return f->config.connections_max + (unsigned)f->processes.n_registered +
	       (c->host_root ? LISTENER_OF_ROOT : 0);
}

/* True: a peer owns the connection now. */
static bool admit(struct front *f, int fd, const struct credentials *c, struct account *a)
{
	struct peer *p;

	if (f->n_peers >= connections_max(f, c)) {
		refuse(fd, f, "the daemon has as many connections as it takes");
	} else if (!c->host_root &&
		   a->connections > f->config.connections_per_user + a->registered) {
		refuse(fd, f, "you have as many connections as a user may");
	} else if (peer_open(f, fd, c, a, &p) < 0) {
		log_warning("a connection could not be taken");
	} else {
		f->stats.connections++;
		welcome(p);
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

/* If false, accepting pauses, for a moment only when the reaper will soon make room. */
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
