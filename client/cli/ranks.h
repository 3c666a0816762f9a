/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/select.h"
#include "proto/base/buf.h"

/* One row for each process of a capture, on one node or on many: a capture of a job runs a client
 * on each node, and these write their rows for the client that prints them. Zero-initialised by the
 * caller. */
struct ranks {
	struct rank *items; /* owned */
	size_t n;
	size_t last;				     /* that was looked for */
	size_t n_speechless;			     /* that ended without a goodbye */
	size_t n_cut_off;			     /* that run on, and said none either */
	uint64_t uncounted_ns, cut_off_uncounted_ns; /* the longest of these */
	char *metric, *unit; /* the first column's, when it adds up; NULL: it does not */
};

void ranks_deinit(struct ranks *r);

/* For the capture of one node. A process is left out if memory runs out. */
void ranks_plan(struct ranks *r, const struct gpuctr_plan *plan);
/* Adds a process that was chosen and has not attached yet. */
void ranks_expect(struct ranks *r, const struct chosen *chosen);
void ranks_process(struct ranks *r, const struct gpuctr_process *process);
void ranks_record(struct ranks *r, const struct gpuctr_record *record);
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

/* The capture is over: completes the rows of processes that never attached, or have not ended. all:
 * the totals of all processes, NULL if unknown; if only one process has not reported its end, it
 * gets what the others leave of these totals. */
void ranks_end(struct ranks *r, const struct gpuctr_totals *all);

/* Is there more to tell than one process's totals? */
bool ranks_tell(const struct ranks *r);

/* Were there processes, of which none has reported a kernel? */
bool ranks_none_answered(const struct ranks *r);

/* Says of each process why something was not measured. */
void ranks_tell_why(const struct ranks *r);

/* By rank, then by pid; at most max rows, and how many more there are. 0: all. */
void ranks_print(struct ranks *r, size_t max, struct buf *b);
