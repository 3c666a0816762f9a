/* SPDX-License-Identifier: Apache-2.0 */

/* The program belongs to the client's process group, so a Ctrl-C of the terminal reaches it
 * directly. The client passes on a signal that was sent to the client alone: si_code is SI_KERNEL
 * for a signal of the terminal. Signals that the client inherited as ignored stay ignored, but not
 * SIGCHLD, without which the exit status would be lost. SIGPIPE and SIGXFSZ are blocked, so that a
 * closed pipe gives EPIPE, and a file at its limit EFBIG.
 *
 * The handler does all that must not wait for the loop, with calls that are safe in a handler. A
 * program inherits mask and ignored signals, but no handler, because exec resets handlers. */

#include "client/cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

/* SIGUSR1 and SIGUSR2 do not mean the end: a scheduler warns a program by them that its time is
 * almost over. The client passes them on to its program; they end a capture of running programs. */
static const int ending[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };

/* A handler gets no user data, so this is global: the one struct signals that is open. */
static struct {
	int read_fd, write_fd;
	const struct child *child;
	volatile sig_atomic_t is_noted; /* the loop has not read an event yet */
	bool ignores;
} handled = { .read_fd = -1, .write_fd = -1 };

static bool is_ignored(int signo)
{
	struct sigaction action;

	return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* --- the handler ----------------------------------------------------------------------------- */

/* Has the program ended, although the loop has not noticed it yet? */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 ||
	       info.si_pid != 0;
}

static void note(int signo)
{
	const unsigned char byte = (unsigned char)signo;

	if (write(handled.write_fd, &byte, 1) < 0) {
		return; /* so many events wait that one more changes nothing */
	}
}

static void take_ending(int signo, const siginfo_t *info)
{
	pid_t pid = __atomic_load_n(&handled.child->pid, __ATOMIC_RELAXED);
	bool ended = pid > 0 && has_ended(pid);

	if (handled.ignores) {
		return;
	}
	if (pid > 0 && !ended) {
		if (info->si_code != SI_KERNEL || getpgid(pid) != getpgrp()) {
			kill(pid, signo);
		}
		return;
	}
	if (handled.is_noted) {
		signal(signo, SIG_DFL);
		raise(signo); /* takes effect when the handler returns */
		return;
	}
	handled.is_noted = 1;
	/* A Ctrl-C that has ended the program is not meant to end the client's report. */
	if (!ended) {
		note(signo);
	}
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
	int error = errno;

	(void)context;
	if (signo == SIGCHLD) {
		note(signo);
	} else {
		take_ending(signo, info);
	}
	errno = error;
}

/* --- from outside ---------------------------------------------------------------------------- */

void signals_act(const struct sigaction *action)
{
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		if (!is_ignored(ending[i])) {
			sigaction(ending[i], action, NULL);
		}
	}
}

int signals_open(struct signals *s, const struct child *child, bool ignores)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	int fds[2];
	sigset_t set;

	s->fd = -1;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGXFSZ);
	if (sigprocmask(SIG_BLOCK, &set, &s->inherited) < 0 ||
	    pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	s->fd = handled.read_fd = fds[0];
	handled.write_fd = fds[1];
	handled.child = child;
	handled.is_noted = 0;
	handled.ignores = ignores;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		sigaddset(&action.sa_mask, ending[i]);
	}
	sigaddset(&action.sa_mask, SIGCHLD);
	sigaction(SIGCHLD, &action, NULL);
	signals_act(&action);
	return 0;
}

void signals_release(struct signals *s)
{
	if (s->fd >= 0) {
		signals_act(&(struct sigaction){ .sa_handler = SIG_DFL });
	}
}

void signals_close(struct signals *s)
{
	if (handled.write_fd < 0 || s->fd != handled.read_fd) {
		return;
	}
	signals_release(s);
	signal(SIGCHLD, SIG_DFL);
	close(handled.read_fd);
	close(handled.write_fd);
	s->fd = handled.read_fd = handled.write_fd = -1;
}

bool signals_next(struct signals *s, int *ret_signo)
{
	unsigned char byte;

	if (s->fd < 0 || read(s->fd, &byte, 1) != 1) {
		return false;
	}
	*ret_signo = byte;
	if (byte != SIGCHLD) {
		handled.is_noted = 0;
	}
	return true;
}

void signals_drop(struct signals *s)
{
	int ignored;

	while (signals_next(s, &ignored)) {
	}
	handled.is_noted = 0;
}
