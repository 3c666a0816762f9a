/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/turns.h"

#include <stdbool.h>

/* CUPTI goes through the passes in their order. In a fixed order a program whose phases last as
 * long as a round would show each pass the same phase, so now and then one is left out, each as
 * often as the others: at most once in a round, on average, since that costs nearly as much as a
 * turn. Which ones is a function of the seed and of nothing else. In the first rounds none is: a
 * program that is over soon would be left with few turns of some, and many of others. */

enum { LEAVES_OUT_ONE_IN = 4, ROUNDS_IN_ORDER = 4 };

/* The finaliser that David Stafford found for Steele, Lea and Flood's SplitMix (his mix 13). */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The n-th number of the order that belongs to the seed. */
static uint64_t draw(uint64_t seed, uint64_t n)
{
	return scramble(scramble(seed) + n * UINT64_C(0x9e3779b97f4a7c15));
}

void turns_init(struct turns *t, uint64_t seed, uint32_t n)
{
	*t = (struct turns){ .seed = seed, .n = n };
}

uint32_t turns_next(struct turns *t, uint32_t pass)
{
	uint32_t one_in = t->n > LEAVES_OUT_ONE_IN ? t->n : LEAVES_OUT_ONE_IN;
	uint64_t drawn = t->drawn++;
	bool leaves_out =
		drawn >= (uint64_t)ROUNDS_IN_ORDER * t->n && draw(t->seed, drawn) % one_in == 0;

	return (pass + 1 + leaves_out) % t->n;
}
