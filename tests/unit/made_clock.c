/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_clock.h"

#include <time.h>

#include "proto/base/clock.h"

struct made_clock made_clock;

int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	made_clock.now_ns += made_clock.step_ns;
	*t = clock_timespec(made_clock.now_ns);
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	made_clock.now_ns += (uint64_t)t->tv_nsec;
	return 0;
}
