/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Positions of kernels whose place the program itself gives, as nodes of CUDA graphs do. Kernels
 * with the same place share one position, wherever they are in the sequence of kernels. */

#include <stdint.h>

#include "client/attribution/steps.h"

#define NODES_MOST ((uint32_t)1 << 18)

struct nodes;

struct nodes *nodes_new(void);
struct nodes *nodes_free(struct nodes *p);

/* Counts one more kernel of this place. Places beyond NODES_MOST are ignored. 0 or -ENOMEM. */
int nodes_see(struct nodes *p, uint64_t place);

/* The position of this place, a new one from steps if it has none. STEPS_NONE: the place has not
 * come often enough, or no position is left. */
uint32_t nodes_position(struct nodes *p, uint64_t place, struct steps *steps);
