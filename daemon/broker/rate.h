/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_RATE_H
#define GPUCTR_BROKER_RATE_H

/* How often a user may do something: a bucket for each uid that holds a minute's worth and refills
 * evenly (the generic cell rate algorithm: a bucket is the one time at which it would be full).
 * Pure: the clock is the caller's. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RATE_USERS_MAX = 256 };

struct rate_bucket {
	uid_t uid;
	uint64_t full_ns; /* when it is full again; in the past: it is */
	uint64_t missed;  /* refused since the last that was not */
};

struct rate {
	struct rate_bucket buckets[RATE_USERS_MAX];
};

/* True: taken, and *ret_missed (NULL: not asked) says how many of this uid were refused since the
 * last that was taken. per_minute is not 0. With more uids than RATE_USERS_MAX at a time the
 * fullest bucket is forgotten. */
bool rate_take(struct rate *r, uid_t uid, unsigned per_minute, uint64_t now_ns,
	       uint64_t *ret_missed);

#endif
