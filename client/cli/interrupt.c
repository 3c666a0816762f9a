/* SPDX-License-Identifier: Apache-2.0 */

/* The client blocks the signals that end it and its loop reads them from a descriptor. The loop
 * may be blocked: by an output that nobody reads, by a file system that does not answer, by a
 * program that sends faster than the loop works. A thread of its own notices that such a signal
 * stays pending, and ends the client as the signal would have. The program comes first: the
 * thread passes the signal on, waits for the program to end and exits with its status. When the
 * loop continues meanwhile, the loop ends the client. */

#include "client/cli/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 100 };

static bool is_pending(void)
{
	static const int ending[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	sigset_t set;

	sigpending(&set);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		if (sigismember(&set, ending[i]) == 1) {
			return true;
		}
	}
	return false;
}

/* false: we are to stop. */
static bool pause_for(const struct interrupt *i, int ms)
{
	struct pollfd p = { .fd = i->stop, .events = POLLIN };

	return poll(&p, 1, ms) == 0;
}

/* false: we are to stop. */
static bool wait_for_signal(const struct interrupt *i)
{
	struct pollfd p[] = { { .fd = i->stop, .events = POLLIN },
			      { .fd = i->signals->fd, .events = POLLIN } };

	return poll(p, 2, -1) >= 0 ? p[0].revents == 0 : errno == EINTR;
}

/* Has a signal stayed pending for patience_ms? */
static bool is_left(const struct interrupt *i)
{
	int waited = 0;

	while (waited < i->patience_ms && is_pending() && pause_for(i, LOOK_MS)) {
		waited += LOOK_MS;
	}
	return waited >= i->patience_ms;
}

/* Writes only when standard error takes it: it may be what blocks the loop. */
static void report(void)
{
	static const char text[] = "gpuctr-client: interrupted while it was held up: what was not "
				   "in its files and outputs yet is lost\n";
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0 &&
	    write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		return;
	}
}

static int status_of(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED ? info->si_status : 128 + info->si_status;
}

/* Waits for the program and exits with its status. Returns when the loop has reaped the program. */
static void end_with_program(const struct interrupt *i, pid_t pid)
{
	siginfo_t info = { 0 };
	int r;

	do {
		r = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	} while (r < 0 && errno == EINTR);
	for (int waited = 0; r == 0 && waited < i->patience_ms; waited += LOOK_MS) {
		if (!pause_for(i, LOOK_MS)) {
			return;
		}
		r = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG);
	}
	if (r == 0) {
		report();
		_exit(status_of(&info));
	}
}

static void end(const struct interrupt *i)
{
	pid_t pid = __atomic_load_n(&i->child->pid, __ATOMIC_RELAXED);
	struct signal_event event = { .signo = SIGCHLD };

	while (event.signo == SIGCHLD && signals_next(i->signals, &event)) {
	}
	if (event.signo == SIGCHLD) {
		return; /* the loop has taken the signal in the meantime */
	}
	if (pid == 0) {
		report();
		_exit(128 + event.signo);
	}
	if (event.from_process || getpgid(pid) != getpgrp()) {
		kill(pid, event.signo);
	}
	end_with_program(i, pid);
}

static void *run(void *userdata)
{
	const struct interrupt *i = userdata;

	while (wait_for_signal(i)) {
		if (is_left(i)) {
			end(i);
		}
		if (!pause_for(i, LOOK_MS)) {
			break;
		}
	}
	return NULL;
}

void interrupt_begin(struct interrupt *i, struct signals *signals, const struct child *child,
		     int patience_ms)
{
	*i = (struct interrupt){ .signals = signals,
				 .child = child,
				 .patience_ms = patience_ms,
				 .stop = eventfd(0, EFD_CLOEXEC) };
	i->running = i->stop >= 0 && pthread_create(&i->thread, NULL, run, i) == 0;
	if (!i->running && i->stop >= 0) {
		close(i->stop);
	}
}

void interrupt_end(struct interrupt *i)
{
	const uint64_t one = 1;

	if (!i->running) {
		return;
	}
	i->running = write(i->stop, &one, sizeof(one)) != sizeof(one);
	if (!i->running) {
		pthread_join(i->thread, NULL);
		close(i->stop);
	}
}
