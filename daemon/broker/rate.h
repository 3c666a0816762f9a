/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_RATE_H
#define GPUCTR_BROKER_RATE_H

/* How often a user may do something: one bucket a uid, which holds a minute's worth and refills
 * evenly. The generic cell rate algorithm needs one number a bucket, the time at which it will be
 * full. Pure: the clock is the caller's. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RATE_USERS_MAX = 256 };

struct rate_bucket {
	uid_t uid;
	uint64_t full_ns; /* when it will be full again; in the past: it is full */
	uint64_t missed;  /* requests refused since the last one that was allowed */
};

struct rate {
	struct rate_bucket buckets[RATE_USERS_MAX];
	uint64_t forgotten; /* what users had missed whose bucket was forgotten */
};

/* True: allowed, and *ret_missed (may be NULL) says how many requests of this uid were refused
 * since the last one that was allowed. per_minute is not 0. When there are more uids than
 * RATE_USERS_MAX the fullest bucket is forgotten. */
bool rate_take(struct rate *r, uid_t uid, unsigned per_minute, uint64_t now_ns,
	       uint64_t *ret_missed);

/* The same by a bucket that is everybody's; its uid means nothing. */
bool rate_take_from(struct rate_bucket *b, unsigned per_minute, uint64_t now_ns,
		    uint64_t *ret_missed);

#endif
