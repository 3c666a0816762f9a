/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_CONFINED_H
#define GPUCTR_AGENT_CONFINED_H

/* A program may shut itself in once it has what it needs, with a seccomp filter that kills whoever
 * opens a connection, or sends a message. A filter of one thread alone leaves our threads as they
 * were; one of all threads covers them as well. What a filter forbids a process cannot read. So a
 * thread of ours that is under a newer filter than at the beginning opens nothing any more, and
 * makes no call but those that it has made all the time, on what it has open. */

#include <stdbool.h>

#include "proto/wire/status.h"

/* Of one thread; as they are unknown where /proc is not there. */
struct filters {
	int mode, n; /* "Seccomp" and "Seccomp_filters" (Linux 5.9) */
};

/* Those of the calling thread, read from a file that is opened and closed. */
struct filters filters_of_thread(void);
bool filters_differ(struct filters first, struct filters now);

/* From a thread of ours that lives as long as anybody asks, before the program goes on. Later calls
 * do nothing. */
void confined_begin(void);

/* Has that thread come under another filter since? False before confined_begin(). */
bool confined_is(void);

/* Why nothing is asked for. */
void confined_refusal(struct refusal *r);

/* In a child that was forked without exec: the file is the parent's. */
void confined_leave_to_parent(void);

#endif
