/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/turns.h"

#include "client/agent/random.h"

/* Each configuration has one turn in a round, in an order that is drawn anew for each round: in a
 * fixed one a program whose phases last as long as a round would show each configuration the same
 * phase. Two rounds may meet with the same configuration, which is then not changed. The order is a
 * function of the seed and of nothing else. */

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
