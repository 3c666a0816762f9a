/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "client/cli/child.h"

/* Signals of this process as events of a descriptor, for one loop at a time.
 *
 * While the program runs, signals that would end the client go to the program at once, whatever the
 * loop does. Otherwise the first signal is an event. Until the loop has read that event, and after
 * signals_release(), the next signal has its default action. So the second Ctrl-C ends a client
 * whose loop hangs. */
struct signals {
	int fd;		    /* readable when there is an event */
	sigset_t inherited; /* the mask for programs that the client starts */
};

/* child: the program, which may start later; it outlives s. ignores: signals that would end the
 * client are ignored. 0 or a negative errno. */
int signals_open(struct signals *s, const struct child *child, bool ignores);
/* Also allowed after a failed signals_open(), and for a zero-initialised struct. */
void signals_close(struct signals *s);
/* Reads the next signal that has arrived, SIGCHLD included. False: there is none. */
bool signals_next(struct signals *s, int *ret_signo);
/* Forgets all signals that have arrived, SIGCHLD included. */
void signals_drop(struct signals *s);
/* Gives SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 their default action again, where
 * they are not ignored. */
void signals_release(struct signals *s);
/* Gives the same signals another action, without a struct signals. */
void signals_act(const struct sigaction *action);
