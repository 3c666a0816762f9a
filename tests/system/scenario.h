/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parts of tests that are written in Python, with the daemon and programs of a fixture. They have a
 * patience of their own with each thing that they wait for. */

#include "tests/system/fixture.h"

/* Starts "SCRIPT ARG...", a script of this folder, as the test's own user. */
struct program *scenario_start(struct fixture *f, const char *script, ...)
	__attribute__((sentinel));
/* It ends with 0, or, where something is not installed, with 77, which is printed. */
void scenario_end(struct program *p);

/* A program in standby, of the test's own user, that launches a kernel each half millisecond for
 * longer than any test; registered when this returns. */
struct program *scenario_standby(struct fixture *f, const char *program);

#define SCENARIO_LONG_RUN "--kernels", "400000", "--sleep-us", "500"
