/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/attribution/window.h"

/* Both clocks are Unix time, and counters count what kernels do a little late: this shift is taken
 * as long as none is known. Shifts on an H200 were -0.3 to 2.1 us. */
#define SHIFT_USUAL_NS 1000
#define SHIFT_USUAL_ERROR_NS 1500

struct shift {
	int64_t ns;	 /* added to samples' times */
	double error_ns; /* standard error, if the shift is known */
	int settled;	 /* later samples would show no other shift */
	int known;	 /* 0: the samples do not show the shift */
	int apart; /* the clocks are further apart than they may be; ns is about by how much */
};

/* Estimates the shift of one metric, from a sorted window whose kernels have their positions;
 * positions: their number; most_ns: largest shift allowed. 0, or -ENOMEM. */
int shift_estimate(const struct window *w, uint32_t positions, uint32_t metric, int64_t most_ns,
		   struct shift *ret);
