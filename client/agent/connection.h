/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's connection to the daemon: blocking, with time limits, used by one thread at a time.
 * No call ever raises SIGPIPE.
 *
 * The program may close all descriptors that it does not know, ours among them, and then open a
 * file that gets the same number. So a connection remembers which file its number meant, checks
 * that before each use, and forgets a number that now means another file, which belongs to the
 * program. Between check and use are a few instructions, in which the program would have to close
 * our number and open as many files as there are lower numbers; therefore the number is high. A
 * wait for the socket is not affected: the kernel waits for the file that the number meant at the
 * beginning. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct connection {
	_Atomic int fd; /* -1: closed or broken. Atomic, because a fork may come at any moment */
	_Atomic ino_t file; /* the socket behind fd; no two of those that are open have the same */
	bool plain;   /* the thread that uses it blocks SIGPIPE: read() and write() do, but with a
		       * descriptor; confined.h says what for. connection_open() sets it to false */
	bool courier; /* fd is the program's end of what ties it to its courier, which has the
		       * socket: courier.h */
	struct buffer in, out;
	struct arena arena; /* of the last message received */
	struct arena scratch;
	/* Since when the sending thread waits for the daemon to read, 0: it does not; and how long
	 * it has waited before, in all. */
	_Atomic uint64_t waits_since_ns, waited_ns;
};

#define CONNECTION_NO_LIMIT UINT64_MAX /* as a timeout */

/* Connects to the Unix socket at path. -errno. */
int connection_open(struct connection *l, const char *path);
void connection_close(struct connection *l);

/* Sends m, with fd beside it unless it is -1. -ETIMEDOUT after timeout_ns without progress; any
 * failure closes the connection, also that the program has closed it (-EBADF), which is noticed
 * within a second. */
int connection_send(struct connection *l, const struct wire_message *m, int fd,
		    uint64_t timeout_ns);

/* Sends messages that are encoded already, without a limit. */
int connection_send_encoded(struct connection *l, const struct buffer *b);

/* 0: *ret lives until the next call; -EAGAIN: nothing came within timeout_ns; else -errno, closed:
 * -EBADF when the program has closed it, which is noticed at the end of timeout_ns at the latest.
 */
int connection_receive(struct connection *l, struct wire_message *ret, uint64_t timeout_ns);

/* Connects, and introduces this process to the daemon. -errno. */
int hello_send(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello);

/* The same, and takes this process's part of a capture. *ret lives in
 * arena. 0, or a positive code with r filled; the connection is closed then. */
int hello_say(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	      struct arena *arena, struct wire_agent_welcome *ret, struct refusal *r);

/* A copy of a welcome that the connection received, in arena. False: out of memory. */
bool hello_keep(const struct wire_message *m, struct arena *arena, struct wire_agent_welcome *ret);
