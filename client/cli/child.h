/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit statuses of the client itself, like those of env(1) and timeout(1). */
enum {
	EXIT_UNMEASURED = 124, /* --fail-if-none: the program ended with 0, no kernel measured;
				* on one node of several: nothing began */
	EXIT_REFUSED = 125,    /* the program was not started */
	EXIT_NOT_EXEC = 126,   /* the program exists but cannot be run */
	EXIT_NOT_FOUND = 127,
};

/* The measured program. Zero-initialised by the caller. */
struct child {
	pid_t pid;  /* 0: not running; read by signals.c's handler too */
	int status; /* as in a shell: exit status, or 128 + signal */
};

/* The program's path by PATH, or program itself if it has a slash. Free with free(). NULL, with
 * *ret_errno ENOENT, EACCES or ENOMEM. */
char *child_find(const char *program, int *ret_errno);
/* As child_find(), but reports an error, and returns the exit status for it. */
char *child_find_or_say(const char *program, int *ret_status);

/* Starts the program with the caller's descriptors, in the caller's process group, with this signal
 * mask. added: NULL-terminated, "NAME=value", for its environment. 0 or a negative errno. */
int child_start(struct child *c, const char *path, char *const *argv, const char *const *added,
		const sigset_t *mask);
/* As child_start(), but in a process group of its own, with pipes at its standard input and output.
 * The caller closes the other ends. */
int child_start_piped(struct child *c, const char *path, char *const *argv,
		      const char *const *added, const sigset_t *mask, int *ret_input,
		      int *ret_output);

/* Has the program ended? Never waits. */
bool child_reap(struct child *c);

/* "status 3", "signal 9, Killed". The result is valid until the next call. */
const char *child_end_text(int status);

/* CUDA and NVTX load one library each by an environment variable: warns if added replaces another
 * tool's library in the program. */
void child_tell_replaced(const char *const *added);
