/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The unit of a number: "byte/second" is byte to the power 1 and second to the power -1. */

#include <stdbool.h>

#include "proto/base/buf.h"

enum { QUANTITY_FACTORS = 8, QUANTITY_NAME_BYTES = 32 };

struct quantity {
	struct {
		char name[QUANTITY_NAME_BYTES];
		int power; /* never 0 */
	} factors[QUANTITY_FACTORS];
	unsigned n;
};

/* Parses a unit as CUPTI writes it. Multiply values by *ret_scale, so that times are in seconds.
 * False: too many factors, or too long ones. */
bool quantity_parse(const char *unit, struct quantity *ret, double *ret_scale);
/* Multiplies a by b, or divides a by b if power is -1. False: too many factors. */
bool quantity_multiply(struct quantity *a, const struct quantity *b, int power);
bool quantity_equal(const struct quantity *a, const struct quantity *b);
/* "byte/second"; "" for a plain number. */
void quantity_format(const struct quantity *q, struct buf *b);
