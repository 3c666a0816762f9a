/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/closers.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "daemon/base/log.h"

/* The number of threads is fixed, since the front's filter lets it start none later. Two kinds of
 * descriptors can hang them:
 *
 * A connection with descriptors in it that nobody has received. Only the last reference of these is
 * dropped, which waits for the unsent data of a lingering socket and ends when a signal comes
 * (observed on Linux 6.18: three sockets that linger for 5 s each are gone 2 ms after a SIGUSR1).
 * So a thread that has been at one connection for CLOSERS_PATIENCE_NS gets a signal, a kick, and
 * each connection that a user fills in that way costs a thread about a millisecond of waiting.
 *
 * A descriptor that was received. Its close(2) also flushes the file, and a file system in user
 * space may never answer that, whatever signal comes. The thread is then lost until the user gives
 * in. So each user hangs one thread at most while the user's other descriptors wait, and half of
 * the threads never take such descriptors. When CLOSERS_RECEIVED users hang one thread each, all
 * received descriptors wait; connections are closed all the same. The caller decides how many may
 * wait: see descriptors.c.
 *
 * There are as many slots as descriptors, so handing one over allocates nothing. The front may have
 * to wait for the lock, so it is taken rarely: once for all that a message has brought, once for up
 * to CLOSERS_BATCH descriptors that a thread takes, and once for all that are done. */

enum {
	CLOSERS = 16,
	CLOSERS_RECEIVED = CLOSERS / 2,
	CLOSERS_BATCH = 64,
	CLOSERS_ROOM_MIN = 1024,
	CLOSERS_ROOM_MAX = 1 << 20,
};

#define CLOSERS_PATIENCE_NS CLOCK_NS_PER_MS

struct slot {
	struct list link;
	struct closing c;
};

struct closer {
	pthread_t thread;
	struct list work; /* of one kind and one user, taken by this thread; only the thread uses
			     the list while it works */
	bool busy;
	enum closing_kind kind;
	uid_t uid;
	_Atomic uint64_t since_ns; /* when it began the present descriptor */
	uint64_t seen_ns, kick_ns; /* the last since_ns that closers_kick() saw, and the time of the
				      next kick */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;
	sem_t running;
	struct list connections, received, done;
	unsigned n_received; /* threads that are closing received descriptors */
	struct closer closers[CLOSERS];
	int event;

	/* Used by the front's thread only, without the lock. */
	struct list taken, free;
	struct slot *slots;
	size_t room, n_used; /* slots from n_used on were never used */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER };

/* --- the threads, and what they do under the lock --- */

static bool is_at_some_of(uid_t uid)
{
	for (size_t i = 0; i < CLOSERS; i++) {
		const struct closer *c = &all.closers[i];

		if (c->busy && c->kind == CLOSING_RECEIVED && c->uid == uid) {
			return true;
		}
	}
	return false;
}

static struct slot *find_work(void)
{
	list_for_each(l, &all.received) {
		struct slot *s = list_entry(l, struct slot, link);

		if (all.n_received == CLOSERS_RECEIVED) {
			break;
		}
		if (!is_at_some_of(s->c.uid)) {
			return s;
		}
	}
	return list_is_empty(&all.connections)
		       ? NULL
		       : list_entry(all.connections.next, struct slot, link);
}

/* Takes one connection, because the next one may be another user's; or up to CLOSERS_BATCH received
 * descriptors of one user. */
static void take_work(struct closer *closer, struct slot *first)
{
	size_t n = 0;

	closer->busy = true;
	closer->kind = first->c.kind;
	closer->uid = first->c.uid;
	if (first->c.kind == CLOSING_CONNECTION) {
		list_remove(&first->link);
		list_append(&closer->work, &first->link);
		return;
	}
	all.n_received++;
	list_for_each_safe(l, &all.received) {
		if (list_entry(l, struct slot, link)->c.uid == closer->uid && n++ < CLOSERS_BATCH) {
			list_remove(l);
			list_append(&closer->work, l);
		}
	}
}

static void begin(struct closer *closer)
{
	struct slot *s;

	while ((s = find_work()) == NULL) {
		pthread_cond_wait(&all.work, &all.lock);
	}
	take_work(closer, s);
	atomic_store(&closer->since_ns, clock_now_ns());
}

static void finish(struct closer *closer)
{
	closer->busy = false;
	all.n_received -= closer->kind == CLOSING_RECEIVED;
	if (list_is_empty(&all.done)) {
		eventfd_write(all.event, 1);
	}
	list_for_each_safe(l, &closer->work) {
		list_remove(l);
		list_append(&all.done, l);
	}
}

