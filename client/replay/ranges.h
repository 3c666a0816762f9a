/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The call sites of a recording: their new numbers, and how paths match the expressions of a
 * capture.
 */

#include "client/agent/intern.h"
#include "client/agent/nvtx_filter.h"
#include "proto/base/map.h"

struct ranges {
	struct nvtx_filter *filter; /* the caller sets these two */
	struct intern *intern;
	struct map known;		  /* by old number */
	const struct gpuctr_site **chain; /* a path, innermost first */
	size_t max_chain;
};

void ranges_deinit(struct ranges *r);

/* Returns the new number of a site, which is sent with those around it. 0: it is NULL, or memory
 * ran out. */
uint32_t ranges_number(struct ranges *r, const struct gpuctr_site *site);

/* The new path of a record. */
void ranges_path(struct ranges *r, const struct gpuctr_record *record, struct site_path *ret);

/* Is the launch of this record measured? */
bool ranges_select(struct ranges *r, const struct gpuctr_record *record);
