/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RANGE_STACK_H
#define CLIENT_CLI_RANGE_STACK_H

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"

/* Appends a range and those around it, outermost first, with separator between them; at most the
 * innermost max of them. A stack from a file may be as deep as the file is long, and each message
 * 16 kB: nothing calls itself here, and what is around 4,096 of them, or around those whose
 * messages have 32 kB together, is one range with the message "..". */
void range_stack_add(struct buf *b, const struct gpuctr_range *range, size_t max, char separator,
		     void (*add)(struct buf *b, const struct gpuctr_range *range));

#endif
