/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* Appends a range and those around it, outermost first, with separator between them; at most the
 * innermost max. A stack from a file may be as deep as the file is long, with messages of 16 kB,
 * so there is no recursion, and what is outside of the innermost 4,096 ranges, or of 32 kB of
 * messages, becomes one range with the message "..". */
void range_stack_add(struct buf *b, const struct gpuctr_range *range, size_t max, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_range *range));
