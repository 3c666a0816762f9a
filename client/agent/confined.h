/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A program may confine itself after its start by a seccomp filter that kills a thread which opens
 * a connection or sends a message. A filter for one thread does not affect the agent's threads; a
 * filter for all threads does. A process cannot read what its filters forbid. So an agent's thread
 * that has come under a new filter opens nothing any more, and makes only system calls that it has
 * made before, on descriptors that it has open. */

#include <stdbool.h>
#include <sys/types.h>

#include "client/agent/filters.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct connection;

/* To be called before the program continues, by a thread of the agent's that outlives all calls of
 * confined_is(). Later calls do nothing. */
void confined_begin(void);

/* Has the agent's thread come under another filter since confined_begin()? False before. */
bool confined_is(void);

/* As confined_is(), also for the calling thread, which is the program's. */
bool confined_is_caller(void);

/* Fills r with the reason why the daemon is not asked. */
void confined_refusal(struct refusal *r);

/* Refuses a capture that begins. */
void confined_decline(struct connection *l, const struct wire_message *welcome);

/* To be called in a child that was forked without exec: the open file is the parent's. */
void confined_leave_to_parent(void);
