/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names cut to a width so that names that differ never look the same. */

#include <stdbool.h>
#include <stddef.h>

enum { NAMES_MIN_WIDTH = 8 };

/* Each of the texts in at most width columns (at least NAMES_MIN_WIDTH), safe for a terminal. Equal
 * texts get the same name, different texts different names. Of kernels what C++ adds to their name
 * goes first; "" is shown as "na". Free with names_free(). NULL: out of memory. */
char **names_shorten(const char *const *texts, size_t n, size_t width, bool kernels);
/* For qsort() and bsearch() of texts, and a sort that leaves each text once; the number of those.
 */
int names_compare(const void *a, const void *b);
size_t names_sort_once(const char **texts, size_t n);

void names_free(char **shown, size_t n); /* takes NULL */
