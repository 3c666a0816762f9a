/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The resources that one user uses in the daemon, over all its connections and captures. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/list.h"
#include "proto/base/quota.h"
#include "proto/wire/status.h"

enum {
	ACCOUNT_BYTES_MAX = 16 << 20,
	ACCOUNT_ALL_BYTES_MAX = 768 << 20, /* of all users together, except root of the machine */
	ACCOUNT_HIGH_BYTES = 4 << 20, /* above this a user's connections are read one at a time */
	ACCOUNT_RECEIVED_MAX = 256,
	ACCOUNT_ROUND_US = 250, /* time in one round of the loop, for all connections of the uid
				   together */
	ACCOUNT_BUCKETS = 1024,
	ACCOUNT_USER_BYTES = 32,
};

struct account {
	struct list link; /* in the list of all accounts */
	struct list bucket_link;
	uid_t uid; /* from policy_user() */
	unsigned refs;
	unsigned connections; /* connections that are not closed yet */
	unsigned registered;  /* programs in standby among the connections */
	unsigned received;    /* descriptors that the uid has sent and that are not closed yet */
	struct quota bytes;
	bool asking; /* the planner is working on a question of this uid */

	/* The front maintains these: the connections that have work, in the order of their turns;
	 * above ACCOUNT_HIGH_BYTES the only connection that is read, and the time since which it
	 * is. */
	struct list ready;
	struct list run_link; /* in the list of accounts with a connection whose turn may come */
	void *reader;
	uint64_t reader_since_ns;
};

struct accounts {
	struct list all;
	struct list buckets[ACCOUNT_BUCKETS]; /* by uid */
	struct quota bytes; /* parent of all accounts' quotas, except root of the machine's */
};

void accounts_init(struct accounts *all);
void accounts_deinit(struct accounts *all); /* also frees accounts that still have references */

/* Finds or makes the account of uid; NULL: out of memory. */
struct account *account_of(struct accounts *all, uid_t uid);
struct account *account_ref(struct account *a);
struct account *account_unref(struct account *a); /* returns NULL */

static inline bool account_is_high(const struct account *a)
{
	return a->bytes.used > ACCOUNT_HIGH_BYTES;
}

/* "uid 1000", for sentences. */
const char *account_user(const struct account *a, char text[ACCOUNT_USER_BYTES]);

/* Fills r with the reason why the user gets no more memory. */
void account_refuse(const struct account *a, struct refusal *r);
