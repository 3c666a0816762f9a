/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Columns that are computed from measured columns. Each is a row of a table: name, unit, and an SQL
 * expression over the sums of a report's row. A derived value is never averaged: the bandwidth of
 * ten kernels is the sum of their bytes divided by the sum of their times.
 *
 *	derived_init(&c, measures, n);			// columns that these measures allow
 *	derived_define(&c, "per_launch[byte] = bytes / launches", &why);
 *	value = derived_value(derived_named(&c, "per_launch"), row);
 *	derived_deinit(&c);
 *
 * Names in an expression are metrics (a name may omit ".sum"; a metric that does not add up stands
 * for its mean), derived columns that exist already, and
 *
 *	time		seconds
 *	launches	with those nested in the row
 *	bytes		to and from the device's memory, both ways
 *	flops		floating-point operations of all precisions that were measured
 *	peak_bytes	what the memory could have moved in the time
 *	peak_time	what tensor cores need for the operations, each in its precision, in seconds
 *	flop_time	the time of the launches whose operations are known, in seconds
 *
 * An expression with a time or a peak takes its sums from launches whose time is known, any other
 * expression from all launches. If a sum lacks one of these launches, the value is not known. */

#include "client/report/fields.h"
#include "client/report/peaks.h"
#include "client/report/sums.h"

enum {
	DERIVED_BUILT_IN_MAX = 16,
	DERIVED_DEFINED_MAX = 16,
	DERIVED_MAX = DERIVED_BUILT_IN_MAX + DERIVED_DEFINED_MAX,
	DERIVED_OPERANDS = 32,
	DERIVED_WORDS = 6,
};

/* An operand of an expression. derived_value.c computes its value in a row. */
struct derived_operand {
	enum derived_quantity {
		DERIVED_SUM, /* sum or mean of the measure */
		DERIVED_LAUNCHES,
		DERIVED_PEAK_BYTES,
		DERIVED_PEAK_TIME,
		DERIVED_FLOP_TIME,
	} quantity;
	size_t measure;
};

/* A name in expressions that is neither a metric nor a column. */
struct derived_word {
	const char *name;
	enum derived_quantity quantity;
	const char *expression; /* of a word for several measures; else NULL */
	bool of_flops;
};

struct derived {
	const char *name, *unit;
	const char *expression;
	struct sqlite3_stmt *statement; /* its k-th parameter is the k-th operand */
	struct derived_operand operands[DERIVED_OPERANDS];
	size_t n_operands;
	const struct measure *measures;
	const struct sums *sums;
	bool timed;	 /* the expression contains time or a peak */
	bool of_flops;	 /* it contains floating-point operations */
	bool of_counted; /* of samples: sums are those of launches with a value, as for metrics */
	bool joined;	 /* its measures took turns in different groups: no launch has all */
};

struct derived_columns {
	struct derived items[DERIVED_MAX];
	size_t n;
	const struct measure *measures; /* borrowed */
	size_t n_measures;
	struct sums *sums;
	struct derived_word words[DERIVED_WORDS]; /* words that the measures allow */
	size_t n_words;
	struct sqlite3 *db;
	struct texts texts;
};

/* 0 or -ENOMEM. The caller calls derived_deinit() in either case. */
int derived_init(struct derived_columns *c, const struct measure *measures, size_t n);
void derived_deinit(struct derived_columns *c);

/* Adds the column of "NAME=EXPRESSION" or "NAME[UNIT]=EXPRESSION". 0, -ENOMEM, or -EINVAL and why
 * says what is wrong. */
int derived_define(struct derived_columns *c, const char *definition, struct buf *why);

/* NULL: there is no such column. */
const struct derived *derived_named(const struct derived_columns *c, const char *name);

/* --- derived_value.c. NaN: not known. */
double derived_value(const struct derived *d, const struct group *group);

/* The value with its standard error. */
struct figure derived_figure(const struct derived *d, const struct group *group);

/* The number of launches without sampled values, for which the rates of the other launches stand. 0
 * where values were counted. */
uint64_t derived_unsampled(const struct derived *d, const struct group *group);
/* As fields_is_of_part(). */
bool derived_is_of_part(const struct derived *d, const struct group *group);

/* FIELD_BEFORE, FIELD_CHANGE and the fields after it, for a comparison of captures; NaN if the
 * times are from different clocks, or the sums cover different parts of the launches. */
double derived_compare(const struct derived *d, enum field field, const struct group *group);
