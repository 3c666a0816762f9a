/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/buf.h"

/* What the client may do with a descriptor that may be a terminal. */

/* False also with TERM=dumb, which knows no escape sequences. */
bool terminal_is(int fd);
/* A terminal, and NO_COLOR is not set: bold and dim text is allowed. */
bool terminal_has_style(int fd);
/* Columns of the terminal, else $COLUMNS, else 120. */
size_t terminal_width(int fd);

/* Appends text, in bold where styled. text_width() and text_fit() do not count the escape
 * sequences. */
void terminal_bold(struct buf *b, bool styled, const char *text);
