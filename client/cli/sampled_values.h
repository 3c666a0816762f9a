/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What attribution makes of records that can be read again, from a file: their values alone are
 * kept, by the order in which the records were given. All records come before the samples; the
 * attribution gets them as samples of their time come. */

#include "client/cli/sampled.h"
#include "client/report/texts.h"

struct sampled_values {
	struct sampled *sampled; /* which the caller tells of GPUs and processes */
	struct attributor *steps;
	size_t n_columns;
	double *values; /* of each record: values, then errors */
	struct sampled_value {
		unsigned alike;
		const char *why; /* it lacks a value; NULL: it does not */
	} * records;
	size_t n, max_values, max_records;
	struct sampled_item {
		int gpu; /* -1: it is not sampled */
		bool is_copy;
		uint64_t step;
		union {
			struct gpuctr_record record;
			struct gpuctr_copy copy;
		};
	} * items; /* by GPU, once sorted */
	size_t n_items, max_items;
	struct sampled_run {
		size_t next, end; /* of the items: those of a GPU and a process, or copies */
		int gpu;
	} * runs;
	size_t n_runs, max_runs;
	struct map kernels; /* by mangled name: those of the file end before the samples come */
	struct texts texts;
	uint64_t samples;
	bool sorted;
};

/* Zero-initialised by the caller. The plan lives as long; sets: as of sampled_new(). 0 or -ENOMEM.
 */
int sampled_values_init(struct sampled_values *v, const struct gpuctr_plan *plan,
			const uint8_t *sets);
void sampled_values_deinit(struct sampled_values *v);

/* After its GPUs and its process. The next record, with its ranges; 0 or -ENOMEM. */
int sampled_values_record(struct sampled_values *v, const struct gpuctr_record *record);
int sampled_values_copy(struct sampled_values *v, const struct gpuctr_copy *copy);

/* Samples of a GPU, in the order of time, when all records and copies were given. 0 or -ENOMEM. */
int sampled_values_sample(struct sampled_values *v, int gpu, int64_t start_ns, int64_t end_ns,
			  const double *values);
int sampled_values_finish(struct sampled_values *v);

/* Gives the i-th record its values; returns why one is missing, or NULL. They live as long as v. */
const char *sampled_values_apply(const struct sampled_values *v, size_t i,
				 struct gpuctr_record *record);
