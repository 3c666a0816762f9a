/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs as what a chooser sees of them: one launch after the other, each with its kernel, what
 * it takes and what counters would say. The same seed is the same program. */

#include <stdint.h>

#include "client/agent/strata.h"

enum { PROGRAM_VALUES = 2 }; /* of a launch: bytes, which vary, and instructions */

struct program_launch {
	struct stratum_key key;
	double values[PROGRAM_VALUES];
	uint64_t after_ns; /* since the launch before */
};

struct program_state {
	uint64_t random, n, now_ns;
	double lasts_ns; /* the run, for what changes on the way */
};

struct program {
	const char *name, *what;
	void (*next)(struct program_state *p, struct program_launch *ret);
};

extern const struct program programs[];
extern const unsigned programs_n;

const struct program *program_find(const char *name); /* or NULL */