static void *run(void *argument)
{
	struct closer *closer = argument;

	sem_post(&all.running);
	pthread_mutex_lock(&all.lock);
	for (;;) {
		begin(closer);
		pthread_mutex_unlock(&all.lock);
		list_for_each(l, &closer->work) {
			close(list_entry(l, struct slot, link)->c.fd);
			atomic_store(&closer->since_ns, clock_now_ns());
		}
		pthread_mutex_lock(&all.lock);
		finish(closer);
	}
	return NULL;
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
	if (l.rlim_cur < CLOSERS_ROOM_MIN) {
		log_error("%llu descriptors are too few (ulimit -n): %d are needed",
			  (unsigned long long)l.rlim_cur, CLOSERS_ROOM_MIN);
		return -EMFILE;
	}
	if (l.rlim_cur > CLOSERS_ROOM_MAX) {
		l.rlim_cur = CLOSERS_ROOM_MAX;
		if (setrlimit(RLIMIT_NOFILE, &l) < 0) {
			return -errno;
		}
	}
	all.room = l.rlim_cur;
	all.slots = calloc(all.room,
			   sizeof(*all.slots)); /* a page of it costs memory once it is used */
	return all.slots ? 0 : -ENOMEM;
}

static int start_threads(void)
{
	for (size_t i = 0; i < CLOSERS; i++) {
		struct closer *closer = &all.closers[i];
		int r;

		list_init(&closer->work);
		r = pthread_create(&closer->thread, NULL, run, closer);

		if (r != 0) {
			return -r;
		}
		/* Waits until the thread runs: starting one makes libc call what the filter may
		 * forbid a moment later. */
		while (sem_wait(&all.running) < 0 && errno == EINTR) {
		}
	}
	return 0;
}

int closers_start(void)
{
	const struct sigaction interrupt = { .sa_handler = on_kick };
	int r;

	list_init(&all.connections);
	list_init(&all.received);
	list_init(&all.done);
	list_init(&all.taken);
	list_init(&all.free);
	all.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all.event < 0 || sem_init(&all.running, 0, 0) < 0 ||
	    sigaction(SIGUSR1, &interrupt, NULL) < 0) {
		return -errno;
	}
	r = make_slots();
	return r < 0 ? r : start_threads();
}

/* --- the front's side --- */

size_t closers_room(void)
{
	return all.room;
}

int closers_fd(void)
{
	return all.event;
}

static struct slot *take_slot(void)
{
	struct slot *s;

	if (list_is_empty(&all.free)) {
		return &all.slots[all.n_used++];
	}
	s = list_entry(all.free.next, struct slot, link);
	list_remove(&s->link);
	return s;
}

void closers_close(const struct closing *c, size_t n)
{
	struct list given;

	list_init(&given);
	for (size_t i = 0; i < n; i++) {
		struct slot *s = take_slot();

		s->c = c[i];
		list_append(&given, &s->link);
	}
	pthread_mutex_lock(&all.lock);
	list_for_each_safe(l, &given) {
		bool received = list_entry(l, struct slot, link)->c.kind == CLOSING_RECEIVED;

		list_remove(l);
		list_append(received ? &all.received : &all.connections, l);
	}
	pthread_cond_signal(&all.work);
	pthread_mutex_unlock(&all.lock);
}

static void take_all_done(void)
{
	eventfd_t n;

	pthread_mutex_lock(&all.lock);
	if (list_is_empty(&all.done)) {
		eventfd_read(all.event, &n);
	}
	list_for_each_safe(l, &all.done) {
		list_remove(l);
		list_append(&all.taken, l);
	}
	pthread_mutex_unlock(&all.lock);
}

bool closers_take_done(struct closing *ret)
{
	struct slot *s;

	if (list_is_empty(&all.taken)) {
		take_all_done();
	}
	if (list_is_empty(&all.taken)) {
		return false;
	}
	s = list_entry(all.taken.next, struct slot, link);
	list_remove(&s->link);
	list_append(&all.free, &s->link);
	*ret = s->c;
	return true;
}

/* A signal may come just before the thread enters the call that hangs, so it is repeated, after
 * twice the time each time. */
static void kick_if_late(struct closer *c, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load(&c->since_ns);

	if (since_ns != c->seen_ns) {
		c->seen_ns = since_ns;
		c->kick_ns = since_ns + CLOSERS_PATIENCE_NS;
	}
	if (now_ns >= c->kick_ns) {
		pthread_kill(c->thread, SIGUSR1);
		c->kick_ns = now_ns + (now_ns - since_ns);
	}
}

uint64_t closers_kick(uint64_t now_ns)
{
	uint64_t next_ns = 0;

	pthread_mutex_lock(&all.lock);
	for (size_t i = 0; i < CLOSERS; i++) {
		struct closer *c = &all.closers[i];

		if (c->busy) {
			kick_if_late(c, now_ns);
			next_ns = next_ns == 0 || c->kick_ns < next_ns ? c->kick_ns : next_ns;
		}
	}
	pthread_mutex_unlock(&all.lock);
	return next_ns;
}
