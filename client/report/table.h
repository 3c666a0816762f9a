/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TABLE_H
#define CLIENT_REPORT_TABLE_H

/* A view as a table for people, at most width columns wide: columns that do not fit beside the
 * names go into a further table below; where not even one does, each row becomes a few lines.
 * Columns of which nothing is known are left out, unless the view's user has named them. */

#include "client/report/view.h"

/* Appends it. ret_more: only one table is wanted, and how many columns would be in others, which
 * are chosen no longer; NULL: all tables. 0 or -ENOMEM. */
int table_print(struct view *v, size_t width, struct buf *b, size_t *ret_more);

#endif
