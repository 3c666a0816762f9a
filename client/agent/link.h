/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_LINK_H
#define GPUCTR_AGENT_LINK_H

/* The agent's connection to the daemon: blocking, with time limits, used by one thread at a time.
 * No call ever raises SIGPIPE.
 *
 * The program may close all descriptors that it does not know, ours among them, and then open a
 * file that gets the same number. So a link knows the file behind its number, looks before each
 * use, and lets go of a number that is another file's: that is the program's to read, to write and
 * to close. Between a look and the use are a few instructions, in which the program would have to
 * close our number and to open as many files as are below it: the number is high for that reason.
 * While we wait for the socket, the kernel waits for the one that we meant, whatever the number is
 * by then. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/wire/wire.h"

struct link {
	_Atomic int fd; /* -1: closed or broken. Atomic, because a fork may come at any moment */
	_Atomic ino_t file; /* the socket behind fd; no two of those that are open have the same */
	bool plain; /* the thread that uses it blocks SIGPIPE: read() and write() do, but with a
		     * descriptor; confined.h says what for. link_open() sets it to false */
	struct buffer in, out;
	struct arena arena; /* of the last message received */
	struct arena scratch;
};

/* For descriptors of ours, out of the way of programs that count on small ones, or close them: a
 * program gets this number for a file of its own only when it has as many open, or asks for it. */
int link_high_number(void);

/* Connects to the Unix socket at path. -errno. */
int link_open(struct link *l, const char *path);
void link_close(struct link *l);

/* The socket's number as a file, to be told from others; 0: fd is not open. */
ino_t link_file(int fd);

/* Closes fd if it is still that file. For a forked child, whose link is the parent's to use. */
void link_leave(int fd, ino_t file);

/* Sends m, with fd beside it unless it is -1. -ETIMEDOUT after timeout_ns without progress; any
 * failure closes the link. */
int link_send(struct link *l, const struct wire_message *m, int fd, uint64_t timeout_ns);

/* 0: *ret lives until the next call; -EAGAIN: nothing came within timeout_ns; else -errno, closed:
 * -EBADF when the program has closed it, which is noticed at the end of timeout_ns at the latest.
 */
int link_receive(struct link *l, struct wire_message *ret, uint64_t timeout_ns);

#endif
