/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/deliver.h"

/* Fills in, for each launch of b in order, one double for each column in values, NaN if CUPTI has
 * no value, and in measured whether the image has the launch. If b->launches is set, launches
 * without a time get the length of their range. Returns 0, or CUPTI's first failure. */
int evaluate_batch(const struct wire_plan *plan, const struct batch *b, double *values,
		   bool *measured);

/* For a trace: all launches count as measured, without values. */
int evaluate_nothing(const struct batch *b, size_t n_columns, double *values, bool *measured);
