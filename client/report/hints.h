/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Hints that the measured values suggest. Each names the value that it follows from, and a remedy.
 * Kernels are judged by launch shape, whatever the rows of the report are, because a kernel may
 * wait in one shape and be bound by memory in another.
 *
 *	hints_new(groups);
 *	hints_record(h, record);
 *	...
 *	hints_find(h, view);
 */

#include "client/report/view.h"
#include "client/store/reader.h"

enum { HINTS_MAX = 6 };

struct hint {
	const char *name, *shown; /* the whole name, and the name as tables show it; both are safe
			       for a terminal */
	const char *text;
};

struct hints;

/* The hints make groups of their own beside these (groups_beside()). NULL: out of memory. */
struct hints *hints_new(struct groups *groups);
struct hints *hints_free(struct hints *h); /* takes NULL, returns NULL */

/* The caller passes each record to the groups as well. */
void hints_record(struct hints *h, const struct gpuctr_record *record);

/* To be called after the last capture. If the view's rows are operators, there are hints about
 * operators too. 0 or -ENOMEM. */
int hints_find(struct hints *h, const struct view *v);
/* Returns the number of hints. *ret_left_out: how many more HINTS_MAX leaves out. */
size_t hints_list(const struct hints *h, const struct hint **ret, size_t *ret_left_out);

/* Appends the hints in lines of at most width columns. */
void hints_print(const struct hints *h, size_t width, struct buf *b);
