/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SAMPLED_VALUES_H
#define CLIENT_CLI_SAMPLED_VALUES_H

/* What attribution makes of records that can be read again: their values alone are kept, by the
 * order in which the records were given. */

#include "client/cli/sampled.h"

struct sampled_values {
	struct sampled *sampled;
	struct attributor *steps;
	size_t n_columns;
	double *values; /* of each record: values, then errors */
	struct sampled_value {
		unsigned alike;
		const char *why; /* it lacks a value; NULL: it does not */
	} * records;
	size_t n, max_values, max_records;
};

/* Zero-initialised by the caller. The plan lives as long. 0 or -ENOMEM. */
int sampled_values_init(struct sampled_values *v, const struct gpuctr_plan *plan);
void sampled_values_deinit(struct sampled_values *v);

/* The next record, with its ranges. 0 or -ENOMEM. */
int sampled_values_record(struct sampled_values *v, const struct gpuctr_record *record);
void sampled_values_finish(struct sampled_values *v);

/* Gives the i-th record its values; returns why one is missing, or NULL. They live as long as v. */
const char *sampled_values_apply(const struct sampled_values *v, size_t i,
				 struct gpuctr_record *record);

#endif
