/* SPDX-License-Identifier: Apache-2.0 */

/* Operations are counted in loops over kernels and samples (records), with weights that make each
 * last half a nanosecond to one. Some work is done once, on a part of the records (the clocks'
 * shift, profiles), so the first records earn more. The recorded and simulated programs of the
 * tests need up to 5,300 operations for each record and metric if there are few records, and 500 if
 * there are many; 60,000 kernels of 4 us in steps of 3,000, in samples of 200 us, need 42,000.
 * Equations of four streams, with steps of 600 kernels, take 100 bytes a record and metric. */

#include "client/attribution/effort.h"

#include <math.h>

#define LEAST 2e8
#define FIRST 65536 /* records */
#define OF_FIRST 50000
#define OF_OTHERS 6000
#define BYTES_LEAST ((double)(16 << 20))
#define BYTES 128
#define PAUSE 1e7

void effort_earn(struct effort *e, double metrics)
{
	e->earned += metrics * (e->records < FIRST ? OF_FIRST : OF_OTHERS);
	e->earned += e->records == 0 ? LEAST : 0;
	e->bytes_most += metrics * BYTES + (e->records == 0 ? BYTES_LEAST : 0);
	e->records++;
}

int effort_spend(struct effort *e, double operations)
{
	if (!e) {
		return 0;
	}
	e->spent += operations;
	if (e->on_pause && e->spent - e->paused >= PAUSE) {
		e->paused = e->spent;
		e->is_cancelled |= e->on_pause(e->user) != 0;
	}
	e->is_over |= e->is_cancelled || e->spent > e->earned;
	return e->is_over;
}

int effort_reserve(const struct effort *e, double operations)
{
	return e && (e->is_over || operations > effort_left(e));
}

int effort_take(struct effort *e, size_t bytes)
{
	if (e && e->bytes + (double)bytes > e->bytes_most) {
		return 1;
	}
	if (e) {
		e->bytes += (double)bytes;
	}
	return 0;
}

void effort_give_back(struct effort *e, size_t bytes)
{
	if (e) {
		e->bytes -= (double)bytes;
	}
}

double effort_left(const struct effort *e)
{
	return e ? fmax(0, e->earned - e->spent) : INFINITY;
}

void effort_renew(struct effort *e)
{
	e->is_over = e->is_cancelled || e->spent > e->earned;
}
