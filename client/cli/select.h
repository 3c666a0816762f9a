/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SELECT_H
#define CLIENT_CLI_SELECT_H

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"
#include "client/cli/selector.h"

/* One that was chosen. */
struct chosen {
	unsigned pid;	  /* as the daemon sees it */
	unsigned own_pid; /* as we see it */
	char program[64];
	char rank[32]; /* as it says; "": it does not */
	bool foreign;  /* another user's */
};

struct selected {
	unsigned *ids;	      /* owned */
	struct chosen *items; /* owned; in the same order */
	size_t n;
	unsigned busy;	     /* matched, and measured by somebody already: told */
	unsigned registered; /* that were there to choose from */
};

/* Asks the daemon, and tells of those that match and are busy and of pids that are not registered.
 * 0, -ENOMEM, or a code of the library, as for gpuctr_last_error(). */
int select_processes(struct gpuctr *g, const struct selector *s, struct selected *ret);
/* The same; false: there are none that could be captured, which was told, as any error was. */
bool select_some(struct gpuctr *g, const struct selector *s, struct selected *ret);
void selected_deinit(struct selected *s);

/* "python3 (pid 4711), python3 (pid 4712) and 6 more" */
void selected_describe(const struct selected *s, struct buf *b);
/* Takes out what the daemon has left out of the capture, and says so. *ret is what was chosen
 * there; false: the notice is of nothing that was chosen. */
bool selected_leave_out(struct selected *s, const struct gpuctr_notice *notice, struct chosen *ret);

#endif
