/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/courier.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/agent/connection.h"
#include "client/agent/courier_shared.h"
#include "client/agent/descriptor.h"
#include "client/agent/filters.h"
#include "client/agent/lock.h"
#include "client/agent/thread.h"
#include "proto/base/clock.h"

/* The program must not notice its courier. So the courier is a grandchild: the process in between
 * ends at once, and wait() and SIGCHLD do not report it, because its exit signal is 0. Both share
 * the program's memory until exec, as with vfork(), so that no page is copied on write. The courier
 * has a session of its own, blocks all signals, and keeps no descriptor of the program's. It ends
 * when the program's end of a socket pair closes; a forked child closes its copy.
 *
 * In a program that is process 1 or a subreaper, the courier would become a child that wait()
 * reports. There, and if the courier cannot be started or cannot see the program in /proc, the
 * agent works without one. */

enum {
	STACK_BYTES = 16 * 1024,
	LOOK_TIMEOUT_S = 2,
	START_TIMEOUT_S = 2,
	FIRST_NUMBER = 16, /* least number of a descriptor, above those of the courier */
};

static struct {
	_Atomic(struct courier_shared *) shared;
	atomic_bool filtered; /* another filter was seen; stays set */
	struct lock looking;  /* held while shared is used for a look, so that it stays mapped */
} courier = { .looking = LOCK_INITIALIZER(LOCK_LEAF) };

/* --- the start --- */

struct spawning {
	const char *path;
	int socket, shared, life;
	int error;
	char stacks[2][STACK_BYTES] __attribute__((aligned(16)));
};

__attribute__((no_sanitize_address)) static int become_courier(void *argument)
{
	struct spawning *s = argument;
	char name[] = "gpuctr-courier", *const arguments[] = { name, NULL };
	char *const environment[] = { NULL };

	if ((s->socket < 0 || dup2(s->socket, COURIER_SOCKET) >= 0) &&
	    dup2(s->shared, COURIER_SHARED) >= 0 && dup2(s->life, COURIER_LIFE) >= 0) {
		execve(s->path, arguments, environment);
	}
	s->error = errno;
	_exit(1);
}

static int clone_shortly(int (*run)(void *), struct spawning *s, int stack)
{
	return clone(run, s->stacks[stack] + STACK_BYTES, CLONE_VM | CLONE_VFORK, s);
}

__attribute__((no_sanitize_address)) static int go_between(void *argument)
{
	struct spawning *s = argument;

	if (clone_shortly(become_courier, s, 1) < 0) {
		s->error = errno;
	}
	_exit(0);
}

static bool find_path(char path[PATH_MAX])
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)(uintptr_t)courier_start, &info) || !info.dli_fname ||
	    !(slash = strrchr(info.dli_fname, '/'))) {
		return false;
	}
	return snprintf(path, PATH_MAX, "%.*s/gpuctr-courier", (int)(slash - info.dli_fname),
			info.dli_fname) < PATH_MAX;
}

/* ThreadSanitizer takes the calls of a clone that shares memory for those of the calling thread. */
#ifdef __SANITIZE_THREAD__
static const bool is_told_apart = false;
#else
static const bool is_told_apart = true;
#endif

static bool would_become_a_child(void)
{
	int subreaper = 0;

	return getpid() == 1 || prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0) < 0 || subreaper;
}

/* Is this process in /proc under its own number? /proc may belong to another pid namespace. */
static bool is_seen_in_proc(void)
{
	char number[16] = "";

	return readlink("/proc/self", number, sizeof(number) - 1) > 0 && atoi(number) == getpid();
}

