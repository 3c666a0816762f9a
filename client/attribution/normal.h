/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sparse least squares by normal equations, N x = r. Each equation has few unknowns, and the
 * solution has no negative values. */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/effort.h"

struct normal_pair {
	uint64_t key; /* row << 32 | (column + 1); 0: free */
	double value;
};

struct normal {
	uint32_t unknowns, room;
	double *diagonal;	   /* sum of squared coefficients, for each unknown */
	double *right;		   /* sum of coefficient x value, for each unknown */
	double squares;		   /* sum of squared values */
	struct normal_pair *pairs; /* entries off the diagonal, a hash table */
	size_t pairs_used, pairs_size;
	int is_full; /* there were too many pairs to solve, and they were dropped */
	/* Limits of the envelope's entries, and of multiplications of one factorisation; 0: 32 Mi
	 * and 3e10. */
	size_t entries_most;
	double work_most;
	struct effort *effort; /* borrowed; NULL: no bound */
};

/* A struct normal starts zeroed. */
void normal_deinit(struct normal *n);
void normal_clear(struct normal *n);
/* Frees the pairs of equations that are solved. Call normal_clear() before adding others. */
void normal_release(struct normal *n);
/* Makes room for so many unknowns. */
int normal_grow(struct normal *n, uint32_t unknowns);

/* Adds the equation value = sum of coefficients x unknowns, in which no unknown repeats. 0,
 * -ENOMEM, or positive: the effort is over. */
int normal_add(struct normal *n, const uint32_t *unknowns, const double *coefficients,
	       uint32_t count, double value);

/* inverse: for each unknown, the diagonal entry of the inverse of N; 0 if no equation has the
 * unknown, infinite if the equations cannot tell it from others. May be NULL. Positive: too many
 * unknowns depend on each other, or the effort is over; solution and inverse are then 0. */
int normal_solve(const struct normal *n, double *solution, double *inverse);

/* The sum of the squared residuals of a solution. */
double normal_left(const struct normal *n, const double *solution);
