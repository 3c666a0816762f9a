/* SPDX-License-Identifier: Apache-2.0 */

/* Warnings about a comparison: the two captures have different clocks, machines or amounts of
 * work. */

#include <math.h>

#include "client/cli/summary.h"
#include "client/cli/text.h"

static const char *clock_of(const struct summary *s)
{
	uint64_t ranges = groups_clock(s->groups, GPUCTR_CLOCK_RANGE);
	uint64_t kernels = groups_clock(s->groups, GPUCTR_CLOCK_GPU);

	return ranges == 0    ? "the kernels' own"
	       : kernels == 0 ? "lengths of ranges"
			      : "partly the kernels' own, partly lengths of ranges";
}

/* A kernel's own time and the length of its range differ by about the time of a launch. This
 * difference would hide a change of the program. */
static void add_clocks(const struct summary *now, const struct summary *before, struct buf *b)
{
	buf_printf(b,
		   "TIMES ARE NOT COMPARED where their clocks differ: here they are %s, before "
		   "they were %s; a range is longer than its kernel, by some us. To compare "
		   "times, make both captures with the same --mode and metrics\n",
		   clock_of(now), clock_of(before));
}

static void add_machines(const struct summary *now, const struct summary_end *end,
			 const struct summary *before, const struct summary_end *end_before,
			 struct buf *b)
{
	CLEAN_BUF struct buf here = { 0 }, there = { 0 };

	summary_add_machine(now, end, &here);
	summary_add_machine(before, end_before, &there);
	if (strcmp(buf_string(&here), buf_string(&there)) != 0) {
		buf_printf(b, "MACHINES DIFFER: here %s; before %s: changes are of these, too\n",
			   buf_string(&here), buf_string(&there));
	}
	b->failed |= here.failed || there.failed;
}

/* A program that does half of the work in half of the time is no faster. */
static void add_launches(const struct summary *now, const struct summary *before, struct buf *b)
{
	double here = (double)groups_all(now->groups)->total_calls;
	double there = (double)groups_all(before->groups)->total_calls;

	if (there == 0 || fabs(here / there - 1) <= 0.01) {
		return;
	}
	buf_printf(b,
		   "LAUNCHES DIFFER: here %s, before %s (%+.1f%%): totals are of other amounts of "
		   "work; --columns :mean compares what a launch does\n",
		   TEXT_COUNT((uint64_t)here), TEXT_COUNT((uint64_t)there),
		   (here / there - 1) * 100);
}

void summary_print_against(const struct summary *now, const struct summary_end *end,
			   const struct summary *before, const struct summary_end *end_before,
			   bool clocks_differ, struct buf *b)
{
	if (clocks_differ) {
		add_clocks(now, before, b);
	}
	add_launches(now, before, b);
	add_machines(now, end, before, end_before, b);
}
