/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Groups that are given the same captures. Who reads the captures calls these functions once, and
 * each view that needs rows adds groups of its own. Zero-initialised by the caller, who does not
 * own the groups. */

#include "client/report/groups.h"

struct intake {
	struct groups *items[8];
	size_t n;
};

/* Returns g. NULL, when memory ran out, is passed on. */
struct groups *intake_add(struct intake *in, struct groups *g);

/* As the functions of groups. */
int intake_begin(const struct intake *in, const struct gpuctr_plan *plan, const char *name,
		 const char *host, struct buf *why);
int intake_process(const struct intake *in, const struct gpuctr_process *process);
int intake_record(const struct intake *in, const struct gpuctr_record *record,
		  const struct attribution *what);
