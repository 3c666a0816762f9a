/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_ROOFLINE_H
#define CLIENT_REPORT_ROOFLINE_H

/* A roofline in characters, at most width columns wide: the first rows of a view as letters, with
 * what they stand for below. Where no operations were measured it is bandwidth by time. */

#include "client/report/view.h"

enum { ROOFLINE_ROWS = 26 };

/* lines: with the lines of Unicode rather than ASCII. Appends it. 0, -ENOMEM, or -EINVAL: no row
 * has what it takes, and why says what is missing. */
int roofline_print(const struct view *v, size_t width, bool lines, struct buf *b, struct buf *why);

#endif
