/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Columns that the user defines: "NAME = EXPRESSION" a line, gpuctr-client(1) says how. */

#include "client/report/derived.h"

enum { DEFINE_MAX_BYTES = 64 * 1024 };

struct define_source {
	const char *path; /* for messages */
	const char *text;
};

/* Appends the columns to derived[*n], which has room for DERIVED_MAX; the earlier ones can be used
 * by name. Texts and what columns own live in owner. 0, -ENOMEM, or -EINVAL and why shows the
 * line, what is wrong, and where. */
int define_columns(const struct define_source *source, const struct measure *measures,
		   size_t n_measures, struct texts *owner, struct derived *derived, size_t *n,
		   struct buf *why);

/* NaN: not known. */
double define_value(const struct define *d, const struct group *group);

/* --- what define.c compiles and derived_value.c computes */

enum { STEPS_MAX = 64 };

enum step_kind {
	STEP_NUMBER,
	STEP_SUM,  /* of a measure */
	STEP_MEAN, /* the mean of a measure that does not add up */
	STEP_LAUNCHES,
	STEP_PEAK_BYTES,
	STEP_DERIVED,
	STEP_ADD,
	STEP_SUBTRACT,
	STEP_MULTIPLY,
	STEP_DIVIDE,
};

struct step {
	enum step_kind kind;
	double number; /* STEP_SUM, STEP_MEAN: factor of the value */
	size_t measure;
	const struct derived *derived;
};

struct define {
	struct step steps[STEPS_MAX];
	size_t n;
	bool timed;
};
