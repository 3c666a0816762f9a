/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the steps that repeat in sequences of kernels, one sequence for each stream of a process,
 * and gives each kernel its place in the step. */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/effort.h"

#define STEPS_NONE UINT32_MAX

struct steps;

/* effort: borrowed; NULL: no bound. Once it is over, kernels get no position. */
struct steps *steps_new(uint32_t positions_most, struct effort *effort);
struct steps *steps_free(struct steps *s);

/* Gives each of the next count kernels of one sequence, known by their shapes, a position or
 * STEPS_NONE. The first *done are settled; the caller passes the others again, in front of those
 * that follow, unless end is set. marks: 1 for kernels at which a step begins by the program's own
 * marks, or NULL. Positions are unique among all sequences and never change. */
int steps_place(struct steps *s, uint64_t sequence, const uint32_t *shapes,
		const unsigned char *marks, size_t count, int end, uint32_t *positions,
		size_t *done);

uint32_t steps_positions(const struct steps *s);

/* Takes a new position, for the kernels of a graph's node. STEPS_NONE: no position is left. */
uint32_t steps_take_position(struct steps *s);
