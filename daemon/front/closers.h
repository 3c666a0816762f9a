/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Closing a descriptor that a user has sent can take as long as the user likes: it may be the last
 * reference to a lingering socket, or a file of a file system in user space. Threads that do
 * nothing else close them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum closing_kind {
	CLOSING_CONNECTION, /* a connection that holds descriptors which nobody has received */
	CLOSING_RECEIVED,   /* a descriptor of any kind that a user has sent */
};

struct closing {
	int fd;
	enum closing_kind kind;
	uid_t uid;   /* who sent it */
	void *owner; /* for the caller; not used by closers */
};

/* Starts the threads, once in a process and before its filter. -errno. */
int closers_start(void);

/* The most descriptors that the process may have; each is a number below it. */
size_t closers_room(void);

/* Hands over n descriptors. Never fails. They count as open until closers_take_done() returns
 * them. */
void closers_close(const struct closing *c, size_t n);

/* Readable while closers_take_done() has something to return. */
int closers_fd(void);

/* Returns a descriptor that has been closed. False: there is none. */
bool closers_take_done(struct closing *ret);

/* Interrupts threads that have been closing one descriptor for too long. Returns when to call this
 * again; 0: no descriptor is being closed. */
uint64_t closers_kick(uint64_t now_ns);
