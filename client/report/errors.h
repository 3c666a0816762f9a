/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Standard errors of sums of records whose values have errors. Records that are alike share their
 * error, so these errors add up; the errors of others are independent, so their squares add up. */

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

struct group;
struct groups;
struct leaf;
struct row_leaf;

/* Adds the errors of a record. 0 or -ENOMEM. */
int errors_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record);

/* Sets the errors of a row itself, or of its total, from all leaves in it. False: out of memory. */
bool errors_finish_row(struct groups *g, const struct row_leaf *row_leaves, size_t n);

/* Errors of the sum of n rows themselves, by measure; free with free(). NULL: out of memory. */
double *errors_of_rows(const struct groups *g, struct group *const *rows, size_t n);
