/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Limits how often a user may do something: each uid has one bucket, which holds the requests of a
 * minute and refills evenly. The generic cell rate algorithm needs one number for each bucket, the
 * time at which it will be full. Pure: the caller passes the time. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RATE_USERS_MAX = 256 };

struct rate_bucket {
	uid_t uid;
	uint64_t full_ns; /* time at which the bucket is full again; in the past: it is full */
	uint64_t missed;  /* requests refused since the last one that was allowed */
};

struct rate {
	struct rate_bucket buckets[RATE_USERS_MAX];
	uint64_t forgotten; /* refused requests of users whose bucket was forgotten */
};

/* True: allowed, and *ret_missed (may be NULL) says how many requests of this uid were refused
 * since the last one that was allowed. per_minute is not 0. When there are more uids than
 * RATE_USERS_MAX the fullest bucket is forgotten. */
bool rate_take(struct rate *r, uid_t uid, unsigned per_minute, uint64_t now_ns,
	       uint64_t *ret_missed);

/* rate_take() with a bucket that all users share; its uid has no meaning. */
bool rate_take_from(struct rate_bucket *b, unsigned per_minute, uint64_t now_ns,
		    uint64_t *ret_missed);
