/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of kernels at each place in the program. The caller says what a place is: a frame of a flame
 * graph, a line of an export. In a capture with a budget the sums are estimates for all launches,
 * and the places of a kernel add up to the table's estimate of that kernel.
 *
 *	places_new(intake, NULL);
 *	places_at(p, "17");	// before the intake gets the record
 *	...
 *	places_finish(p);
 *	places_each(p, on_place, userdata);
 */

#include "client/report/frames.h"
#include "client/report/intake.h"

/* The outermost frame of launches whose place is not known. */
#define PLACES_NOWHERE "(none of its kind was measured)"

/* The message of exports where a capture with a budget has no strata. */
#define PLACES_BROKE_OFF                                                                          \
	"launches were chosen at random (--budget), and the capture broke off before it told of " \
	"the\nothers: sums are of those that were measured\n"

struct place {
	const char
		*place; /* the caller's name of the place; "": launches whose place is not known */
	const char *kernel;
	double launches;      /* measured or not */
	uint64_t measured;    /* that many of them */
	const double *values; /* sums, one for each measure of places_kernels(); NaN: not known, or
				 not a sum */
};

struct places;

/* kernels: groups by kernel alone, to which the caller adds records and strata, and which the
 * caller finishes; NULL: places have their own. Returns NULL when memory runs out. */
struct places *places_new(struct intake *in, struct groups *kernels);
struct places *places_free(struct places *p); /* takes NULL, returns NULL */

/* Sets the place of the records that follow. 0 or -ENOMEM. */
int places_at(struct places *p, const char *place);
/* For callers whose places are the frames of kernels. places_frame() returns the frame of a place,
 * or one within PLACES_NOWHERE where nothing says where the launches were; NULL: out of memory. */
int places_at_frame(struct places *p, const struct frame *frame);
struct frame *places_frame(struct frames *f, const struct place *place);
int places_finish(struct places *p);

/* By kernel alone. */
struct groups *places_kernels(struct places *p);

/* Calls each() for the places, sorted by kernel and by text. The place is borrowed for the call. 0,
 * -ENOMEM, or what each() returned other than 0, which ends it. */
int places_each(struct places *p, int (*each)(const struct place *place, void *userdata),
		void *userdata);
