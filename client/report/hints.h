/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_HINTS_H
#define CLIENT_REPORT_HINTS_H

/* What the measured values suggest, each with the value it follows from. */

#include "client/report/view.h"

enum { HINTS_MAX = 6 };

struct hints {
	struct {
		size_t row; /* of those of the view that are shown */
		char *text; /* safe for a terminal */
	} items[HINTS_MAX];
	size_t n, n_left_out;
};

/* For the shown rows. 0 or -ENOMEM; to be deinitialised in any case. */
int hints_find(const struct view *v, struct hints *ret);
void hints_deinit(struct hints *h);

/* Appends them in lines of at most width columns; nothing where nothing follows. 0 or -ENOMEM. */
int hints_print(const struct view *v, size_t width, struct buf *b);

#endif
