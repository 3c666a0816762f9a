/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/turns.h"

#include "client/agent/random.h"

/* CUPTI goes through the passes in their order. In a fixed order a program whose phases last as
 * long as a round would show each pass the same phase, so now and then one is left out, each as
 * often as the others: at most once in a round, on average, since that costs nearly as much as a
 * turn. Which ones is a function of the seed and of nothing else, but for a budget that never has
 * room for it (budget_may_leave_out()). In the first rounds none is: a program that is over soon
 * would be left with few turns of some, and many of others.
 *
 * So a launch has its chance to come in the turn of the pass in which it is measured, and stands
 * for launches that came in the turns of the others as well. Turns are not of equal length, because
 * ranges do not cost the same: their parts of the time are learnt, and at first each counts as if
 * it had been there for TICKS_AT_FIRST. */

enum { TICKS_AT_FIRST = 10, LEAVES_OUT_ONE_IN = 4, ROUNDS_IN_ORDER = 4 };

void turns_init(struct turns *t, uint64_t seed, uint32_t n)
{
	*t = (struct turns){ .seed = random_scramble(seed), .n = n };
}

uint32_t turns_next(struct turns *t, uint32_t pass, bool may_leave_out)
{
	uint32_t one_in = t->n > LEAVES_OUT_ONE_IN ? t->n : LEAVES_OUT_ONE_IN;
	uint64_t drawn = t->drawn++;
	bool leaves_out = may_leave_out && drawn >= (uint64_t)ROUNDS_IN_ORDER * t->n &&
			  random_at(t->seed, drawn) % one_in == 0;

	return (pass + 1 + leaves_out) % t->n;
}

void turn_shares_init(struct turn_shares *s, uint32_t n)
{
	*s = (struct turn_shares){ .n = n };
	for (uint32_t i = 0; i < n; i++) {
		s->ticks[i] = TICKS_AT_FIRST;
		atomic_init(&s->share[i], 1 / (float)n);
	}
}

void turn_shares_note(struct turn_shares *s, uint32_t pass)
{
	uint64_t all = 0;

	s->ticks[pass]++;
	for (uint32_t i = 0; i < s->n; i++) {
		all += s->ticks[i];
	}
	for (uint32_t i = 0; i < s->n; i++) {
		atomic_store(&s->share[i], (float)s->ticks[i] / (float)all);
	}
}
