/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The threads that call the driver. Each does one call at a time and serves one lease, so a call
 * that does not return holds up no other lease. */

#include <stdbool.h>

#include "daemon/granter/granter.h"
#include "daemon/granter/call.h"

enum { THREADS = GRANTER_LEASES_MAX };

/* Starts the threads, once in a process. -errno. */
int threads_start(void);

/* Readable when a call is done. */
int threads_fd(void);
void threads_acknowledge(void);

/* Gives a call to a thread that has none. */
void thread_give(unsigned thread, const struct call *call);

/* True when the call is done: *ret is the call with its result, and the thread has none. */
bool thread_take(unsigned thread, struct call *ret);
