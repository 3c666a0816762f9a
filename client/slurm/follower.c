/* SPDX-License-Identifier: Apache-2.0 */

/* A page shared by slurmstepd and its tasks has a slot for each list of GPUs. A slot is taken under
 * the lock and filled without: its task alone writes, the others look at its state until their time
 * is over. A lock whose owner was killed is taken over, since a slot is whole before it is marked
 * as taken.
 *
 * Two pipes have one end in slurmstepd alone, once the tasks have executed their programs:
 *
 *	until  slurmstepd holds the writing end: its end, also a sudden one, ends the captures
 *	done   the clients hold the writing end: its end says that all of them have ended
 *
 * A client is no child of the task's, whose program might wait for it: it is forked twice. */

#include "client/slurm/follower.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"

enum {
	SLOTS = 64,
	GPUS_BYTES = 1024,
	VARIABLES_BYTES = 16 << 10, /* two paths of an agent, one of a socket, a token */
	WORDS = 32,
	LOOK_MS = 5,
};

enum { SLOT_FREE, SLOT_STARTING }; /* afterwards: enum follower_result */

struct slot {
	atomic_int state;
	pid_t client;		  /* the client's pid, which the client writes; 0: none */
	unsigned long long begun; /* the client's start time, which distinguishes it from a later
				     process with its pid */
	char gpus[GPUS_BYTES];
	char variables[VARIABLES_BYTES];
};

struct shared {
	pthread_mutex_t lock;
	struct slot slots[SLOTS];
};

struct follower {
	struct shared *shared;
	uid_t user;	       /* user of the clients */
	int until[2], done[2]; /* pipe ends as from pipe2() */
};

static uint64_t now_ms(void)
{
	return clock_now_ns() / CLOCK_NS_PER_MS;
}

static void close_fd(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
	*fd = -1;
}

/* The start time in /proc, in ticks since boot; 0: there is no such process. */
static unsigned long long start_time(pid_t pid)
{
	unsigned long long begun = 0;
	char path[32], line[1024];
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f) {
		return 0;
	}
	/* The name in parentheses may hold anything; 19 fields stand between it and the time. */
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	for (int i = 0; end && i < 20; i++) {
		end = strchr(end + 1, ' ');
	}
	if (end) {
		begun = strtoull(end, NULL, 10);
	}
	fclose(f);
	return begun;
}

/* --- slurmstepd's part ----------------------------------------------------------------------- */

static int init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;
	int r;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	r = pthread_mutex_init(lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return r;
}

static void free_follower(struct follower *f)
{
	close_fd(&f->until[0]);
	close_fd(&f->until[1]);
	close_fd(&f->done[0]);
	close_fd(&f->done[1]);
	if (f->shared) {
		munmap(f->shared, sizeof(*f->shared));
	}
	free(f);
}

struct follower *follower_open(void)
{
	struct follower *f = calloc(1, sizeof(*f));
	void *shared;
	int r;

	if (!f) {
		return NULL;
	}
	f->user = geteuid();
	f->until[0] = f->until[1] = f->done[0] = f->done[1] = -1;
	shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	f->shared = shared == MAP_FAILED ? NULL : shared;
	r = f->shared ? init_lock(&f->shared->lock) : errno;
	if (r == 0 && (pipe2(f->until, O_CLOEXEC) < 0 || pipe2(f->done, O_CLOEXEC) < 0)) {
		r = errno;
	}
	if (r != 0) {
		free_follower(f);
		errno = r;
		return NULL;
	}
	return f;
}

/* (uid_t)-1: there is no such process. */
static uid_t owner(pid_t pid)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
}

/* Kills a client that would delay the step's end, because it shares the tasks' standard error. */
static void kill_client(const struct follower *f, const struct slot *s)
{
	/* The user may write to the page at any moment, and slurmstepd is root: so each value is
	 * read once, and no process of another user is killed. */
	pid_t client = __atomic_load_n(&s->client, __ATOMIC_RELAXED);
	unsigned long long begun = __atomic_load_n(&s->begun, __ATOMIC_RELAXED);
	int fd = client > 0 ? (int)syscall(SYS_pidfd_open, client, 0) : -1;

	if (fd >= 0 && begun > 0 && start_time(client) == begun && owner(client) == f->user) {
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	}
	close_fd(&fd);
}

bool follower_close(struct follower *f, unsigned drain_s)
{
	uint64_t end = now_ms() + (uint64_t)drain_s * 1000;
	struct pollfd done;
	bool ended = false;

	if (!f) {
		return true;
	}
	close_fd(&f->until[1]);
	close_fd(&f->done[1]);
	done = (struct pollfd){ .fd = f->done[0], .events = POLLIN };
	while (!ended) {
		uint64_t now = now_ms();

		if (poll(&done, 1, now < end ? (int)(end - now) : 0) < 0 && errno != EINTR) {
			break;
		}
		ended = (done.revents & POLLHUP) != 0;
		if (now >= end) {
			break;
		}
	}
	for (size_t i = 0; i < SLOTS && !ended; i++) {
		kill_client(f, &f->shared->slots[i]);
	}
	free_follower(f);
	return ended;
}

/* --- a task's part --------------------------------------------------------------------------- */

/* The slot of this list of GPUs, or a new one; NULL: there is no room. */
static struct slot *take_slot(struct shared *shared, const char *gpus, bool *ret_new)
{
	struct slot *found = NULL;

