/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/lock.h"

#include "proto/base/clock.h"

bool lock_until(pthread_mutex_t *m, uint64_t by_ns)
{
	struct timespec by = clock_timespec(by_ns);

	return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &by) == 0;
}
