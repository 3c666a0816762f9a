/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/rate.h"

#include <stddef.h>

#include "proto/base/clock.h"

/* The bucket of uid. If all buckets are in use, uid takes over the fullest one, which limits its
 * user least. */
static struct rate_bucket *find_bucket(struct rate *r, uid_t uid)
{
	struct rate_bucket *fullest = &r->buckets[0];

	for (size_t i = 0; i < RATE_USERS_MAX; i++) {
		struct rate_bucket *b = &r->buckets[i];

		if (b->uid == uid && b->full_ns != 0) {
			return b;
		}
		fullest = b->full_ns < fullest->full_ns ? b : fullest;
	}
	r->forgotten += fullest->missed;
	*fullest = (struct rate_bucket){ .uid = uid };
	return fullest;
}

bool rate_take_from(struct rate_bucket *b, unsigned per_minute, uint64_t now_ns,
		    uint64_t *ret_missed)
{
	const uint64_t minute_ns = 60 * CLOCK_NS_PER_S;
	uint64_t full_ns = b->full_ns > now_ns ? b->full_ns : now_ns;

	full_ns += minute_ns / per_minute;
	if (full_ns > now_ns + minute_ns) {
		b->missed++;
		return false;
	}
	if (ret_missed) {
		*ret_missed = b->missed;
	}
	b->full_ns = full_ns;
	b->missed = 0;
	return true;
}

bool rate_take(struct rate *r, uid_t uid, unsigned per_minute, uint64_t now_ns,
	       uint64_t *ret_missed)
{
	return rate_take_from(find_bucket(r, uid), per_minute, now_ns, ret_missed);
}
