/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Standard errors of sums of records whose values have errors. Records that are alike share their
 * error, so these errors add up; the errors of others are independent, so their squares add up. */

#include <gpuctr/gpuctr.h>

struct group;
struct groups;
struct leaf;

/* A record with errors. 0 or -ENOMEM. */
int errors_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record);

/* Once all leaves belong to rows. 0 or -ENOMEM. */
int errors_finish_rows(struct groups *g);

/* Errors by measure of what is in n rows themselves, added up; free with free(). NULL: out of
 * memory. */
double *errors_of_rows(const struct groups *g, struct group *const *rows, size_t n);
