/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of kernels at each call site in the program. The caller says what a call site is: a stack
 * frame of a flame graph, a line of an export. In a capture with a budget the sums are estimates
 * for all launches, and the call sites of a kernel add up to the table's estimate of that kernel.
 *
 *	site_sums_new(intake, NULL);
 *	site_sums_at(p, "17");	// before the intake gets the record
 *	...
 *	site_sums_finish(p);
 *	site_sums_each(p, on_site, userdata);
 */

#include "client/report/stack_frames.h"
#include "client/report/intake.h"

/* The outermost stack frame of launches whose call site is not known. */
#define SITE_SUMS_NOWHERE "(none of its kind was measured)"

/* The message of exports where a capture with a budget has no strata. */
#define SITE_SUMS_BROKE_OFF                                                                       \
	"launches were chosen at random (--budget), and the capture broke off before it told of " \
	"the\nothers: sums are of those that were measured\n"

struct site_sum {
	const char *site; /* the caller's name of the call site; "": launches whose call site is not
			     known */
	const char *kernel;
	double launches;      /* measured or not */
	uint64_t measured;    /* that many of them */
	const double *values; /* sums, one for each measure of site_sums_kernels(); NaN: not known,
				 or not a sum */
};

struct site_sums;

/* kernels: groups by kernel alone, to which the caller adds records and strata, and which the
 * caller finishes; NULL: call sites have their own. Returns NULL when memory runs out. */
struct site_sums *site_sums_new(struct intake *in, struct groups *kernels);
struct site_sums *site_sums_free(struct site_sums *p); /* takes NULL, returns NULL */

/* Sets the call site of the records that follow. 0 or -ENOMEM. */
int site_sums_at(struct site_sums *p, const char *site);
/* For callers whose call sites are the stack frames of kernels. site_sums_frame() returns the stack
 * frame of a call site, or one within SITE_SUMS_NOWHERE where nothing says where the launches were;
 * NULL: out of memory. */
int site_sums_at_frame(struct site_sums *p, const struct stack_frame *frame);
struct stack_frame *site_sums_frame(struct stack_frames *f, const struct site_sum *site);
int site_sums_finish(struct site_sums *p);

/* By kernel alone. */
struct groups *site_sums_kernels(struct site_sums *p);

/* Calls each() for the call sites, sorted by kernel and by text. The call site is borrowed for the
 * call. 0, -ENOMEM, or what each() returned other than 0, which ends it. */
int site_sums_each(struct site_sums *p, int (*each)(const struct site_sum *site, void *userdata),
		   void *userdata);
