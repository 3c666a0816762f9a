/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_LABELS_H
#define CLIENT_REPORT_LABELS_H

/* Names of whole rows, for where they stand in a line and not in columns. */

#include "client/report/view.h"

/* Of each row, in at most width columns, the names of its keys behind each other, safe for a
 * terminal and no two the same (names.h). Free with names_free(). NULL: out of memory. */
char **labels_shorten(const struct view *v, const struct group *const *rows, size_t n,
		      size_t width);

#endif
