/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/attribution/window.h"

struct shift {
	int64_t ns;  /* added to samples' times */
	int settled; /* looking again finds nothing else */
	int known;   /* 0: the shift cannot be determined, and no result depends on it */
	int apart;   /* the clocks are further apart than they may be; ns is about by how much */
};

/* Of a sorted window whose kernels have their positions; positions: how many there are. */
int shift_estimate(const struct window *w, uint32_t positions, uint32_t metric, int64_t most_ns,
		   struct shift *ret);
