/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints a view as a table for people, at most width columns wide. Columns that do not fit beside
 * the names go into a further table below. If not even one column fits, each row becomes a few
 * lines. Columns without any known value are left out, unless the user has named them. */

#include "client/report/view.h"

/* Appends the view. If ret_more is not NULL, appends one table only, unchooses the columns that do
 * not fit into it, and returns how many these are. 0 or -ENOMEM. */
int table_print(struct view *v, size_t width, struct buf *b, size_t *ret_more);
