/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/attribution/window.h"

/* Both clocks are Unix time, and what kernels do is counted a little late: as long as no shift is
 * known, this one is taken. On an H200 they were -0.3 to 2.1 us. */
#define SHIFT_USUAL_NS 1000
#define SHIFT_USUAL_ERROR_NS 1500

struct shift {
	int64_t ns;	 /* added to samples' times */
	double error_ns; /* a standard error, of one that is known */
	int settled;	 /* looking again finds nothing else */
	int known;	 /* 0: what has come does not tell the shift */
	int apart; /* the clocks are further apart than they may be; ns is about by how much */
};

/* Of a sorted window whose kernels have their positions; positions: how many there are. */
int shift_estimate(const struct window *w, uint32_t positions, uint32_t metric, int64_t most_ns,
		   struct shift *ret);
