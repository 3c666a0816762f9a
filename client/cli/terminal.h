/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/buf.h"

/* What a descriptor allows: whether it is a terminal, has styles, and how wide it is. */

/* Is fd a terminal with escape sequences? A terminal with TERM=dumb has none. */
bool terminal_is(int fd);
/* Is bold and dim text allowed? Only on a terminal, and if NO_COLOR is not set. */
bool terminal_has_style(int fd);
/* Columns of the terminal, else $COLUMNS, else 120. */
size_t terminal_width(int fd);

/* Appends text, in bold where styled. text_width() and text_fit() do not count the escape
 * sequences. */
void terminal_bold(struct buf *b, bool styled, const char *text);
