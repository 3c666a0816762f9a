/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Short names of whole rows, for views without columns. */

#include "client/report/view.h"

/* Returns a name for each row: its keys, separated by commas, in at most width columns. Names are
 * safe for a terminal, and no two are the same (names.h). Free with names_free(). NULL: out of
 * memory. */
char **labels_shorten(const struct view *v, const struct group *const *rows, size_t n,
		      size_t width);
