/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/base/log.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/front.h"
#include "daemon/gpu/gpu.h"
#include "daemon/granter/granter.h"
#include "daemon/granter/thread.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/sandbox.h"
#include "proto/base/clean.h"
#include "proto/base/closer.h"
#include "proto/base/standard.h"

/* START_FD is a file in memory with the worker's struct worker_start; the worker's descriptors
 * follow it in the order of descriptors_of(). All others except the standard three are closed
 * before the program is executed. The executed file is that of the running supervisor, even if
 * another release has replaced it on disk, so both sides know the same struct. */

enum { START_FD = 3, FIRST_FD, DESCRIPTORS_MAX = 2 + WORKER_FRONT + FRONT_LISTENERS_MAX };

static int start_granter_threads(void)
{
	int r = closer_start();

	return r < 0 ? r : threads_start();
}

static int prepare_front(void)
{
	if (log_is_journal()) {
		audit_open_journal();
	}
	return fd_reaper_start();
}

static const struct worker {
	const char *name;
	enum sandbox sandbox;
	bool keeps_perfmon;
	int (*prepare)(void); /* for what the filter forbids, such as starting threads */
	int (*run)(int link);
} workers[WORKERS] = {
	[WORKER_GRANTER] = { "granter", SANDBOX_GRANTER, true, start_granter_threads, granter_run },
	[WORKER_GPU] = { "gpu", SANDBOX_GPU, true, NULL, gpu_run },
	[WORKER_PLANNER] = { "planner", SANDBOX_PLANNER, false, NULL, planner_run },
	[WORKER_FRONT] = { "front", SANDBOX_FRONT, false, prepare_front, NULL },
};

const char *worker_name(enum worker_id id)
{
	return workers[id].name;
}

/* Returns the number of descriptors. The link comes last: when a process ends, the kernel closes
 * its descriptors from the highest number down (seen on Linux 6.18). So the supervisor sees the end
 * of a front before the ends of the workers that end with it. */
static size_t descriptors_of(struct worker_start *s, int *ret[DESCRIPTORS_MAX])
{
	size_t n = 0;

	if (s->id == WORKER_FRONT) {
		for (size_t i = 0; i < s->front.n_listeners; i++) {
			ret[n++] = &s->front.listeners[i];
		}
		for (size_t i = 0; i < WORKER_FRONT; i++) {
			ret[n++] = &s->front.links[i];
		}
		if (s->front.audit >= 0) {
			ret[n++] = &s->front.audit;
		}
	}
	ret[n++] = &s->link;
	return n;
}

/* --- the side of the supervisor --- */

/* Moves the descriptors to their numbers, by way of numbers above all of them. */
static int place(int *const *fds, size_t n)
{
	int above[1 + DESCRIPTORS_MAX];

	for (size_t i = 0; i < n; i++) {
		above[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, START_FD + 1 + DESCRIPTORS_MAX);
		if (above[i] < 0) {
			return -errno;
		}
	}
	for (size_t i = 0; i < n; i++) {
		*fds[i] = START_FD + (int)i;
		if (dup2(above[i], *fds[i]) < 0) {
			return -errno;
		}
	}
	return 0;
}

/* Also closes descriptors that the supervisor itself was started with, if the kernel knows
 * close_range(). */
static void close_others(unsigned first)
{
	syscall(SYS_close_range, first, ~0U, 0);
}

static int write_start(const struct worker_start *s, int fd)
{
	ssize_t n = pwrite(fd, s, sizeof(*s), 0);

	if (n < 0) {
		return -errno;
	}
	return n == (ssize_t)sizeof(*s) ? 0 : -EIO;
}

int worker_execute(const struct worker_start *start, const char *program)
{
	static struct worker_start s;
	int *fds[1 + DESCRIPTORS_MAX], file = memfd_create("start", MFD_CLOEXEC), r;
	const char *const argv[] = { program, "--worker", worker_name(start->id), NULL };
	size_t n;

	if (file < 0) {
		return -errno;
	}
	s = *start;
	fds[0] = &file;
	n = 1 + descriptors_of(&s, fds + 1);
	r = place(fds, n);
	r = r < 0 ? r : write_start(&s, file);
	r = r < 0 ? r : privilege_pass_on();
	if (r < 0) {
		return r;
	}
	close_others(START_FD + (unsigned)n);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	return -errno;
}

/* --- the side of the worker --- */

bool worker_is_asked(int argc, char **argv)
{
	return argc == 3 && strcmp(argv[1], "--worker") == 0;
}

static int read_start(const char *name, struct worker_start *ret)
{
	int *fds[DESCRIPTORS_MAX];
	size_t n;

	if (pread(START_FD, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
	    (unsigned)ret->id >= WORKERS || strcmp(name, workers[ret->id].name) != 0) {
		return -EINVAL;
	}
	close(START_FD);
	n = descriptors_of(ret, fds);
	for (size_t i = 0; i < n; i++) {
		if (fcntl(*fds[i], F_SETFD, FD_CLOEXEC) < 0) {
			return -errno;
		}
	}
	return 0;
}

/* Takes the worker's name and keeps only what the worker may have. When the supervisor dies, the
 * kernel kills the workers, except the granter, which ends when its link to the front ends, after
 * it has freed the objects that only it can free. */
static int enter(const struct worker_start *s)
{
	const struct worker *w = &workers[s->id];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Ctrl-C sends these signals to the whole process group, but workers end when the
	 * supervisor asks them to. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_NAME, w->name);
	log_init(w->name, s->log_level);
	/* Threads that prepare() starts have the present capabilities, and the filter covers them
	 * too. */
	if (privilege_enter(w->keeps_perfmon) < 0 || (w->prepare && w->prepare() < 0) ||
	    sandbox_enter(w->sandbox) < 0) {
		log_error("cannot give up privileges");
		return -EPERM;
	}
	return 0;
}

int worker_main(const char *name)
{
	static struct worker_start s;

	/* Before anything else: until then another process of the daemon's user could open this
	 * one's memory. */
	if (privilege_hide() < 0) {
		return 1;
	}
	standard_hold();
	if (read_start(name, &s) < 0) {
		fputs("gpucountd: --worker is for the daemon itself; see --help\n", stderr);
		return 2;
	}
	if (s.id != WORKER_GRANTER) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	if (enter(&s) < 0) {
		return 1;
	}
	s.front.control = s.link;
	return s.id == WORKER_FRONT ? front_run(&s.front) : workers[s.id].run(s.link);
}
