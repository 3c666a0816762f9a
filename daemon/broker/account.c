/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/account.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/broker/policy.h"

/* Fairness between users. Memory and the front's time are shared out by uid (root of a container
 * apart from the machine's, policy_user()), so a user who opens more connections gets no more of
 * either.
 *
 * Memory: data without a fixed size (incomplete messages, unread output, waiting questions, the
 * requests and plans of captures) is charged to the account before it is allocated. Objects of
 * fixed size are limited in number: connections, captures, processes. One quota contains all
 * accounts except that of root of the machine, so that root can always end a capture that takes too
 * much.
 *
 * Uids are cheap (a container has any number), so accounts are found by a hash table.
 *
 * Descriptors: closing one may take as long as its sender likes, so it counts until it is really
 * closed, not until the front is done with it. See daemon/front/descriptors.c.
 *
 * Time: in one round of the loop all connections of a uid together get ACCOUNT_ROUND_US.
 * Connections that have work are in a list, and a connection that has had a turn goes to its end,
 * so none waits for ever behind its siblings. */

void accounts_init(struct accounts *all)
{
	list_init(&all->all);
	all->bytes = (struct quota){ .max = ACCOUNT_ALL_BYTES_MAX };
	for (size_t i = 0; i < ACCOUNT_BUCKETS; i++) {
		list_init(&all->buckets[i]);
	}
}

static void forget(struct account *a)
{
	list_remove(&a->link);
	list_remove(&a->bucket_link);
	list_remove(&a->run_link);
	free(a);
}

void accounts_deinit(struct accounts *all)
{
	while (!list_is_empty(&all->all)) {
		forget(list_entry(all->all.next, struct account, link));
	}
}

static struct account *find(struct list *bucket, uid_t uid)
{
	list_for_each(l, bucket) {
		struct account *a = list_entry(l, struct account, bucket_link);

		if (a->uid == uid) {
			return a;
		}
	}
	return NULL;
}

static struct account *make(struct accounts *all, struct list *bucket, uid_t uid)
{
	struct account *a = calloc(1, sizeof(*a));

	if (!a) {
		return NULL;
	}
	a->uid = uid;
	a->refs = 1;
	a->bytes =
		(struct quota){ .max = ACCOUNT_BYTES_MAX, .whole = uid == 0 ? NULL : &all->bytes };
	list_init(&a->ready);
	list_init(&a->run_link);
	list_append(&all->all, &a->link);
	list_append(bucket, &a->bucket_link);
	return a;
}

struct account *account_of(struct accounts *all, uid_t uid)
{
	struct list *bucket = &all->buckets[uid % ACCOUNT_BUCKETS];
	struct account *a = find(bucket, uid);

	return a ? account_ref(a) : make(all, bucket, uid);
}

struct account *account_ref(struct account *a)
{
	a->refs++;
	return a;
}

struct account *account_unref(struct account *a)
{
	if (a && --a->refs == 0) {
		forget(a);
	}
	return NULL;
}

const char *account_user(const struct account *a, char text[ACCOUNT_USER_BYTES])
{
	if (a->uid == POLICY_CONTAINER_ROOT) {
		snprintf(text, ACCOUNT_USER_BYTES, "root of a container");
	} else {
		snprintf(text, ACCOUNT_USER_BYTES, "uid %u", (unsigned)a->uid);
	}
	return text;
}

static void refuse_all(const struct quota *all, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_QUOTA,
		    "Try again later, or ask the administrator: the daemon's log and "
		    "`gpuctr-client status` tell who is connected.",
		    "the daemon holds %.1f MiB for its users, of the %zu MiB that all of them "
		    "together may have waiting",
		    (double)all->used / (1 << 20), all->max >> 20);
}

void account_refuse(const struct account *a, struct refusal *r)
{
	const struct quota *all = a->bytes.whole;
	char user[ACCOUNT_USER_BYTES];

	if (all && quota_left(all) < a->bytes.max - a->bytes.used) {
		refuse_all(all, r);
		return;
	}
	refusal_set(r, GPUCTR_E_QUOTA,
		    "Read what the daemon sends, finish messages that were begun, or close "
		    "connections.",
		    "the daemon holds %.1f MiB for %u connections of %s, of the %d MiB that a "
		    "user may have waiting",
		    (double)a->bytes.used / (1 << 20), a->connections, account_user(a, user),
		    ACCOUNT_BYTES_MAX >> 20);
}
