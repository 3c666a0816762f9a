/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds what repeats in sequences of kernels, one sequence for each stream of a process, and says
 * which place in the repeated step each kernel has. */

#include <stddef.h>
#include <stdint.h>

#include "client/attribution/effort.h"

#define STEPS_NONE UINT32_MAX

struct steps;

/* effort: borrowed; NULL: no bound. Where it is over kernels have no position. */
struct steps *steps_new(uint32_t positions_most, struct effort *effort);
struct steps *steps_free(struct steps *s);

/* The next kernels of one sequence, by shape; count of them get a position in the step, or
 * STEPS_NONE, and *done says of how many it is settled: the others have to come again, in front of
 * those that follow, unless this is the end. marks: where a step begins as far as the program
 * tells, or NULL. Positions are numbered through all sequences and stay what they are. */
int steps_place(struct steps *s, uint64_t sequence, const uint32_t *shapes,
		const unsigned char *marks, size_t count, int end, uint32_t *positions,
		size_t *done);

uint32_t steps_positions(const struct steps *s);

/* Makes a position for kernels whose place is known otherwise; STEPS_NONE: there is none left. */
uint32_t steps_take_position(struct steps *s);
