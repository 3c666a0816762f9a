/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_CLOSERS_H
#define GPUCTR_FRONT_CLOSERS_H

/* Closing what users have sent can take as long as they like: the last reference to a lingering
 * socket, a file of a file system in user space. Threads that do nothing else close it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum closing_kind {
	CLOSING_CONNECTION, /* a socket of ours, with descriptors in it that nobody has received */
	CLOSING_RECEIVED,   /* anything at all */
};

struct closing {
	int fd;
	enum closing_kind kind;
	uid_t uid;   /* who sent it */
	void *owner; /* the caller's */
};

/* Starts the threads, once in a process and before its filter. -errno. */
int closers_start(void);

/* How many descriptors the process may have: each is a number below that. */
size_t closers_room(void);

/* n of them. Never fails. They are open until closers_take_done() gives them back. */
void closers_close(const struct closing *c, size_t n);

/* Readable while there is something to take. */
int closers_fd(void);

/* One that has been closed. False: there is none. */
bool closers_take_done(struct closing *ret);

/* Interrupts the threads that have been at one descriptor for long. When to call it again; 0:
 * nothing is being closed. */
uint64_t closers_kick(uint64_t now_ns);

#endif
