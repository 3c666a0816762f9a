/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* clock_gettime() and nanosleep() of the test, in place of libc's: time passes when it says so. */

#include <stdint.h>

struct made_clock {
	uint64_t now_ns;
	uint64_t step_ns; /* that each look takes, so that a loop that never sleeps comes to its end
			   */
};

extern struct made_clock made_clock;
