/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's connection to the daemon: blocking, with time limits, used by one thread at a time.
 * No call ever raises SIGPIPE.
 *
 * The program may close all descriptors that it does not know, ours among them, and then open a
 * file that gets the same number. So a connection remembers which file belongs to its descriptor,
 * and checks this before each use. If the descriptor has come to mean another file, the file is the
 * program's, and the connection forgets the descriptor. The descriptor's number is high: to fool
 * the check, the program would have to close it and open a file for each lower number between check
 * and use. A wait for the socket is safe: the kernel waits for the file that it found at the
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
	_Atomic ino_t file; /* inode of the socket behind fd, which no other open socket has */
	bool plain;   /* use read() and write() if no descriptor is sent, for confined.h; the using
			 thread must block SIGPIPE. connection_open() sets it to false */
	bool courier; /* fd is the program's end of the socket pair with its courier, which has the
			 socket: courier.h */
	struct buffer in, out;
	struct arena arena; /* holds the last message received */
	struct arena scratch;
	/* Since when the sending thread waits for the daemon to read (0: it does not), and the
	 * total time of its earlier waits. */
	_Atomic uint64_t waits_since_ns, waited_ns;
};

#define CONNECTION_NO_LIMIT UINT64_MAX /* as a timeout */

/* Connects to the Unix socket at path. -errno. */
int connection_open(struct connection *l, const char *path);
void connection_close(struct connection *l);

/* Sends m, and with it the descriptor fd unless fd is -1. -ETIMEDOUT after timeout_ns without
 * progress. Any failure closes the connection. If the program has closed the descriptor, fails with
 * -EBADF within a second. */
int connection_send(struct connection *l, const struct wire_message *m, int fd,
		    uint64_t timeout_ns);

/* Sends messages that are already encoded, without a time limit. */
int connection_send_encoded(struct connection *l, const struct buffer *b);

/* 0: *ret lives until the next call; -EAGAIN: nothing came within timeout_ns; else -errno, and the
 * connection is closed. If the program has closed the descriptor, fails with -EBADF after
 * timeout_ns at the latest. */
int connection_receive(struct connection *l, struct wire_message *ret, uint64_t timeout_ns);

/* Connects, and introduces this process to the daemon. plain: as in struct connection, from the
 * first message on, because the program may have loaded a filter since it started. -errno. */
int hello_send(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	       bool plain);

/* As hello_send(), and receives the welcome to a capture. *ret lives in arena. 0, or a positive
 * code with r filled and the connection closed. */
int hello_say(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	      struct arena *arena, struct wire_agent_welcome *ret, struct refusal *r);

/* A copy of a welcome that the connection received, in arena. False: out of memory. */
bool hello_keep(const struct wire_message *m, struct arena *arena, struct wire_agent_welcome *ret);
