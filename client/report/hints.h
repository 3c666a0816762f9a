/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_HINTS_H
#define CLIENT_REPORT_HINTS_H

/* What the measured values suggest, each with the value it follows from. Kernels are judged by
 *launch shape, whatever the rows of the report are: a kernel may wait in one shape and use the
 *memory in another.
 *
 *	hints_begin(h, plan, "run.gpuctr");	// for each capture
 *	hints_process(h, process);
 *	hints_record(h, record);
 *	...
 *	hints_find(h, view);
 */

#include "client/report/view.h"

enum { HINTS_MAX = 6 };

struct hint {
	char *name, *shown; /* whole, and as a table shows it; safe for a terminal */
	char *text;
};

struct hints;

struct hints *hints_new(void);		   /* NULL: out of memory */
struct hints *hints_free(struct hints *h); /* takes NULL, returns NULL */

/* As those of groups. */
int hints_begin(struct hints *h, const struct gpuctr_plan *plan, const char *name);
int hints_process(struct hints *h, const struct gpuctr_process *process);
int hints_record(struct hints *h, const struct gpuctr_record *record);
/* What of a record they do not look at: enum store_part. */
unsigned hints_without(const struct hints *h);

/* Once all has come. Where rows of the view are of operators, what these suggest is told as well. 0
 * or -ENOMEM. */
int hints_find(struct hints *h, const struct view *v);
/* Those that were found, and how many more there are. */
size_t hints_list(const struct hints *h, const struct hint **ret, size_t *ret_left_out);

/* Appends them in lines of at most width columns; nothing where nothing follows. */
void hints_print(const struct hints *h, size_t width, struct buf *b);

#endif
