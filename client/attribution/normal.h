/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sparse least squares by normal equations, each with few unknowns, solved without negative values.
 */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/effort.h"

struct normal_pair {
	uint64_t key; /* row and column + 1; 0 where free */
	double value;
};

struct normal {
	uint32_t unknowns, room;
	double *diagonal;	   /* sum of squared coefficients, an unknown */
	double *right;		   /* sum of coefficient x value, an unknown */
	double squares;		   /* sum of squared values */
	struct normal_pair *pairs; /* what is off the diagonal, a table of hashes */
	size_t pairs_used, pairs_size;
	int is_full; /* there were more pairs than could be solved: they are gone */
	/* The most of the envelope's entries, and of multiplications of one factorisation; 0: 32 Mi
	 * and 3e10. */
	size_t entries_most;
	double work_most;
	struct effort *effort; /* borrowed; NULL: no bound */
};

/* Starts zeroed. */
void normal_deinit(struct normal *n);
void normal_clear(struct normal *n);
/* Gives back what equations take that are solved: no other can be added before a normal_clear(). */
void normal_release(struct normal *n);
/* Makes room for so many unknowns. */
int normal_grow(struct normal *n, uint32_t unknowns);

/* value = sum of coefficients x unknowns. Unknowns may not repeat. 0, -ENOMEM, or positive: the
 * effort is over. */
int normal_add(struct normal *n, const uint32_t *unknowns, const double *coefficients,
	       uint32_t count, double value);

/* inverse: the diagonal of the inverse, an unknown; 0 where the equations say nothing of it,
 * infinite where they do not tell it from others. May be NULL. Positive: too many unknowns depend
 * on each other, or the effort is over; solution and inverse are then 0. */
int normal_solve(const struct normal *n, double *solution, double *inverse);

/* What the solution leaves of the squared values. */
double normal_left(const struct normal *n, const double *solution);
