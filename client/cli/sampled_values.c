/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampled_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/attribution.h"
#include "proto/base/array.h"

int sampled_values_init(struct sampled_values *v, const struct gpuctr_plan *plan)
{
	v->n_columns = plan->n_columns;
	v->sampled = sampled_new(plan);
	v->steps = attributor_new();
	if (v->sampled) {
		sampled_expect_files(v->sampled);
	}
	return v->sampled && v->steps ? 0 : -ENOMEM;
}

void sampled_values_deinit(struct sampled_values *v)
{
	sampled_free(v->sampled);
	attributor_free(v->steps);
	free(v->values);
	free(v->records);
	*v = (struct sampled_values){ 0 };
}

/* One may be told before all are: when too many are kept. */
static void on_record(void *user, const struct gpuctr_record *record)
{
	struct sampled_values *v = user;
	double *to = v->values + 2 * record->index * v->n_columns;

	memcpy(to, record->values, v->n_columns * sizeof(*to));
	memcpy(to + v->n_columns, record->errors, v->n_columns * sizeof(*to));
	v->records[record->index] =
		(struct sampled_value){ record->alike, sampled_told_why(v->sampled) };
}

int sampled_values_record(struct sampled_values *v, const struct gpuctr_record *record)
{
	struct attribution what = { .step = "" };
	struct gpuctr_record copy = *record;
	int r = attributor_take(v->steps, record, &what);

	if (r || !array_make_room(&v->records, sizeof(*v->records), v->n, &v->max_records) ||
	    !array_make_room(&v->values, 2 * v->n_columns * sizeof(*v->values), v->n,
			     &v->max_values)) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < 2 * v->n_columns; i++) {
		v->values[2 * v->n * v->n_columns + i] = NAN;
	}
	v->records[v->n] = (struct sampled_value){ 0, sampled_reason_name(SAMPLED_TOO_MANY) };
	copy.index = v->n++;
	copy.range = NULL;
	copy.active = NULL;
	copy.n_active = 0;
	/* Texts of steps are one pointer each. */
	sampled_record(v->sampled, &copy, *what.step ? (uint64_t)(uintptr_t)what.step : 0,
		       on_record, v);
	return 0;
}

void sampled_values_finish(struct sampled_values *v)
{
	sampled_finish(v->sampled, on_record, v);
}

const char *sampled_values_apply(const struct sampled_values *v, size_t i,
				 struct gpuctr_record *record)
{
	record->values = v->values + 2 * i * v->n_columns;
	record->errors = record->values + v->n_columns;
	record->alike = v->records[i].alike;
	return v->records[i].why;
}
