/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/lock.h"

#include <sanitizer/tsan_interface.h>

/* ThreadSanitizer of gcc 12 does not know pthread_mutex_clocklock(), and would report unlocked
 * mutexes and data races. The __tsan_ calls report the lock to it. */

bool lock_until(struct lock *l, uint64_t by_ns)
{
	struct timespec by = clock_timespec(by_ns);
	bool locked;

	__tsan_mutex_pre_lock(&l->mutex, __tsan_mutex_try_lock);
	locked = pthread_mutex_clocklock(&l->mutex, CLOCK_MONOTONIC, &by) == 0;
	__tsan_mutex_post_lock(
		&l->mutex, __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed), 0);
	lock_order_note(l->kind, locked);
	return locked;
}
