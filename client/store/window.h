/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ranges of one process, read when they are asked for and forgotten again: a program may have more
 * ranges than kernels, and memory must not grow with them. */

#include "client/store/reader_internal.h"

struct window;

/* NULL: out of memory. */
struct window *window_new(struct store_reader *r, unsigned process);
struct window *window_free(struct window *w); /* takes NULL, returns NULL */

/* To be called before each row of the cursor; ranges that were returned earlier may be freed
 * then. */
void window_next(struct window *w);

/* *ret is NULL for id 0 and if the table has no such range. *ret_n is 0 if there is no such set.
 * Returns 0, or an error as row_end(). */
int window_find_range(struct window *w, unsigned id, const struct gpuctr_range **ret);
int window_find_set(struct window *w, unsigned id, const struct gpuctr_range *const **ret,
		    size_t *ret_n);
