/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names cut to a width so that names that differ never look the same. */

#include <stdbool.h>
#include <stddef.h>

enum { NAMES_MIN_WIDTH = 8 };

/* Shortens each text to at most width columns (at least NAMES_MIN_WIDTH), safe for a terminal.
 * Equal texts get the same name, different texts get different names. If the texts are names of
 * kernels, what C++ adds to the name is cut first. "" is shown as "na". Free with names_free().
 * NULL: out of memory. */
char **names_shorten(const char *const *texts, size_t n, size_t width, bool kernels);
/* names_compare() is for qsort() and bsearch() of texts. names_sort_once() sorts texts, removes
 * duplicates and returns the number of those left. */
int names_compare(const void *a, const void *b);
size_t names_sort_once(const char **texts, size_t n);

void names_free(char **shown, size_t n); /* takes NULL */
