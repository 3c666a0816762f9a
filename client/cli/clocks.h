/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_CLOCKS_H
#define CLIENT_CLI_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/cli/buf.h"

/* When the nodes of a capture began, and how far their clocks are from the one of whoever asked.
 * Zero-initialised by the caller. */
struct clocks {
	uint64_t asked_ns; /* by our clock: before any node could know */
	struct node_clock *items;
	size_t n;
};

void clocks_deinit(struct clocks *c);

/* A line of a node's: what its clock says now, and said when it began; 0: it has not. */
void clocks_write(FILE *f, const char *node, uint64_t now_ns, uint64_t begun_ns);
/* One that has come at now_ns of our clock. false: it is no such line. */
bool clocks_read(struct clocks *c, const char *line, uint64_t now_ns);

/* How far apart the nodes began, and whose clock is wrong by how much at least; of one node whose
 * clock is right, nothing. */
void clocks_print(const struct clocks *c, struct buf *b);

#endif
