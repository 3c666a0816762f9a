/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/arbiter.h"

#include <stddef.h>

/* A user with many reservations must not keep another user waiting for all of them. So the queue is
 * ordered by the rank of a reservation among those of its user: a user's second reservation, after
 * a waiting or held first one, comes behind the first reservation of everybody else. Ranks count
 * only reservations on a GPU that both compared reservations want. Of equal ranks the earlier
 * reservation stays first, so users with one reservation each are served in the order of their
 * requests. One person may have many uids, so a reservation is overtaken at most
 * ARBITER_OVERTAKEN_MAX times. */

void arbiter_init(struct arbiter *a, unsigned max_waiting)
{
	*a = (struct arbiter){ .max_waiting = max_waiting };
	list_init(&a->queue);
	list_init(&a->holders);
}

void reservation_init(struct reservation *c, uint64_t gpus, uid_t user)
{
	*c = (struct reservation){ .gpus = gpus, .user = user, .state = RESERVATION_IDLE };
	list_init(&c->link);
}

/* The first reservation in the list before end that wants one of these GPUs; NULL: none does. */
static const struct reservation *find_wanting(const struct list *all, const struct list *end,
					      uint64_t gpus)
{
	for (const struct list *l = all->next; l != end; l = l->next) {
		const struct reservation *c =
			list_entry((struct list *)(uintptr_t)l, struct reservation, link);

		if ((c->gpus & gpus) != 0) {
			return c;
		}
	}
	return NULL;
}

/* The number of reservations of user on any of these GPUs, in the list before end. */
static unsigned count_before(const struct list *all, const struct list *end, uid_t user,
			     uint64_t gpus)
{
	unsigned n = 0;

	for (const struct list *l = all->next; l != end; l = l->next) {
		const struct reservation *c =
			list_entry((struct list *)(uintptr_t)l, struct reservation, link);

		n += c->user == user && (c->gpus & gpus) != 0;
	}
	return n;
}

/* The number of reservations on any of these GPUs that c's user has before c. */
static unsigned user_position(const struct arbiter *a, const struct reservation *c, uint64_t gpus)
{
	const struct list *end = c->state == RESERVATION_WAITING ? &c->link : &a->queue;

	return count_before(&a->holders, &a->holders, c->user, gpus) +
	       count_before(&a->queue, end, c->user, gpus);
}

/* May c, before which its user has `position` reservations, go before the waiting reservation? */
static bool yields(const struct arbiter *a, const struct reservation *waiting,
		   const struct reservation *c, unsigned position)
{
	return waiting->overtaken < ARBITER_OVERTAKEN_MAX &&
	       user_position(a, waiting, c->gpus) > position;
}

/* The reservation in the queue before which c is to be inserted; the list's head: at the end. */
static struct list *find_position(const struct arbiter *a, const struct reservation *c)
{
	struct list *queue = (struct list *)(uintptr_t)&a->queue, *position = queue;
	unsigned n;

	if (c->state == RESERVATION_WAITING) {
		return (struct list *)(uintptr_t)&c->link;
	}
	n = user_position(a, c, c->gpus);
	for (struct list *l = queue->prev; l != queue; l = l->prev) {
		const struct reservation *other = list_entry(l, struct reservation, link);

		if ((other->gpus & c->gpus) != 0 && !yields(a, other, c, n)) {
			break;
		}
		position = (other->gpus & c->gpus) != 0 ? l : position;
	}
	return position;
}

/* The GPUs that a reservation at this position of the queue cannot have: held GPUs, and GPUs that
 * reservations before it want. */
static uint64_t taken_before(const struct arbiter *a, const struct list *position)
{
	uint64_t taken = a->held;

	for (const struct list *l = a->queue.next; l != position; l = l->next) {
		taken |= list_entry((struct list *)(uintptr_t)l, struct reservation, link)->gpus;
	}
	return taken;
}

static void wait_at(struct arbiter *a, struct reservation *c, struct list *position)
{
	for (struct list *l = position; l != &a->queue; l = l->next) {
		struct reservation *other = list_entry(l, struct reservation, link);

		other->overtaken += (other->gpus & c->gpus) != 0;
	}
	list_append(position,
		    &c->link); /* list_append() inserts before the link that it is given */
	a->n_waiting++;
	c->overtaken = 0;
	c->state = RESERVATION_WAITING;
}

static void hold(struct arbiter *a, struct reservation *c)
{
	list_append(&a->holders, &c->link);
	a->held |= c->gpus;
	c->state = RESERVATION_HOLDING;
}

int arbiter_request(struct arbiter *a, struct reservation *c, bool wait)
{
	struct list *position = find_position(a, c);

	/* c waits although its GPUs are free if a reservation that goes before it wants one of
	 * them. */
	if ((taken_before(a, position) & c->gpus) == 0) {
		hold(a, c);
		return 0;
	}
	if (!wait) {
		return ARBITER_E_BUSY;
	}
	if (a->n_waiting >= a->max_waiting) {
		return ARBITER_E_FULL;
	}
	wait_at(a, c, position);
	return ARBITER_E_QUEUED;
}

void arbiter_release(struct arbiter *a, struct reservation *c)
{
	switch (c->state) {
	case RESERVATION_HOLDING:
		a->held &= ~c->gpus;
		break;
	case RESERVATION_WAITING:
		a->n_waiting--;
		break;
	case RESERVATION_IDLE:
		return;
	}
	list_remove(&c->link);
	c->state = RESERVATION_IDLE;
}

struct reservation *arbiter_next(struct arbiter *a)
{
	uint64_t taken = a->held;

	list_for_each(l, &a->queue) {
		struct reservation *c = list_entry(l, struct reservation, link);

		if ((taken & c->gpus) == 0) {
			list_remove(&c->link);
			a->n_waiting--;
			hold(a, c);
			return c;
		}
		taken |= c->gpus;
	}
	return NULL;
}

unsigned arbiter_position(const struct arbiter *a, const struct reservation *c)
{
	unsigned position = 0;

	if (c->state != RESERVATION_WAITING) {
		return 0;
	}
	list_for_each(l, (struct list *)(uintptr_t)&a->queue) {
		const struct reservation *other = list_entry(l, struct reservation, link);

		if ((other->gpus & c->gpus) != 0) {
			position++;
		}
		if (other == c) {
			break;
		}
	}
	return position;
}

bool arbiter_is_waited_for(const struct arbiter *a, uint64_t gpus)
{
	return find_wanting(&a->queue, &a->queue, gpus) != NULL;
}

const struct reservation *arbiter_blocker(const struct arbiter *a, const struct reservation *c)
{
	const struct reservation *holder;

	if (c->state == RESERVATION_HOLDING) {
		return NULL; /* a holder waits for nobody */
	}
	holder = find_wanting(&a->holders, &a->holders, c->gpus);
	return holder ? holder : find_wanting(&a->queue, find_position(a, c), c->gpus);
}
