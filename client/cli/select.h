/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/selector.h"
#include "proto/base/buf.h"

/* A process that was chosen. */
struct chosen {
	unsigned pid;	  /* as the daemon sees it */
	unsigned own_pid; /* as this client sees it */
	char program[64];
	char rank[32]; /* as the process claims; "": it claims none */
	bool foreign;  /* another user's */
};

struct selected {
	unsigned *ids;	      /* owned */
	struct chosen *items; /* owned; in the same order */
	size_t n;
	unsigned busy;	     /* number of matching processes that another capture measures */
	unsigned registered; /* number of registered processes, matching or not */
};

/* Asks the daemon, and reports matching processes that another capture measures and pids that are
 * not registered. False: no process can be captured, or an error; the reason was reported. */
bool select_some(struct gpuctr *g, const struct selector *s, struct selected *ret);
void selected_deinit(struct selected *s);

/* "python3 (pid 4711), python3 (pid 4712) and 6 more" */
void selected_describe(const struct selected *s, struct buf *b);
/* If the notice is about a selected process, which the daemon has left out: reports that, removes
 * the process from s and stores it in *ret. False: the notice is about no selected process. */
bool selected_leave_out(struct selected *s, const struct gpuctr_notice *notice, struct chosen *ret);
