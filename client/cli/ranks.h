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
/* Notes in a word why kernels were not measured; only the first reason of a process is kept. */
void ranks_notice(struct ranks *r, const struct gpuctr_notice *notice);
/* Finds out why a process ended without a goodbye. */
void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end);

/* Calls on_stopped for each process that has not ended and was found to be stopped, by a signal or
 * by a debugger, once each time that the process stops. */
typedef void (*ranks_on_stopped)(unsigned pid, const char *program, void *userdata);
void ranks_look(struct ranks *r, ranks_on_stopped on_stopped, void *userdata);

/* Calls on_silent for each process that takes part, is not stopped and has not answered yet. */
void ranks_look_for_silent(const struct ranks *r, ranks_on_stopped on_silent, void *userdata);

/* Were there processes, none of which has answered? */
bool ranks_none_answered(const struct ranks *r);

/* Has a process ended, or lost its connection, without a goodbye? */
bool ranks_are_speechless(const struct ranks *r);

/* Reports, at the end of the capture, how many kernels each process launched, and why some were not
 * measured. each false: only processes with which something went wrong. */
void ranks_tell(const struct ranks *r, bool each);

/* For tests: appends the report of process i. */
void ranks_describe(const struct ranks *r, size_t i, struct buf *b);
