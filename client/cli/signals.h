/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "client/cli/child.h"

/* Signals of this process as events of a descriptor, for one loop at a time.
 *
 * While the program runs, what would end us is passed on to the program at once, whatever the loop
 * does. Otherwise the first signal is an event; until the loop has read the event, and once
 * signals_release() was called, the next signal has its default action. So a loop that is held up
 * cannot hold its user: the second Ctrl-C ends it. */
struct signals {
	int fd;		    /* can be read when there is an event */
	sigset_t inherited; /* the mask, for programs that we start */
};

/* child: the program, which may start later; it outlives s. ignores: the signals that end us are
 * ignored. 0 or a negative errno. */
int signals_open(struct signals *s, const struct child *child, bool ignores);
/* Also after a failed signals_open(), and of a zero-initialised struct. */
void signals_close(struct signals *s);
/* What has arrived, SIGCHLD too. */
bool signals_next(struct signals *s, int *ret_signo);
/* Forgets what has arrived, SIGCHLD too. */
void signals_drop(struct signals *s);
/* Gives SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 their default action again, where
 * they are not ignored. */
void signals_release(struct signals *s);
/* The same for another action, without a struct signals. */
void signals_act(const struct sigaction *action);
