/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/granter.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/closer.h"
#include "proto/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/granter/thread.h"
#include "daemon/granter/leases.h"
#include "proto/nvidia/rm.h"

/* The only process that has the driver open its counters. It checks every statement of the front
 * that it can check itself. A lease belongs to one uid and covers GPUs, compared by their names,
 * that no other lease covers. Only allocations of one class reach the driver, for an RM client of
 * the caller's own file, or for the whole device if the lease was opened for that, and only below a
 * subdevice of a GPU of the lease (call.c).
 *
 * For every object the granter keeps a duplicate of the caller's descriptor, because only the file
 * on which an RM client was made can free the object again. A kept descriptor also keeps a dead
 * process's GPU memory, so the granter watches the process (callers.c). When the process has ended,
 * the granter frees its objects and closes the descriptors; without the free an object would stay
 * for any other process that shares the file, a parent for example.
 *
 * While the front runs, only the front ends a lease. When it exits or is silent for fifteen seconds
 * (it pings every five), the granter frees every object and exits: no lease outlives the front that
 * is responsible for it. While the front does not read its replies, the granter reads nothing from
 * it, so that no send waits, and the front counts as silent.
 *
 * This thread checks, decides and watches the time, and makes no call that can block. The threads
 * (thread.c) call the driver, one thread for each lease (leases.c). */

struct granter {
	int link;
	bool crowded; /* the front has to read many replies before the granter reads from it */
	uint64_t period_ns; /* end of the present period of GRANTER_SILENCE_NS */
	unsigned silences;  /* number of periods before it without a packet of the front */
	struct leases leases;
	struct pollfd polls[2 + CALLERS];
	struct caller *polled[2 + CALLERS]; /* caller of each entry of polls */
};

static int handle_open(struct granter *g, const struct granter_request *q)
{
	if (q->lease == 0 || q->gpus == 0 || q->device > 1) {
		return -EINVAL;
	}
	return lease_open(&g->leases, q);
}

/* The driver replaces a 0 by a number of its choice, which the granter would not know and could not
 * free. */
static bool has_all_numbers(const struct granter_request *q)
{
	return q->root != 0 && q->parent != 0 && q->object != 0;
}

/* Only the driver knows whether the asking client was made on this file, and which GPU its numbers
 * mean: the thread asks it. The target may be another client of the same process, as CUPTI's is. */
static int validate_alloc(const struct lease *l, const struct granter_request *q, int fd)
{
	if (!l || l->uid != q->uid) {
		return -ENOENT;
	}
	if (!has_all_numbers(q)) {
		return -EINVAL;
	}
	/* Two zeros mean the whole device. */
	if (q->object_class != RM_CLASS_PROFILER_DEVICE ||
	    (q->client_target == 0 && (q->context_target != 0 || !l->device))) {
		return -EPERM;
	}
	return fd >= 0 && rm_is_control_device(fd) ? 0 : -EBADF;
}

static int handle_alloc(struct granter *g, const struct granter_request *q, int *fd)
{
	struct lease *l = lease_find(&g->leases, q->lease);
	int r = validate_alloc(l, q, *fd);

	return r < 0 ? r : lease_ask(&g->leases, l, q, fd);
}

