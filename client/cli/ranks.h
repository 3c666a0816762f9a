/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RANKS_H
#define CLIENT_CLI_RANKS_H

#include <stdbool.h>
#include <stdio.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"

/* One row for each measured process, of one node or of many: a capture of a job on many nodes is
 * one client on each, which write their rows for the one that prints them. Zero-initialised by the
 * caller. */
struct ranks {
	struct rank *items; /* owned */
	size_t n;
	char *metric, *unit; /* the first column's, when it adds up; NULL: it does not */
};

void ranks_deinit(struct ranks *r);

/* Of one node: what its capture tells. A process that memory has no room for is left out. */
void ranks_plan(struct ranks *r, const struct gpuctr_plan *plan);
void ranks_process(struct ranks *r, const struct gpuctr_process *process);
void ranks_record(struct ranks *r, const struct gpuctr_record *record);
void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end);

/* Lines, and back. false: it is no such line. */
void ranks_write(const struct ranks *r, const char *node, FILE *f);
bool ranks_read(struct ranks *r, const char *line);

/* By rank, then by node and pid. */
void ranks_print(struct ranks *r, struct buf *b);

#endif
