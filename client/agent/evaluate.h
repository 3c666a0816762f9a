/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/deliver.h"

/* The values of all columns for each launch of b, in launch order: b->n x columns doubles in
 * values, NaN for what CUPTI does not have, and in measured whether launch i was in the image at
 * all. Where b has its launches, those without a time get the length of their range. Returns 0, or
 * CUPTI's result when the image cannot be read. */
int evaluate_batch(const struct wire_plan *plan, const struct batch *b, double *values,
		   bool *measured);

/* Where no counter was read: each launch is a record, without values. */
int evaluate_nothing(const struct batch *b, size_t n_columns, double *values, bool *measured);
