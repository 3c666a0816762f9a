/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/summary.h"

/* What "top" prints at each interval. On a terminal an update replaces the one before; elsewhere
 * updates follow each other. */
struct live {
	struct keys keys; /* of the table's rows */
	const char *sort; /* of the table; NULL: its usual order */
	uint64_t interval_ns;
	uint64_t updates;	 /* how many are printed; 0: live_begin() decides */
	size_t width;		 /* 0: the terminal's */
	bool redraws;		 /* on a terminal, until it is ended */
	uint64_t shown;		 /* updates until now */
	uint64_t records, at_ns; /* of the update before: for the rate */
};

/* Decides whether updates replace each other; one update is the default where they do not. */
void live_begin(struct live *l);
/* Columns for an update. */
size_t live_width(const struct live *l);
/* Prints b as an update. 0, or a negative errno of standard output. */
int live_show(struct live *l, const struct buf *b);
/* Have all updates been printed? */
bool live_is_done(const struct live *l);

/* Appends "1,234 kernels", and ", 56/s" where the number grows and this is not the first update. */
void live_add_records(struct live *l, const struct summary *s, bool grows, struct buf *b);
/* Appends the table, as long as there is room for it. 0, -ENOMEM, or -EINVAL with why. */
int live_add_table(const struct live *l, struct summary *s, struct buf *b, struct buf *why);
