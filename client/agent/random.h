/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The finaliser that David Stafford found for Steele, Lea and Flood's SplitMix (his mix 13). */
static inline uint64_t random_scramble(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The n-th number of a stream. */
static inline uint64_t random_at(uint64_t stream, uint64_t n)
{
	return random_scramble(random_scramble(stream) + n * UINT64_C(0x9e3779b97f4a7c15));
}
