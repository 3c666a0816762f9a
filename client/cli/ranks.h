/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/select.h"
#include "proto/base/buf.h"

/* What becomes of each process of a capture on this node. Zero-initialised by the caller. */
struct ranks {
	struct rank *items; /* owned */
	size_t n;
};

void ranks_deinit(struct ranks *r);

/* Adds a process that was chosen and has not attached yet. A process is left out if memory runs
 * out. */
void ranks_expect(struct ranks *r, const struct chosen *chosen);
void ranks_process(struct ranks *r, const struct gpuctr_process *process);
/* The process was expected and does not take part. */
void ranks_leave_out(struct ranks *r, unsigned pid, const char *why);
/* Notes in a word why something was not measured; the first reason of a process counts. */
void ranks_notice(struct ranks *r, const struct gpuctr_notice *notice);
/* Finds out why a process ended without a goodbye. */
void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end);

/* Calls on_stopped for each process that has not ended and was found to be stopped, by a signal or
 * by a debugger, once for each time. */
typedef void (*ranks_on_stopped)(unsigned pid, const char *program, void *userdata);
void ranks_look(struct ranks *r, ranks_on_stopped on_stopped, void *userdata);

/* Calls it, once, for each process that takes part, is not stopped and has not answered yet. */
void ranks_look_for_silent(const struct ranks *r, ranks_on_stopped on_silent, void *userdata);

/* Were there processes, of which none has reported a kernel? */
bool ranks_none_answered(const struct ranks *r);

/* Has one ended, or lost its connection, without a goodbye? */
bool ranks_are_speechless(const struct ranks *r);

/* The capture is over: says of each process, or else of those alone that something went wrong with,
 * how many kernels it launched, and why some were not measured. */
void ranks_tell(const struct ranks *r, bool each);

/* For tests. Appends what is said of the process with this place. */
void ranks_describe(const struct ranks *r, size_t i, struct buf *b);
