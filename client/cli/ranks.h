/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RANKS_H
#define CLIENT_CLI_RANKS_H

#include <stdbool.h>
#include <stdio.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/select.h"
#include "proto/base/buf.h"

/* One row for each process of a capture, of one node or of many: a capture of a job on many nodes
 * is one client on each, which write their rows for the one that prints them. Zero-initialised by
 * the caller. */
struct ranks {
	struct rank *items; /* owned */
	size_t n;
	size_t last;	     /* that was looked for */
	size_t n_speechless; /* that ended without a goodbye */
	size_t n_cut_off;    /* that run on, and said none either */
	char *metric, *unit; /* the first column's, when it adds up; NULL: it does not */
};

void ranks_deinit(struct ranks *r);

/* Of one node: what its capture tells. A process that memory has no room for is left out. */
void ranks_plan(struct ranks *r, const struct gpuctr_plan *plan);
/* One that was chosen and has not come yet. */
void ranks_expect(struct ranks *r, const struct chosen *chosen);
void ranks_process(struct ranks *r, const struct gpuctr_process *process);
void ranks_record(struct ranks *r, const struct gpuctr_record *record);
/* It was expected and does not take part. */
void ranks_leave_out(struct ranks *r, unsigned pid, const char *why);
/* Why something was not measured, in a word: the first one that it tells. */
void ranks_notice(struct ranks *r, const struct gpuctr_notice *notice);
/* Looks at the process, when it ended without a goodbye. */
void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end);

/* Calls on_stopped for each process that has not ended and was found to be stopped, by a signal or
 * by a debugger, once for each time. */
typedef void (*ranks_on_stopped)(unsigned pid, const char *program, void *userdata);
void ranks_look(struct ranks *r, ranks_on_stopped on_stopped, void *userdata);

/* The same once, for those that take part, are not stopped and have not answered yet. */
void ranks_look_for_silent(const struct ranks *r, ranks_on_stopped on_silent, void *userdata);

/* The capture is over: what has become of those that never came, and of those that are still there.
 * all is what is known of all processes together: where one alone has not told its end, the rest of
 * it is that one's. NULL: nothing is known. */
void ranks_end(struct ranks *r, const struct gpuctr_totals *all);

/* Is there more to tell than one process's totals? */
bool ranks_tell(const struct ranks *r);

/* Were there processes, and has none said more than that it is there? */
bool ranks_none_answered(const struct ranks *r);

/* Lines, and back. false: it is no such line. */
void ranks_write(const struct ranks *r, const char *node, FILE *f);
bool ranks_read(struct ranks *r, const char *line);

/* Kernels, of all processes. */
uint64_t ranks_measured(const struct ranks *r);

/* By rank, then by node and pid; at most max rows, and how many more there are. 0: all. */
void ranks_print(struct ranks *r, size_t max, struct buf *b);

#endif
