/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/lock.h"

bool lock_until(struct lock *l, uint64_t by_ns)
{
	struct timespec by = clock_timespec(by_ns);
	bool locked = pthread_mutex_clocklock(&l->mutex, CLOCK_MONOTONIC, &by) == 0;

	lock_order_note(l->kind, locked);
	return locked;
}
