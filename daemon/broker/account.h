/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_ACCOUNT_H
#define GPUCTR_BROKER_ACCOUNT_H

/* What one uid makes the daemon hold, over all its connections and captures. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/list.h"
#include "proto/base/quota.h"
#include "proto/wire/status.h"

enum {
	ACCOUNT_BYTES_MAX = 16 << 20,
	ACCOUNT_HIGH_BYTES = 4 << 20, /* from here its connections are read one after the other */
	ACCOUNT_RECEIVED_MAX = 256,
	ACCOUNT_TURN_US = 250, /* of one turn of the loop, for all its connections together */
};

struct account {
	struct list link;
	uid_t uid;
	unsigned refs;
	unsigned connections; /* until they are really closed */
	unsigned received;    /* descriptors it has sent, until they are */
	struct quota bytes;
	bool asking; /* the planner has a question of it */

	/* Above ACCOUNT_HIGH_BYTES: which connection is read, since when, and which ones wait. They
	 * are the front's. */
	void *reader;
	uint64_t reader_since_ns;
	struct list waiting;

	/* Of the loop's turn: time spent, and connections that it was not enough for. */
	uint64_t turn, spent_ns;
	unsigned passed_over;
	uint64_t round;
};

struct accounts {
	struct list all;
};

void accounts_init(struct accounts *all);
void accounts_deinit(struct accounts *all); /* also of those that somebody still counts on */

/* The account of uid, a new one if need be; NULL: out of memory. */
struct account *account_of(struct accounts *all, uid_t uid);
struct account *account_ref(struct account *a);
struct account *account_unref(struct account *a); /* NULL */

static inline bool account_is_high(const struct account *a)
{
	return a->bytes.used > ACCOUNT_HIGH_BYTES;
}

/* Why the user is not given more room. */
void account_refuse(const struct account *a, struct refusal *r);

/* May this connection of a work in the loop's turn? *round is the connection's own: the one in
 * which it was served last, 0 at first. */
bool account_begin_turn(struct account *a, uint64_t turn, uint64_t *round);

#endif
