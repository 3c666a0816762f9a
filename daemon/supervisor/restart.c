/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/restart.h"

#include "proto/base/clock.h"

void restart_begin(struct restart *r, uint64_t now_ns)
{
	r->began_ns = now_ns;
	r->due_ns = 0;
}

uint64_t restart_end(struct restart *r, uint64_t now_ns)
{
	uint64_t delay_ns;

	if (now_ns - r->began_ns >= RESTART_STABLE_S * CLOCK_NS_PER_S) {
		r->ends = 0;
	}
	delay_ns = ++r->ends > RESTARTS_AT_ONCE ? RESTART_DELAY_S * CLOCK_NS_PER_S : 0;
	r->due_ns = now_ns + delay_ns;
	return delay_ns;
}

int restart_next_ms(const struct restart *r, size_t n, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		next = r[i].due_ns != 0 && r[i].due_ns < next ? r[i].due_ns : next;
	}
	if (next == UINT64_MAX) {
		return -1;
	}
	return next <= now_ns ? 0 : (int)((next - now_ns) / CLOCK_NS_PER_MS) + 1;
}