	*ret_new = false;
	if (strlen(gpus) >= GPUS_BYTES) {
		return NULL;
	}
	if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD) {
		pthread_mutex_consistent(&shared->lock);
	}
	for (size_t i = 0; i < SLOTS && !found; i++) {
		struct slot *s = &shared->slots[i];

		*ret_new = atomic_load(&s->state) == SLOT_FREE;
		if (*ret_new) {
			strcpy(s->gpus, gpus);
			atomic_store(&s->state, SLOT_STARTING);
		}
		found = strcmp(s->gpus, gpus) == 0 ? s : NULL;
	}
	pthread_mutex_unlock(&shared->lock);
	return found;
}

/* The client's command line; behind it that of the program, whose name the client shows and stores.
 * The caller frees it with free(); it points to numbers in text. */
static char **make_command(const struct follower_task *task, char (*text)[16], int ready_fd,
			   int until_fd)
{
	const struct settings *s = task->settings;
	const char *const options[][2] = {
		{ "--ready-fd", text[0] }, { "--until-fd", text[1] },
		{ "--wait", text[2] },	   { "--socket", s->socket },
		{ "--agent", s->agent },   { "--metrics", s->metrics },
		{ "--kernel", s->filter }, { "--devices", *task->gpus ? task->gpus : NULL },
		{ "-o", s->output }, /* NULL: not given */
	};
	size_t n = 0, at = 0;
	const char **words;

	while (task->argv[n]) {
		n++;
	}
	words = calloc(WORDS + n + 1, sizeof(*words));
	if (!words) {
		return NULL;
	}
	snprintf(text[0], sizeof(text[0]), "%d", ready_fd);
	snprintf(text[1], sizeof(text[1]), "%d", until_fd);
	snprintf(text[2], sizeof(text[2]), "%u", s->wait_s > 0 ? s->wait_s : 1);
	words[at++] = s->client;
	words[at++] = "follow";
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i][1]) {
			words[at++] = options[i][0];
			words[at++] = options[i][1];
		}
	}
	words[at++] = "--";
	memcpy(words + at, task->argv, n * sizeof(*words));
	return (char **)words;
}

static void keep_open(int fd)
{
	fcntl(fd, F_SETFD, 0);
}

/* Executes the client, in the grandchild. Closes slurmstepd's other descriptors. */
static void become_client(const struct follower *f, struct slot *slot, int ready_fd, char **words,
			  char **environment)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	keep_open(ready_fd);
	keep_open(f->until[0]);
	keep_open(f->done[1]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	slot->begun = start_time(getpid());
	slot->client = getpid();
	execve(words[0], words, environment);
	dprintf(STDERR_FILENO, "gpuctr: %s: cannot be run: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* 0 or an errno. */
static int start_client(const struct follower *f, const struct follower_task *task,
			struct slot *slot, int ready_fd)
{
	char text[3][16];
	char **words = make_command(task, text, ready_fd, f->until[0]);
	pid_t child = words ? fork() : -1;
	int error = errno;

	if (child == 0) {
		if (fork() == 0) {
			become_client(f, slot, ready_fd, words, task->environment);
		}
		_exit(0);
	}
	free(words);
	if (child < 0) {
		return error;
	}
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
	}
	return 0;
}

/* Reads the client's variables until the client closes its end. */
static enum follower_result read_variables(int fd, struct slot *slot, uint64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	for (;;) {
		uint64_t now = now_ms();
		ssize_t got;

		if (poll(&p, 1, now < end ? (int)(end - now) : 0) == 0) {
			return FOLLOWER_LATE;
		}
		/* Two bytes stay free, for the NULs of a word that is cut off and of the list. */
		got = read(fd, slot->variables + n, sizeof(slot->variables) - 2 - n);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return got == 0 && n > 0 ? FOLLOWER_JOINED : FOLLOWER_REFUSED;
		}
		n += (size_t)got;
	}
}

static enum follower_result fill(const struct follower *f, const struct follower_task *task,
				 struct slot *slot, uint64_t end)
{
	enum follower_result state;
	int ready[2], error;

	if (pipe2(ready, O_CLOEXEC) < 0) {
		return FOLLOWER_FAILED;
	}
	error = start_client(f, task, slot, ready[1]);
	close(ready[1]);
	state = error == 0 ? read_variables(ready[0], slot, end) : FOLLOWER_FAILED;
	close(ready[0]); /* a client that is ready too late cannot write, and ends */
	errno = error;
	return state;
}

static enum follower_result wait_for(const struct slot *slot, uint64_t end)
{
	for (;;) {
		int state = atomic_load(&slot->state);

		if (state != SLOT_STARTING) {
			return (enum follower_result)state;
		}
		if (now_ms() >= end) {
			return FOLLOWER_LATE;
		}
		poll(NULL, 0, LOOK_MS);
	}
}

enum follower_result follower_join(struct follower *f, const struct follower_task *task,
				   const char **ret, bool *ret_first)
{
	uint64_t end = now_ms() + (uint64_t)task->settings->wait_s * 1000;
	struct slot *slot = take_slot(f->shared, task->gpus, ret_first);
	enum follower_result result;

	if (!slot) {
		*ret_first = true;
		errno = ENOSPC;
		return FOLLOWER_FAILED;
	}
	result = *ret_first ? fill(f, task, slot, end) : wait_for(slot, end);
	if (*ret_first) {
		atomic_store(&slot->state, (int)result);
	}
	*ret = slot->variables;
	return result;
}
