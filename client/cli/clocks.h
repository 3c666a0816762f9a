/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/buf.h"

/* When the nodes of a capture began, and how far their clocks are from the clock of the
 * requesting machine. Zero-initialised by the caller. */
struct clocks {
	uint64_t asked_ns; /* by our clock: before any node could know */
	struct node_clock *items;
	size_t n;
};

void clocks_deinit(struct clocks *c);

/* Writes a node's line: its time now and its time when it began; 0: it has not begun. */
void clocks_write(FILE *f, const char *node, uint64_t now_ns, uint64_t begun_ns);
/* Takes a line that arrived at now_ns of our clock. False: it is no such line. */
bool clocks_read(struct clocks *c, const char *line, uint64_t now_ns);

/* Appends how far apart the nodes began, and which clocks are wrong by how much at least.
 * Appends nothing for one node whose clock is right. */
void clocks_print(const struct clocks *c, struct buf *b);
