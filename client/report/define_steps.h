/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What define.c compiles and derived_value.c computes. */

#include "client/report/derived.h"

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
