/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bounds what an attribution may cost. Whoever owns the kernels chooses their names, times and
 * streams, and so how much there is to calculate. The bounds grow with the kernels and samples
 * received. */

#include <stddef.h>

/* Zero-initialised by the caller. */
struct effort {
	double records;		     /* kernels and samples received */
	double earned, spent;	     /* operations */
	double bytes_most, bytes;    /* limit and present size of equations */
	double paused;		     /* value of spent when on_pause() was last called */
	int is_over;		     /* nothing more is calculated until effort_renew() */
	int is_cancelled;	     /* on_pause() ended the calculation for good */
	int (*on_pause)(void *user); /* called every few milliseconds; not 0: cancel; may be NULL */
	void *user;
};

/* Raises the bounds for one more kernel or sample; metrics: number of metrics to calculate. */
void effort_earn(struct effort *e, double metrics);

/* Counts operations. Positive: the effort is over. e: NULL stands for no bound. */
int effort_spend(struct effort *e, double operations);

/* Call before a calculation that needs so many operations, or bytes, which effort_take() counts.
 * Positive: fewer are left, so the caller must not begin it. This does not end the effort. */
int effort_reserve(const struct effort *e, double operations);
int effort_take(struct effort *e, size_t bytes);

void effort_give_back(struct effort *e, size_t bytes);
double effort_left(const struct effort *e);
/* Allows calculations again, if operations were earned since and on_pause() has not cancelled. */
void effort_renew(struct effort *e);
