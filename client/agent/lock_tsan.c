/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/lock.h"

#include <sanitizer/tsan_interface.h>

#include "proto/base/clock.h"

/* ThreadSanitizer of gcc 12 does not know pthread_mutex_clocklock(): it sees the unlocking of a
 * mutex that nobody locked, and races in all that the mutex protects. So it is told. */

bool lock_until(pthread_mutex_t *m, uint64_t by_ns)
{
	struct timespec by = clock_timespec(by_ns);
	bool locked;

	__tsan_mutex_pre_lock(m, __tsan_mutex_try_lock);
	locked = pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &by) == 0;
	__tsan_mutex_post_lock(
		m, __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed), 0);
	return locked;
}