static bool spawn(int socket, int shared, int life)
{
	static struct spawning s; /* one thread starts couriers, in a capture or in standby */
	char path[PATH_MAX];
	sigset_t all, before;
	int child;

	if (!is_told_apart || would_become_a_child() || !is_seen_in_proc() || !find_path(path) ||
	    access(path, X_OK) < 0) {
		return false;
	}
	s.path = path;
	s.socket = socket;
	s.shared = shared;
	s.life = life;
	s.error = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	child = clone_shortly(go_between, &s, 0);
	while (child >= 0 && waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR) {
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return child >= 0 && s.error == 0;
}

static struct courier_shared *make_shared(int *fd)
{
	struct courier_shared *s = MAP_FAILED;

	*fd = memfd_create("gpuctr", MFD_CLOEXEC);
	if (*fd >= 0 && ftruncate(*fd, sizeof(*s)) == 0) {
		s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	}
	if (s == MAP_FAILED) {
		return NULL;
	}
	madvise(s, sizeof(*s), MADV_DONTFORK);
	return s;
}

/* Moves fd to a number not below `least`, so that dup2() does not overwrite it. Closes fd. */
static int raise_number(int fd, int least)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, least);

	if (fd >= 0) {
		close(fd);
	}
	return high;
}

static void close_if_open(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

/* Sleeps until the courier counts up to_program. False: by_ns has passed. */
static bool sleep_until(struct courier_shared *s, uint32_t seen, uint64_t by_ns)
{
	uint64_t now_ns = by_ns == COURIER_FOR_EVER ? 0 : clock_now_ns();
	struct timespec t = clock_timespec(by_ns - now_ns);

	if (now_ns >= by_ns) {
		return false;
	}
	futex_wait(&s->to_program, seen, by_ns == COURIER_FOR_EVER ? NULL : &t);
	return true;
}

/* Waits until the expression `is` holds. False: by_ns has passed before. */
#define WAIT_UNTIL(s, is, by_ns)                                \
	({                                                      \
		uint32_t seen_;                                 \
		bool is_;                                       \
                                                                \
		do {                                            \
			seen_ = atomic_load(&(s)->to_program);  \
			is_ = (is);                             \
		} while (!is_ && sleep_until(s, seen_, by_ns)); \
		is_;                                            \
	})

static bool comes_in_time(struct courier_shared *s)
{
	uint64_t by_ns = clock_now_ns() + START_TIMEOUT_S * CLOCK_NS_PER_S;
	uint32_t starts = COURIER_STARTS;

	WAIT_UNTIL(s, atomic_load(&s->start) == COURIER_READY, by_ns);
	return !atomic_compare_exchange_strong(&s->start, &starts, COURIER_LATE);
}

/* life[0] is the program's end. */
static bool make(struct connection *l, bool standby, struct courier_shared **ret, int life[2])
{
	int fd;
	struct courier_shared *s = make_shared(&fd);
	bool done = false;

	fd = raise_number(fd, FIRST_NUMBER);
	if (s && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) == 0) {
		life[0] = raise_number(life[0], descriptor_high_number());
		life[1] = raise_number(life[1], FIRST_NUMBER);
		s->has_socket = l->fd >= 0;
		s->process = getpid();
		s->uid = geteuid();
		s->first = filters_of_thread();
		s->idle = standby;
		s->thread = standby ? thread_number() : 0;
		done = fd >= 0 && life[0] >= 0 && life[1] >= 0 && filters_are_known(s->first) &&
		       spawn(l->fd, fd, life[1]) && comes_in_time(s);
	}
	close_if_open(fd);
	close_if_open(life[1]);
	if (!done) {
		close_if_open(life[0]);
		if (s) {
			munmap(s, sizeof(*s));
		}
	}
	*ret = s;
	return done;
}

static void replace(struct courier_shared *now)
{
	struct courier_shared *before;

	LOCK_SCOPE(&courier.looking);
	before = atomic_exchange(&courier.shared, now);
	if (before) {
		munmap(before, sizeof(*before));
	}
}

bool courier_start(struct connection *l, bool standby)
{
	int life[2] = { -1, -1 };
	struct courier_shared *s;

	if ((l->fd >= 0 && descriptor_file(l->fd) != l->file) || !make(l, standby, &s, life)) {
		replace(NULL);
		return false;
	}
	descriptor_leave(l->fd, l->file);
	l->file = descriptor_file(life[0]);
	l->fd = life[0];
	l->courier = true;
	replace(s);
	return true;
}

