/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The call sites of a recording: gives them new numbers, and matches their paths to the expressions
 * of a capture. */

#include "client/agent/intern.h"
#include "client/agent/nvtx_filter.h"
#include "proto/base/map.h"

struct ranges {
	struct nvtx_filter *filter; /* the caller sets these two */
	struct intern *intern;
	struct map known;		  /* by the site's number in the recording */
	const struct gpuctr_site **chain; /* a path, innermost first */
	size_t max_chain;
};

void ranges_deinit(struct ranges *r);

/* Returns the new number of a site, and defines it and the sites around it if they are new. 0: site
 * is NULL, or memory ran out. */
uint32_t ranges_number(struct ranges *r, const struct gpuctr_site *site);

/* Fills ret with the path of a record, in new numbers. */
void ranges_path(struct ranges *r, const struct gpuctr_record *record, struct site_path *ret);

/* Is the launch of this record measured? */
bool ranges_select(struct ranges *r, const struct gpuctr_record *record);
