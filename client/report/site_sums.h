/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sums of kernels at each stack frame of a capture whose metrics take turns: groups by frame, in
 * which those launches that had a metric stand for the others of their kind.
 *
 *	sites = site_sums_new();
 *	groups_begin(sites, plan, "run.gpuctr", NULL);
 *	site_sums_record(sites, frame, record);
 *	...
 *	groups_finish(sites);
 *
 * and then rows, each of a frame. */

#include "client/report/groups.h"
#include "client/report/stack_frames.h"

struct groups *site_sums_new(void); /* NULL: out of memory; free with groups_free() */
/* The frame is a kernel's. 0 or -ENOMEM. */
int site_sums_record(struct groups *sites, const struct stack_frame *frame,
		     const struct gpuctr_record *record);
/* The stack frame of a row. */
struct stack_frame *site_sums_frame(const struct stack_frames *frames, const struct group *row);