/* --- bytes --- */

static struct courier_shared *shared(void)
{
	return atomic_load(&courier.shared);
}

void courier_watch_me(void)
{
	if (shared()) {
		atomic_store(&shared()->thread, thread_number());
	}
}

void courier_be_idle(bool idle)
{
	if (shared()) {
		atomic_store(&shared()->idle, idle);
	}
}

ssize_t courier_read(void *data, size_t bytes)
{
	struct courier_shared *s = shared();
	bool ended = atomic_load(&s->ended);
	uint32_t n = bytes < COURIER_IN_BYTES ? (uint32_t)bytes : COURIER_IN_BYTES;

	n = courier_take(&s->in, s->in_data, COURIER_IN_BYTES, data, n);
	if (n > 0) {
		courier_wake(&s->to_courier);
	}
	return n > 0 || !ended ? (ssize_t)n : -EPIPE;
}

ssize_t courier_write(const void *data, size_t bytes)
{
	struct courier_shared *s = shared();
	uint32_t n = bytes < COURIER_OUT_BYTES ? (uint32_t)bytes : COURIER_OUT_BYTES;

	if (atomic_load(&s->ended)) {
		return -EPIPE;
	}
	n = courier_put(&s->out, s->out_data, COURIER_OUT_BYTES, data, n);
	if (n > 0) {
		courier_wake(&s->to_courier);
	}
	return n;
}

/* --- waiting --- */

int courier_wait(bool to_read, uint64_t by_ns)
{
	struct courier_shared *s = shared();

	return WAIT_UNTIL(s,
			  atomic_load(&s->ended) ||
				  (to_read ? courier_length(&s->in) > 0
					   : courier_length(&s->out) < COURIER_OUT_BYTES),
			  by_ns);
}

void courier_flush(uint64_t by_ns)
{
	struct courier_shared *s = shared();

	WAIT_UNTIL(s, atomic_load(&s->ended) || courier_length(&s->out) == 0, by_ns);
}

/* --- filters and the end --- */

bool courier_is_there(void)
{
	return shared() != NULL;
}

/* With the lock. If the courier does not answer, it was killed, and the threads count as filtered.
 */
static bool look(struct courier_shared *s, int32_t other)
{
	uint64_t by_ns = clock_now_ns() + LOOK_TIMEOUT_S * CLOCK_NS_PER_S;

	atomic_store(&s->other_thread, other);
	atomic_fetch_add(&s->look_asked, 1);
	courier_wake(&s->to_courier);
	if (!WAIT_UNTIL(s, atomic_load(&s->looked) == atomic_load(&s->look_asked), by_ns) ||
	    atomic_load(&s->filtered)) {
		atomic_store(&courier.filtered, true);
	}
	return atomic_load(&courier.filtered) || atomic_load(&s->other_filtered);
}

static bool look_unless_known(int32_t other)
{
	struct courier_shared *s;

	if (atomic_load(&courier.filtered)) {
		return true;
	}
	LOCK_SCOPE(&courier.looking);
	s = shared();
	return s && !atomic_load(&s->quit) ? look(s, other) : atomic_load(&courier.filtered);
}

bool courier_look(void)
{
	return look_unless_known(0);
}

bool courier_look_at_caller(void)
{
	return look_unless_known(thread_number());
}

bool courier_quit(void)
{
	struct courier_shared *s = shared();
	bool filtered = courier_look();

	atomic_store(&s->quit, 1);
	courier_wake(&s->to_courier);
	return !filtered;
}

void courier_rest(struct connection *l, uint64_t ns)
{
	struct courier_shared *s = shared();

	atomic_store(&s->rest_ms, (uint32_t)(ns / CLOCK_NS_PER_MS) + 1);
	courier_wake(&s->to_courier);
	WAIT_UNTIL(s, atomic_load(&s->rested), COURIER_FOR_EVER);
	atomic_store(&s->quit, 1);
	descriptor_leave(l->fd, l->file);
	l->fd = -1;
	l->courier = false;
}
