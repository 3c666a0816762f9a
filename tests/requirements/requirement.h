/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of docs/internals/requirements.md share: sizes and printed figures.
 *
 * Continuous integration has minutes, a release has hours: a test asks requirement_amount() how
 * much it shall do, and prints with requirement_figure() how much it did and what came out. Figures
 * are lines "R13: ..." on stdout, which tests/run gathers into one table. Times are printed and
 * compared as ratios within one run; under a sanitizer they mean nothing and are not compared. */

#include <stdbool.h>
#include <stddef.h>

/* full when GPUCTR_TEST_FULL is set; else ci, and a tenth of it (at least 1) under a sanitizer. */
size_t requirement_amount(size_t ci, size_t full);

/* May ratios of times, and memory, be compared? Not under a sanitizer. */
bool requirement_times_count(void);

/* May times be compared with a bound? Only at full size, on a machine that does nothing else. */
bool requirement_times_hold(void);

/* Shall this cell of a matrix be run, of those that are run one after the other? All of them; one
 * in so many under a sanitizer, which looks at what is the same code in each. */
bool requirement_cell(size_t cell, size_t one_in);

/* One line "<id>: <text>". id is "R13". */
void requirement_figure(const char *id, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
