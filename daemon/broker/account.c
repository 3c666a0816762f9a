/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/account.h"

#include <stdlib.h>

/* Fairness between users. Two things are shared out, memory and the front's time, and both by uid:
 * whoever opens more connections gets no more of them.
 *
 * Memory: what has no fixed size (messages that are not whole yet, output that is not read,
 * questions that wait, the wishes and plans of captures) is taken from the account before it is
 * allocated. What has a fixed size is bounded by its number: connections, captures, processes.
 *
 * Descriptors: closing one may take as long as its sender likes, so it counts until it is closed,
 * and not until the front is done with it. See daemon/front/descriptors.c.
 *
 * Time: in one turn of the loop all connections of a uid together get ACCOUNT_TURN_US. They go in
 * rounds: none is served again before all that want to have been, in however many turns, so that no
 * connection waits for ever behind its siblings. */

void accounts_init(struct accounts *all)
{
	list_init(&all->all);
}

void accounts_deinit(struct accounts *all)
{
	while (!list_is_empty(&all->all)) {
		struct account *a = list_entry(all->all.next, struct account, link);

		list_remove(&a->link);
		free(a);
	}
}

struct account *account_of(struct accounts *all, uid_t uid)
{
	struct account *a;

	list_for_each(l, &all->all) {
		a = list_entry(l, struct account, link);
		if (a->uid == uid) {
			return account_ref(a);
		}
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		return NULL;
	}
	a->uid = uid;
	a->refs = 1;
	a->bytes.max = ACCOUNT_BYTES_MAX;
	list_init(&a->waiting);
	list_append(&all->all, &a->link);
	return a;
}

struct account *account_ref(struct account *a)
{
	a->refs++;
	return a;
}

struct account *account_unref(struct account *a)
{
	if (a && --a->refs == 0) {
		list_remove(&a->link);
		free(a);
	}
	return NULL;
}

void account_refuse(const struct account *a, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_QUOTA,
		    "Read what the daemon sends, finish messages that were begun, or close "
		    "connections.",
		    "the daemon holds %.1f MiB for %u connections of uid %u, of the %d MiB that a "
		    "user may have waiting",
		    (double)a->bytes.used / (1 << 20), a->connections, (unsigned)a->uid,
		    ACCOUNT_BYTES_MAX >> 20);
}

/* A round is over when a turn ends in which nobody was left who wanted and had had nothing. */
static void enter_turn(struct account *a, uint64_t turn)
{
	if (a->turn != turn) {
		a->round += a->passed_over == 0;
		a->turn = turn;
		a->spent_ns = 0;
		a->passed_over = 0;
	}
}

bool account_begin_turn(struct account *a, uint64_t turn, uint64_t *round)
{
	enter_turn(a, turn);
	if (*round == a->round) {
		return false;
	}
	if (a->spent_ns >= ACCOUNT_TURN_US * UINT64_C(1000)) {
		a->passed_over++;
		return false;
	}
	*round = a->round;
	return true;
}
