/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How the NVTX ranges of a recording match the expressions of a capture. */

#include "client/agent/nvtx_filter.h"
#include "client/store/reader.h"

/* Of each range, in the order of d->ranges; NULL: out of memory. For free(). */
uint64_t *ranges_match(struct nvtx_filter *f, const struct store_definitions *d);

/* Is the launch of this record measured? matches is what ranges_match() gave. */
bool ranges_select(struct nvtx_filter *f, const struct store_definitions *d,
		   const uint64_t *matches, const struct gpuctr_record *record);
