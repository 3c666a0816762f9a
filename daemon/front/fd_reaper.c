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

#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "daemon/base/log.h"

/* Two kinds of descriptors can hang a thread:
 *
 * A connection with descriptors in it that nobody has received. Only the last reference of these is
 * dropped, which waits for the unsent data of a lingering socket and ends when a signal comes
 * (observed on Linux 6.18: three sockets that linger for 5 s each are gone 2 ms after a SIGUSR1).
 * So a thread that has been at one connection for FD_REAPER_PATIENCE_NS gets a signal, a kick, and
 * each connection that a user fills in that way costs a thread about a millisecond of waiting.
 *
 * A descriptor that was received. Its close(2) also flushes the file, and a file system in user
 * space may never answer that, whatever signal comes. The thread is then lost until the user gives
 * in. So each user hangs one thread at most while the user's other descriptors wait, and half of
 * the threads never take such descriptors. When FD_REAPER_RECEIVED users hang one thread each, all
 * received descriptors wait; connections are closed all the same. The caller decides how many may
 * wait: see descriptors.c.
 *
 * The pool has a thread for each closer, and nothing else in the front uses the pool, so what is
 * given to a closer begins at once. All that follows is decided on the loop. A descriptor that
 * waits has the slot of its number, so handing one over allocates nothing. */

enum {
	FD_REAPERS = 16,
	FD_REAPER_RECEIVED = FD_REAPERS / 2,
	FD_REAPER_BATCH = 64,
	FD_REAPER_ROOM_MIN = 1024,
	FD_REAPER_ROOM_MAX = 1 << 20,
	FD_REAPER_LOOK_MS = 1,
};

#define FD_REAPER_PATIENCE_NS CLOCK_NS_PER_MS

struct slot {
	struct list link;
	struct closing c;
};

struct closer {
	uv_work_t work;
	struct closing batch[FD_REAPER_BATCH]; /* of one kind and one user */
	size_t n;			       /* 0: it has nothing to do */
	pthread_t thread;		       /* known once since_ns is not 0 */
	_Atomic uint64_t since_ns;	       /* when it began the present descriptor */
	uint64_t seen_ns, kick_ns; /* the last since_ns that was seen, and the time of the next
				      kick */
};

static struct {
	fd_reaper_done done;
	void *userdata;
	uv_loop_t *loop;
	uv_timer_t look; /* runs while descriptors are being closed */
	struct list waiting[CLOSING_KINDS];
	struct closer closers[FD_REAPERS];
	struct slot *slots; /* by descriptor */
	size_t room, n;
} all;

/* --- what a thread does --- */

static void close_batch(uv_work_t *work)
{
	struct closer *closer = work->data;

	closer->thread = pthread_self();
	for (size_t i = 0; i < closer->n; i++) {
		atomic_store(&closer->since_ns, clock_now_ns());
		close(closer->batch[i].fd);
	}
}

/* --- who gets what --- */

/* May a closer take this one, which was received? */
static bool is_allowed(const struct closing *c)
{
	unsigned n = 0;

	for (size_t i = 0; i < FD_REAPERS; i++) {
		const struct closer *closer = &all.closers[i];

		if (closer->n > 0 && closer->batch[0].kind == CLOSING_RECEIVED) {
			if (closer->batch[0].uid == c->uid) {
				return false;
			}
			n++;
		}
	}
	return n < FD_REAPER_RECEIVED;
}

static struct slot *find_work(void)
{
	struct list *connections = &all.waiting[CLOSING_CONNECTION];

	list_for_each(l, &all.waiting[CLOSING_RECEIVED]) {
		struct slot *s = list_entry(l, struct slot, link);

		if (is_allowed(&s->c)) {
			return s;
		}
	}
	return list_is_empty(connections) ? NULL : list_entry(connections->next, struct slot, link);
}

/* Takes one connection, because the next one may be another user's; or up to FD_REAPER_BATCH
 * received descriptors of one user. */
static void take_work(struct closer *closer, const struct slot *first)
{
	size_t most = first->c.kind == CLOSING_CONNECTION ? 1 : FD_REAPER_BATCH;
	uid_t uid = first->c.uid;

	list_for_each_safe(l, &all.waiting[first->c.kind]) {
		const struct slot *s = list_entry(l, struct slot, link);

		if (closer->n < most && s->c.uid == uid) {
			list_remove(l);
			closer->batch[closer->n++] = s->c;
		}
	}
}

static void on_closed(uv_work_t *work, int status);
static void on_look(uv_timer_t *t);

static void give_work(void)
{
	for (size_t i = 0; i < FD_REAPERS; i++) {
		struct closer *closer = &all.closers[i];
		const struct slot *s = closer->n == 0 ? find_work() : NULL;

		if (s) {
			take_work(closer, s);
			atomic_store(&closer->since_ns, 0);
			uv_queue_work(all.loop, &closer->work, close_batch, on_closed);
		} else if (closer->n == 0) {
			break; /* there is none for others either */
		}
	}
	/* A closer that has waited for long has put the next look off. The time of a look that is
	 * near stays, because a flood of descriptors would put the look off for ever. */
	if (all.n > 0 && (!uv_is_active((uv_handle_t *)&all.look) ||
			  uv_timer_get_due_in(&all.look) > FD_REAPER_LOOK_MS)) {
		uv_timer_start(&all.look, on_look, FD_REAPER_LOOK_MS, 0);
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
		list_append(&all.waiting[c[i].kind], &s->link);
	}
	all.n += n;
	give_work();
}

size_t fd_reaper_count(void)
{
	return all.n;
}

/* --- kicks --- */

/* A signal may come just before the thread enters the call that hangs, so it is repeated, after
 * twice the time each time. */
static void kick_if_late(struct closer *c, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load(&c->since_ns);

	if (since_ns != c->seen_ns) {
		c->seen_ns = since_ns;
		c->kick_ns = since_ns + FD_REAPER_PATIENCE_NS;
	}
	if (since_ns != 0 && now_ns >= c->kick_ns) {
		pthread_kill(c->thread, SIGUSR1);
		c->kick_ns = now_ns + (now_ns - since_ns);
	}
}

static void on_look(uv_timer_t *t)
{
	uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;

	for (size_t i = 0; i < FD_REAPERS; i++) {
		struct closer *c = &all.closers[i];

		if (c->n > 0) {
			kick_if_late(c, now_ns);
			next_ns = c->kick_ns < next_ns ? c->kick_ns : next_ns;
		}
	}
	if (next_ns != UINT64_MAX) {
		uv_timer_start(t, on_look,
			       (next_ns > now_ns ? next_ns - now_ns : 0) / CLOCK_NS_PER_MS + 1, 0);
	}
}

/* --- start --- */

/* The signal only has to interrupt a system call. */
static void on_kick(int signo)
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
			   sizeof(*all.slots)); /* a page of it costs memory once it is used */
	return all.slots ? 0 : -ENOMEM;
}

static void do_nothing(uv_work_t *work)
{
}

/* libuv starts all threads of its pool with the first work, and waits until they run. */
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
	const struct sigaction interrupt = { .sa_handler = on_kick };
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
	for (size_t i = 0; i < CLOSING_KINDS; i++) {
		list_init(&all.waiting[i]);
	}
	for (size_t i = 0; i < FD_REAPERS; i++) {
		all.closers[i].work.data = &all.closers[i];
	}
	return uv_timer_init(loop, &all.look);
}
