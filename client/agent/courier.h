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

/* Starts a courier and hands l's socket over to it. If l is closed, only courier_rest() may follow.
 * False: there is no courier, and l is unchanged.
 *
 * standby: the courier wakes the calling thread only while the thread's filters stay the same. */
bool courier_start(struct connection *l, bool standby);

/* In a capture: the courier looks at the filters of the calling thread from now on. */
void courier_watch_me(void);

/* A capture begins, or is over. */
void courier_be_idle(bool idle);

/* Return the number of bytes read or queued; 0: none now; -EPIPE: the connection has ended. */
ssize_t courier_read(void *data, size_t bytes);
ssize_t courier_write(const void *data, size_t bytes);

/* 1: there are bytes or room, or the connection has ended; 0: by_ns has passed. */
int courier_wait(bool to_read, uint64_t by_ns);

/* Waits until the courier has sent all bytes, the connection has ended, or by_ns has passed. */
void courier_flush(uint64_t by_ns);

/* Makes the courier send the queued bytes, end the connection and exit. True: no new filter is
 * known, so the calling thread may make system calls. */
bool courier_quit(void);

/* Ends connection and courier, and returns after ns; never if there is a new filter by then. */
void courier_rest(struct connection *l, uint64_t ns);

bool courier_is_there(void);

/* Are the agent's threads under a new filter? The courier looks now, or has looked before it ended.
 */
bool courier_look(void);

/* As courier_look(), also for the calling thread, which is the program's. */
bool courier_look_at_caller(void);
