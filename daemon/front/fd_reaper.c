/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/fd_reaper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/list.h"
#include "daemon/base/log.h"

/* Two kinds of descriptors can hang a thread:
 *
 * A connection with descriptors in it that nobody has received. Closing the connection drops the
 * last references to these descriptors; for a lingering socket that waits for its unsent data,
 * until a signal interrupts it (observed on Linux 6.18: three sockets that linger for 5 s each are
 * gone 2 ms after a SIGUSR1). So a thread that closes something gets a signal, the kick, every
 * FD_REAPER_KICK_MS, and each connection that a user fills with such sockets costs a thread about
 * that time.
 *
 * A descriptor that was received. Its close(2) also flushes the file, and a file system in user
 * space may never answer the flush, whatever signal comes. The thread then hangs until the user's
 * file system answers. So each user occupies at most one thread while the user's other descriptors
 * wait, and half of the threads never take such descriptors. When FD_REAPER_RECEIVED users hang one
 * thread each, all received descriptors wait; connections of other users are closed all the same.
 * The caller decides how many may wait: see descriptors.c.
 *
 * The pool has a thread for each closer, and nothing else in the front uses the pool, so a closer
 * begins at once. The loop makes all decisions. A waiting descriptor uses the slot with its number,
 * so handing one over allocates nothing. */

enum {
	FD_REAPERS = 16,
	FD_REAPER_RECEIVED = FD_REAPERS / 2,
	FD_REAPER_BATCH = 64,
	FD_REAPER_ROOM_MIN = 1024,
	FD_REAPER_ROOM_MAX = 1 << 20,
	FD_REAPER_KICK_MS = 2,
};

struct slot {
	struct list link;
	struct closing c;
};

struct closer {
	uv_work_t work;
	struct closing batch[FD_REAPER_BATCH]; /* all of one kind and one user */
	size_t n;			       /* 0: nothing to do */
	pthread_t thread;
	atomic_bool runs; /* the thread has stored its id */
};

static struct {
	fd_reaper_done done;
	void *userdata;
	uv_loop_t *loop;
	uv_timer_t kick; /* runs while descriptors are being closed */
	struct list waiting;
	struct closer closers[FD_REAPERS];
	struct slot *slots; /* by descriptor */
	size_t room, n;
} all;

/* --- what a thread does --- */

static void close_batch(uv_work_t *work)
{
	struct closer *closer = work->data;

	closer->thread = pthread_self();
	atomic_store(&closer->runs, true);
	for (size_t i = 0; i < closer->n; i++) {
		close(closer->batch[i].fd);
	}
}

/* --- who gets what --- */

/* May a closer take this? */
static bool is_allowed(const struct closing *c)
{
	unsigned n = 0;

	for (size_t i = 0; i < FD_REAPERS; i++) {
		const struct closer *closer = &all.closers[i];

		if (closer->n > 0 && closer->batch[0].uid == c->uid) {
			return false;
		}
		n += closer->n > 0 && closer->batch[0].kind == CLOSING_RECEIVED;
	}
	return c->kind == CLOSING_CONNECTION || n < FD_REAPER_RECEIVED;
}

static const struct closing *find_work(void)
{
	list_for_each(l, &all.waiting) {
		const struct slot *s = list_entry(l, struct slot, link);

		if (is_allowed(&s->c)) {
			return &s->c;
		}
	}
	return NULL;
}

static void take_work(struct closer *closer, const struct closing *first)
{
	list_for_each_safe(l, &all.waiting) {
		const struct closing *c = &list_entry(l, struct slot, link)->c;

		if (closer->n < FD_REAPER_BATCH && c->uid == first->uid && c->kind == first->kind) {
			list_remove(l);
			closer->batch[closer->n++] = *c;
		}
	}
}

static void on_closed(uv_work_t *work, int status);

/* A signal may come just before the thread enters the call that hangs, so it is repeated. */
static void on_kick(uv_timer_t *t)
{
	for (size_t i = 0; i < FD_REAPERS; i++) {
		if (all.closers[i].n > 0 && atomic_load(&all.closers[i].runs)) {
			pthread_kill(all.closers[i].thread, SIGUSR1);
		}
	}
	if (all.n == 0) {
		uv_timer_stop(t);
	}
}

static void give_work(void)
{
	for (size_t i = 0; i < FD_REAPERS; i++) {
		struct closer *closer = &all.closers[i];
		const struct closing *first = closer->n == 0 ? find_work() : NULL;

		if (first) {
			take_work(closer, first);
			atomic_store(&closer->runs, false);
			uv_queue_work(all.loop, &closer->work, close_batch, on_closed);
		} else if (closer->n == 0) {
			break; /* then no closer is free for other kinds either */
		}
	}
	if (all.n > 0 && !uv_is_active((uv_handle_t *)&all.kick)) {
		uv_timer_start(&all.kick, on_kick, FD_REAPER_KICK_MS, FD_REAPER_KICK_MS);
	}
}

static void on_closed(uv_work_t *work, int status)
{
	struct closer *closer = work->data;

	for (size_t i = 0; i < closer->n; i++) {
		all.done(&closer->batch[i], all.userdata);
	}
	all.n -= closer->n;
	closer->n = 0;
	give_work();
}

void fd_reaper_close(const struct closing *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct slot *s = &all.slots[c[i].fd];

		s->c = c[i];
		list_append(&all.waiting, &s->link);
	}
	all.n += n;
	give_work();
}

size_t fd_reaper_count(void)
{
	return all.n;
}

/* --- start --- */

/* The signal only has to interrupt a system call. */
static void on_signal(int signo)
{
}

static int make_slots(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0) {
		return -errno;
	}
	if (l.rlim_cur < FD_REAPER_ROOM_MIN) {
		log_error("%llu descriptors are too few (ulimit -n): %d are needed",
			  (unsigned long long)l.rlim_cur, FD_REAPER_ROOM_MIN);
		return -EMFILE;
	}
	if (l.rlim_cur > FD_REAPER_ROOM_MAX) {
		l.rlim_cur = FD_REAPER_ROOM_MAX;
		if (setrlimit(RLIMIT_NOFILE, &l) < 0) {
			return -errno;
		}
	}
	all.room = l.rlim_cur;
	all.slots = calloc(all.room,
			   sizeof(*all.slots)); /* a page of this takes memory once it is used */
	return all.slots ? 0 : -ENOMEM;
}

static void do_nothing(uv_work_t *work)
{
}

/* libuv starts all threads of its pool at the first work item, and waits until they run. */
static int start_pool(void)
{
	uv_work_t work;
	uv_loop_t loop;
	char text[8];
	int r = uv_loop_init(&loop);

	if (r < 0) {
		return r;
	}
	snprintf(text, sizeof(text), "%d", FD_REAPERS);
	setenv("UV_THREADPOOL_SIZE", text, 1);
	uv_queue_work(&loop, &work, do_nothing, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

int fd_reaper_start(void)
{
	const struct sigaction interrupt = { .sa_handler = on_signal };
	int r = sigaction(SIGUSR1, &interrupt, NULL) < 0 ? -errno : make_slots();

	return r < 0 ? r : start_pool();
}

size_t fd_reaper_room(void)
{
	return all.room;
}

int fd_reaper_init(uv_loop_t *loop, fd_reaper_done done, void *userdata)
{
	all.loop = loop;
	all.done = done;
	all.userdata = userdata;
	list_init(&all.waiting);
	for (size_t i = 0; i < FD_REAPERS; i++) {
		all.closers[i].work.data = &all.closers[i];
	}
	return uv_timer_init(loop, &all.kick);
}
