/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A small process of ours, gpuctr-courier, that holds the agent's connection to the daemon. The
 * agent's threads exchange bytes with it through shared memory, and the only system call that they
 * make for it is futex(). A seccomp filter that the program loads for all of its threads does not
 * cover the courier, which sees the filter in /proc, and from then on wakes no thread of the agent
 * that sleeps: courier.c.
 *
 * A process has one courier at a time, which one thread uses; courier_look() is for any. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct connection;

#define COURIER_FOR_EVER UINT64_MAX

/* Hands l's socket over. l may be closed: then courier_rest() is all that can be asked. False:
 * there is no courier, and l is as it was.
 *
 * standby: what comes reaches the calling thread only while it has the filters that it has now. */
bool courier_start(struct connection *l, bool standby);

/* In a capture: it is the calling thread whose filters count. */
void courier_watch_me(void);

/* A capture begins, or is over. */
void courier_be_idle(bool idle);

/* Bytes; 0: none now; -EPIPE: the connection has ended. */
ssize_t courier_read(void *data, size_t bytes);
ssize_t courier_write(const void *data, size_t bytes);

/* 1: there is something to read, or room to write, or the connection has ended; 0: time is over. */
int courier_wait(bool to_read, uint64_t by_ns);

/* Waits until all is sent, or the connection has ended, or time is over. */
void courier_flush(uint64_t by_ns);

/* Ends the connection once all is sent, and the courier. True: the calling thread may make calls of
 * the system. */
bool courier_quit(void);

/* Ends the courier, and returns after so long a time; if by then the program has shut its threads
 * in, never. */
void courier_rest(struct connection *l, uint64_t ns);

bool courier_is_there(void);

/* Have the agent's threads come under another filter? The courier looks now; one that has ended
 * has looked before. */
bool courier_look(void);

/* The same, and of the calling thread, which is the program's. */
bool courier_look_at_caller(void);
