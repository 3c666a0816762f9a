/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/closers.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include "daemon/base/log.h"

/* A fixed number of threads, since the front's filter lets it make none later. What hangs them is
 * of two kinds:
 *
 * A connection with descriptors in it that nobody has received. Of these only the last reference is
 * dropped, which waits for the unsent data of a lingering socket and ends when a signal comes
 * (observed on Linux 6.18: three sockets that linger for 5 s each are gone 2 ms after a SIGUSR1).
 * So a thread that has been at one for CLOSERS_PATIENCE_NS is kicked, and however many connections
 * a user fills in that way, each costs a thread about a millisecond of waiting.
 *
 * A descriptor that was received. Its close(2) also flushes it, and a file system in user space may
 * answer that never, whatever signal comes. A thread that hangs in there is lost until the user
 * gives in, so each user hangs one thread at most, the others of theirs wait, and half of the
 * threads never take such a descriptor. When CLOSERS_RECEIVED users hang one each, everybody's
 * received descriptors wait; connections are closed all the same. How many may wait is up to the
 * caller: see descriptors.c.
 *
 * There are as many slots as descriptors, so handing one over allocates nothing. */

enum {
	CLOSERS = 16,
	CLOSERS_RECEIVED = CLOSERS / 2,
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
	const struct slot *at; /* NULL: waits for work */
	uint64_t since_ns, kick_ns;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;
	sem_t running;
	struct list connections, received, done, free;
	unsigned n_received; /* threads that are at one */
	struct closer closers[CLOSERS];
	struct slot *slots;
	size_t room, n_used; /* slots behind have never been */
	int event;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER };

/* --- the threads, and what they do under the lock --- */

static bool is_at_one_of(uid_t uid)
{
	for (size_t i = 0; i < CLOSERS; i++) {
		const struct slot *at = all.closers[i].at;

		if (at && at->c.kind == CLOSING_RECEIVED && at->c.uid == uid) {
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
		if (!is_at_one_of(s->c.uid)) {
			return s;
		}
	}
	return list_is_empty(&all.connections)
		       ? NULL
		       : list_entry(all.connections.next, struct slot, link);
}

static struct slot *begin(struct closer *closer)
{
	struct slot *s;

	while ((s = find_work()) == NULL) {
		pthread_cond_wait(&all.work, &all.lock);
	}
	list_remove(&s->link);
	all.n_received += s->c.kind == CLOSING_RECEIVED;
	closer->at = s;
	closer->since_ns = clock_now_ns();
	closer->kick_ns = closer->since_ns + CLOSERS_PATIENCE_NS;
	return s;
}

static void finish(struct closer *closer, struct slot *s)
{
	closer->at = NULL;
	all.n_received -= s->c.kind == CLOSING_RECEIVED;
	list_append(&all.done, &s->link);
	eventfd_write(all.event, 1);
}

static void *run(void *argument)
{
	struct closer *closer = argument;

	sem_post(&all.running);
	pthread_mutex_lock(&all.lock);
	for (;;) {
		struct slot *s = begin(closer);

		pthread_mutex_unlock(&all.lock);
		close(s->c.fd);
		pthread_mutex_lock(&all.lock);
		finish(closer, s);
	}
	return NULL;
}

/* --- start --- */

/* It interrupts, and does nothing else. */
static void on_kick(int signo)
{
	(void)signo;
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
	all.slots = calloc(all.room, sizeof(*all.slots)); /* its pages come when they are used */
	return all.slots ? 0 : -ENOMEM;
}

static int start_threads(void)
{
	for (size_t i = 0; i < CLOSERS; i++) {
		struct closer *closer = &all.closers[i];
		int r = pthread_create(&closer->thread, NULL, run, closer);

		if (r != 0) {
			return -r;
		}
		/* What libc does in a new thread may not be allowed a moment later. */
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

void closers_close(const struct closing *c)
{
	struct slot *s;

	pthread_mutex_lock(&all.lock);
	s = take_slot();
	s->c = *c;
	list_append(c->kind == CLOSING_RECEIVED ? &all.received : &all.connections, &s->link);
	pthread_cond_signal(&all.work);
	pthread_mutex_unlock(&all.lock);
}

bool closers_take_done(struct closing *ret)
{
	struct slot *s = NULL;
	eventfd_t n;

	pthread_mutex_lock(&all.lock);
	if (list_is_empty(&all.done)) {
		eventfd_read(all.event, &n);
	} else {
		s = list_entry(all.done.next, struct slot, link);
		list_remove(&s->link);
		list_append(&all.free, &s->link);
		*ret = s->c;
	}
	pthread_mutex_unlock(&all.lock);
	return s != NULL;
}

/* A kick may come a moment before the thread is where it hangs, so there is a next one, and each
 * waits as long again as all before it. */
uint64_t closers_kick(uint64_t now_ns)
{
	uint64_t next_ns = 0;

	pthread_mutex_lock(&all.lock);
	for (size_t i = 0; i < CLOSERS; i++) {
		struct closer *c = &all.closers[i];

		if (c->at && now_ns >= c->kick_ns) {
			pthread_kill(c->thread, SIGUSR1);
			c->kick_ns = now_ns + (now_ns - c->since_ns);
		}
		if (c->at && (next_ns == 0 || c->kick_ns < next_ns)) {
			next_ns = c->kick_ns;
		}
	}
	pthread_mutex_unlock(&all.lock);
	return next_ns;
}
