/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What becomes of a capture on many nodes. Each node's client writes lines to its standard output,
 * fields with tabs between them:
 *
 *	file	NODE	INODE	PATH
 *	node	NAME	STATUS	KERNELS	WHY
 */

#include "client/cli/files.h"
#include "client/cli/run_options.h"

/* Zero-initialised by the caller, but for expected. */
struct nodes {
	unsigned expected;
	struct node *items;
	size_t n;
	struct strings files; /* that are here */
};

/* Of one node, for the client that has started it there. */
void nodes_write(int status, uint64_t kernels);

/* The lines of some nodes. */
void nodes_read(struct nodes *nodes, const char *text);
/* Prints which nodes failed and why, and the report of the files. status: the worst of srun's.
 * Returns the exit status. */
int nodes_conclude(struct nodes *nodes, const struct run_options *o,
		   const struct verb *const *verbs, int status);
void nodes_deinit(struct nodes *nodes);
