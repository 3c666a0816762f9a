/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/turns.h"

#include "client/agent/random.h"

/* Each configuration has one turn in a round, in an order that is drawn anew for each round: in a
 * fixed one a program whose phases last as long as a round would show each configuration the same
 * phase. Two rounds may meet with the same configuration, which is then not changed. The order is a
 * function of the seed and of nothing else.
 *
 * So a launch has its chance to come in the turn of the configuration under which it is measured,
 * and stands for launches that came in the turns of the others as well. Turns are not of equal
 * length, because ranges do not cost the same: their parts of the time are learnt, and at first
 * each counts as if it had been there for TICKS_AT_FIRST. */

enum { TICKS_AT_FIRST = 10 };

/* Durstenfeld's shuffle (Algorithm 235, Communications of the ACM 7, 1964). */
static void shuffle(struct turns *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		t->order[i] = (uint8_t)i;
	}
	for (uint32_t i = t->n - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(random_at(t->seed + t->round, i) % (i + 1));
		uint8_t kept = t->order[i];

		t->order[i] = t->order[k];
		t->order[k] = kept;
	}
	t->round++;
	t->at = 0;
}

void turns_init(struct turns *t, uint64_t seed, uint32_t n)
{
	*t = (struct turns){ .seed = random_scramble(seed), .n = n };
	shuffle(t);
}

uint32_t turns_next(struct turns *t)
{
	if (t->at == t->n) {
		shuffle(t);
	}
	return t->order[t->at++];
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
