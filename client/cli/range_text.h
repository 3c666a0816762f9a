/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"
#include "proto/base/json.h"

/* {"domain":...,"message":...,"category":...,"color":...} */
void json_range(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at);
/* The range and all ranges around it, outermost first, separated by commas. */
void json_stack(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at);
/* Adds "payload", which is null if the range has none. */
void json_payload(struct json *m, const struct gpuctr_occurrence *at);
/* The range's text as the program wrote it, but without PyTorch's op_id and input_op_ids. */
void range_text(struct buf *b, const struct gpuctr_site *site, const struct gpuctr_occurrence *at);
/* Members "seen", "measured", ... */
void json_totals(struct json *m, const struct gpuctr_totals *t);

/* "kernel", "cooperative", "graph", "graph_kernel" */
const char *format_launch_kind(enum gpuctr_launch_kind kind);
/* "gpu", "range", "none" */
const char *format_clock(enum gpuctr_clock clock);

/* Appends a range and the ranges around it, outermost first, with separator between them. A stack
 * from a file may be as deep as the file is long, with messages of 16 kB, so there is no recursion.
 * Ranges beyond the innermost 4,096, or beyond 32 kB of messages, become one range with the message
 * "..". */
void range_stack_add(struct buf *b, const struct gpuctr_site *site,
		     const struct gpuctr_occurrence *at, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_site *site,
				 const struct gpuctr_occurrence *at));
