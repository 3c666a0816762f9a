/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/json.h"

/* {"domain":...,"message":...,"category":...,"color":...,"payload":...} */
void json_range(struct buf *b, const struct gpuctr_range *range);
/* The range and all around it, outermost first, separated by commas. */
void json_stack(struct buf *b, const struct gpuctr_range *range);
/* Members "seen", "measured", ... */
void json_totals(struct json *m, const struct gpuctr_totals *t);
