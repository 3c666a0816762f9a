/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/arbiter.h"

#include <stddef.h>

void arbiter_init(struct arbiter *a, unsigned max_waiting)
{
	*a = (struct arbiter){ .max_waiting = max_waiting };
	list_init(&a->queue);
	list_init(&a->holders);
}

void claim_init(struct claim *c, uint64_t gpus)
{
	*c = (struct claim){ .gpus = gpus, .state = CLAIM_IDLE };
	list_init(&c->link);
}

/* GPUs that c may not have: those that are held, and those that earlier claims in the queue
 * want. */
static uint64_t taken_before(const struct arbiter *a, const struct claim *c)
{
	uint64_t taken = a->held;

	list_for_each(l, (struct list *)(uintptr_t)&a->queue) {
		const struct claim *other = list_entry(l, struct claim, link);

		if (other == c) {
			break;
		}
		taken |= other->gpus;
	}
	return taken;
}

static void hold(struct arbiter *a, struct claim *c)
{
	list_append(&a->holders, &c->link);
	a->held |= c->gpus;
	c->state = CLAIM_HOLDING;
}

int arbiter_request(struct arbiter *a, struct claim *c, bool wait)
{
	if ((taken_before(a, c) & c->gpus) == 0) {
		hold(a, c);
		return 0;
	}
	if (!wait) {
		return ARBITER_E_BUSY;
	}
	if (a->n_waiting >= a->max_waiting) {
		return ARBITER_E_FULL;
	}
	list_append(&a->queue, &c->link);
	a->n_waiting++;
	c->state = CLAIM_WAITING;
	return ARBITER_E_QUEUED;
}

void arbiter_release(struct arbiter *a, struct claim *c)
{
	switch (c->state) {
	case CLAIM_HOLDING:
		a->held &= ~c->gpus;
		break;
	case CLAIM_WAITING:
		a->n_waiting--;
		break;
	case CLAIM_IDLE:
		return;
	}
	list_remove(&c->link);
	c->state = CLAIM_IDLE;
}

struct claim *arbiter_next(struct arbiter *a)
{
	uint64_t taken = a->held;

	list_for_each(l, &a->queue) {
		struct claim *c = list_entry(l, struct claim, link);

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

unsigned arbiter_position(const struct arbiter *a, const struct claim *c)
{
	unsigned position = 0;

	if (c->state != CLAIM_WAITING) {
		return 0;
	}
	list_for_each(l, (struct list *)(uintptr_t)&a->queue) {
		const struct claim *other = list_entry(l, struct claim, link);

		if ((other->gpus & c->gpus) != 0) {
			position++;
		}
		if (other == c) {
			break;
		}
	}
	return position;
}

const struct claim *arbiter_blocker(const struct arbiter *a, const struct claim *c)
{
	if (c->state == CLAIM_HOLDING) {
		return NULL; /* a holder waits for nobody */
	}
	list_for_each(l, (struct list *)(uintptr_t)&a->holders) {
		const struct claim *other = list_entry(l, struct claim, link);

		if (other != c && (other->gpus & c->gpus) != 0) {
			return other;
		}
	}
	list_for_each(l, (struct list *)(uintptr_t)&a->queue) {
		const struct claim *other = list_entry(l, struct claim, link);

		if (other == c) {
			break;
		}
		if ((other->gpus & c->gpus) != 0) {
			return other;
		}
	}
	return NULL;
}