/* Returns the error for the answer. With 0 and *ret_answered false, the answer comes later. */
static int handle_request(struct granter *g, const struct granter_request *q, int *fd,
			  bool *ret_answered)
{
	if (q->op != GRANTER_ALLOC && *fd >= 0) {
		return -EINVAL;
	}
	switch (q->op) {
	case GRANTER_OPEN:
		*ret_answered = false;
		return handle_open(g, q);
	case GRANTER_CLOSE:
		*ret_answered = false;
		return lease_close(&g->leases, q);
	case GRANTER_ALLOC:
		*ret_answered = false;
		return handle_alloc(g, q, fd);
	case GRANTER_PING:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* --- a silent front --- */

static void begin_period(struct granter *g, unsigned silences)
{
	g->silences = silences;
	g->period_ns = clock_now_ns() + GRANTER_SILENCE_NS;
}

/* -ETIMEDOUT: the front has been silent for too long. Without a lease the granter does not wake up
 * for that. */
static int listen_to_front(struct granter *g)
{
	if (clock_now_ns() >= g->period_ns) {
		begin_period(g, g->silences + 1);
	}
	return g->silences >= GRANTER_SILENCES ? -ETIMEDOUT : 0;
}

/* --- the loop --- */

/* Anything malformed is fatal: the front is our own code, so a malformed packet means that it is no
 * longer ours. Descriptors that could not be received, or were too many, are not fatal: only their
 * own request fails, and leases of others go on. */
static int serve_one(struct granter *g)
{
	struct granter_request q;
	CLEAN_FD int fd = -1;
	ssize_t n = fdpass_receive(g->link, &q, sizeof(q), &fd, MSG_DONTWAIT);
	bool answered = true;
	int r = 0;

	if (n == -EAGAIN) {
		return 0; /* the front has only read replies */
	}
	if (n == -EBADMSG) { /* the descriptors could not be received; the packet is whole */
		r = -EBADMSG;
		n = sizeof(q);
	}
	if (n <= 0) {
		return n < 0 ? (int)n : -EPIPE;
	}
	if (n != (ssize_t)sizeof(q) || q.size != sizeof(q)) {
		return -EPROTO;
	}
	begin_period(g, 0);
	if (r == 0) {
		r = handle_request(g, &q, &fd, &answered);
	}
	closer_close(TAKE_FD(fd));
	if (answered || r < 0) {
		outbox_say(&g->leases.outbox,
			   &(struct granter_reply){
				   .op = q.op, .id = q.id, .lease = q.lease, .error = r });
	}
	return 0;
}

/* Rounded up, so that poll() never wakes too early. */
static int next_timeout_ms(const struct granter *g)
{
	uint64_t now = clock_now_ns(), next = leases_next_ns(&g->leases);

	if (leases_are_wanted(&g->leases) && g->period_ns < next) {
		next = g->period_ns;
	}
	if (next == UINT64_MAX) {
		return -1;
	}
	return next <= now ? 0 : (int)((next - now) / CLOCK_NS_PER_MS) + 1;
}

static nfds_t fill_polls(struct granter *g)
{
	nfds_t n = 0;

	g->polls[n++] = (struct pollfd){ g->link, g->crowded ? POLLOUT : POLLIN, 0 };
	g->polls[n++] = (struct pollfd){ threads_fd(), POLLIN, 0 };
	list_for_each(i, &g->leases.callers.watched) {
		struct caller *p = list_entry(i, struct caller, link);

		g->polled[n] = p;
		g->polls[n++] = (struct pollfd){ p->pidfd, POLLIN, 0 };
	}
	return n;
}

/* Waits for whatever comes first and handles it, except requests of the front. */
static int wait_once(struct granter *g)
{
	nfds_t n = fill_polls(g);

	if (poll(g->polls, n, next_timeout_ms(g)) < 0) {
		g->polls[0].revents = 0;
		return errno == EINTR ? 0 : -errno;
	}
	for (nfds_t i = 2; i < n; i++) {
		if (g->polls[i].revents != 0) {
			leases_forget_caller(&g->leases, g->polled[i]);
		}
	}
	if (g->polls[1].revents != 0) {
		leases_collect(&g->leases);
	}
	return 0;
}

/* Linux reports a Unix socket as writable while at most a quarter of its buffer is in use. The
 * replies of the leases usually fit into the rest. */
static bool has_room(int link)
{
	struct pollfd p = { link, POLLOUT, 0 };

	return poll(&p, 1, 0) != 0;
}

static int run_once(struct granter *g)
{
	struct outbox *o = &g->leases.outbox;
	int r = wait_once(g);

	if (r == 0 && g->polls[0].revents != 0) {
		outbox_flush(o);
		g->crowded = !outbox_is_empty(o) || !has_room(g->link);
		r = g->crowded ? 0 : serve_one(g);
	}
	if (r == 0) {
		r = listen_to_front(g);
	}
	if (r == 0) {
		leases_tick(&g->leases, clock_now_ns());
		g->crowded = g->crowded || !outbox_is_empty(o);
		r = o->error;
	}
	return r;
}

/* The front is gone or silent: frees everything, except where the driver hangs. */
static void end(struct granter *g)
{
	int r = 0;

	g->leases.outbox.error = -EPIPE;
	g->link = -1;
	leases_end_all(&g->leases);
	leases_collect(&g->leases); /* the driver may have answered by now */
	while (r == 0 && leases_are_ending(&g->leases)) {
		r = wait_once(g);
		leases_tick(&g->leases, clock_now_ns());
	}
}

int granter_run(int link)
{
	static struct granter g;
	int r;

	g.link = link;
	g.crowded = false;
	begin_period(&g, 0);
	leases_init(&g.leases, link);
	do {
		r = run_once(&g);
	} while (r == 0);
	if (r == -ETIMEDOUT) {
		log_error("the front says nothing: every lease is over");
	}
	end(&g);
	if (r != -EPIPE && r != -ECONNRESET) {
		log_error("stopped: %s", strerror(-r));
		return 1;
	}
	return 0;
}
