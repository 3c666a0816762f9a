/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an attribution may cost. Whoever owns the kernels chooses their names, times and streams,
 * and so how much there is to calculate: this is bounded in proportion to what came. */

#include <stddef.h>

/* Zero-initialised by the caller. */
struct effort {
	double records;		     /* that came */
	double earned, spent;	     /* operations */
	double bytes_most, bytes;    /* of equations */
	double paused;		     /* spent when on_pause was last called */
	int is_over;		     /* nothing more is calculated until effort_renew() */
	int is_cancelled;	     /* for good */
	int (*on_pause)(void *user); /* every few milliseconds; not 0: cancel. May be NULL */
	void *user;
};

/* One more kernel or sample has come, for each metric. */
void effort_earn(struct effort *e, double metrics);

/* Positive: the effort is over. e: NULL stands for no bound. */
int effort_spend(struct effort *e, double operations);

/* Before something that needs so many operations, or bytes. Positive: there are not as many left,
 * and it is not begun; the effort is not over for that. */
int effort_reserve(const struct effort *e, double operations);
int effort_take(struct effort *e, size_t bytes);

void effort_give_back(struct effort *e, size_t bytes);
/* Operations that are left. */
double effort_left(const struct effort *e);
/* Goes on, with what was earned since. */
void effort_renew(struct effort *e);
