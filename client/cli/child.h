/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit statuses of our own, as env(1) and timeout(1) have them. */
enum {
	EXIT_UNMEASURED = 124, /* --fail-if-none: the program ended with 0, no kernel measured;
				* on one node of several: nothing began */
	EXIT_REFUSED = 125,    /* the program was not started */
	EXIT_NOT_EXEC = 126,   /* it is there but cannot be run */
	EXIT_NOT_FOUND = 127,
};

/* The measured program. Zero-initialised by the caller. */
struct child {
	pid_t pid;  /* 0: not running; read by signals.c's handler too */
	int status; /* as a shell has it: exit status, or 128 + signal */
};

/* Where PATH has the program, or the program itself when it has a slash. Free with free(). NULL,
 * with *ret_errno ENOENT, EACCES or ENOMEM. */
char *child_find(const char *program, int *ret_errno);
/* The same, and says what is wrong, with the exit status for it. */
char *child_find_or_say(const char *program, int *ret_status);

/* Starts it with the caller's descriptors, in its process group, with the signal mask given and
 * added
 * ("NAME=value", NULL-terminated) put into its environment. 0 or a negative errno. */
int child_start(struct child *c, const char *path, char *const *argv, const char *const *added,
		const sigset_t *mask);
/* The same, in a process group of its own, with a pipe to its standard input and one from its
 * standard output, whose other ends are the caller's to close. */
int child_start_piped(struct child *c, const char *path, char *const *argv,
		      const char *const *added, const sigset_t *mask, int *ret_input,
		      int *ret_output);

/* Has it ended? Never waits. */
bool child_reap(struct child *c);

/* "status 3", "signal 9, Killed". The result is valid until the next call. */
const char *child_end_text(int status);

/* CUDA and NVTX load one library each by an environment variable: warns of another tool's library
 * that those of added take the place of in the program. */
void child_tell_replaced(const char *const *added);
