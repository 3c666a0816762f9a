/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The order in which the passes of one context take turns. */

#include <stdint.h>

struct turns {
	uint64_t seed, drawn;
	uint32_t n;
};

/* n: how many passes, at least 1. Contexts of different seeds have different orders. */
void turns_init(struct turns *t, uint64_t seed, uint32_t n);

/* The next pass, below n: in most cases the one that CUPTI has next; now and then the one after
 * that. */
uint32_t turns_next(struct turns *t, uint32_t pass);
