/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_HINTS_H
#define CLIENT_REPORT_HINTS_H

/* What the measured values suggest, each with the value it follows from. */

#include "client/report/view.h"

/* Appends them for the shown rows, in lines of at most width columns; nothing where nothing
 * follows, and with several keys. 0 or -ENOMEM. */
int hints_print(const struct view *v, size_t width, struct buf *b);

#endif
