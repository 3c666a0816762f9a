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
 * There are as many slots as descriptors, so handing one over allocates nothing. The lock is taken
 * as rarely as can be, since the front may have to wait for it: once for all that a message has
 * brought, for up to CLOSERS_BATCH that a thread takes of it, and for all that is done. */

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
	struct list work; /* of one kind and one user; its own while it is at it */
	bool busy;
	enum closing_kind kind;
	uid_t uid;
	_Atomic uint64_t since_ns; /* when it came to the present one */
	uint64_t seen_ns, kick_ns; /* since_ns as last looked at, and what follows from it */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;
	sem_t running;
	struct list connections, received, done;
	unsigned n_received; /* threads that are at some */
	struct closer closers[CLOSERS];
	int event;

	/* Of the front alone, without the lock. */
	struct list taken, free;
	struct slot *slots;
	size_t room, n_used; /* slots behind have never been */
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

/* A connection alone, for the next one may be another user's; of what was received more of the
 * same.
 */
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
		int r;

		list_init(&closer->work);
		r = pthread_create(&closer->thread, NULL, run, closer);

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

/* A kick may come a moment before the thread is where it hangs, so there is a next one, and each
 * waits as long again as all before it. */
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
