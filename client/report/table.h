/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TABLE_H
#define CLIENT_REPORT_TABLE_H

/* A view as a table for people, at most width columns wide: columns that do not fit beside the
 * names go into a further table below; where not even one does, each row becomes a few lines. */

#include "client/report/view.h"

/* Appends it. 0 or -ENOMEM. */
int table_print(const struct view *v, size_t width, struct buf *b);

#endif
