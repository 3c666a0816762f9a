/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Kernels whose place is given by the program, as the nodes of a graph. Kernels with the same place
 * have one position, wherever they are in the sequence of kernels. */

#include <stdint.h>

#include "client/attribution/steps.h"

#define NODES_MOST ((uint32_t)1 << 18)

struct nodes;

struct nodes *nodes_new(void);
struct nodes *nodes_free(struct nodes *p);

/* One more kernel of this place; 0, or -ENOMEM. Of more than NODES_MOST nothing is known. */
int nodes_see(struct nodes *p, uint64_t place);

/* Its position, from steps; STEPS_NONE: it has not come often enough, or there are no more. */
uint32_t nodes_position(struct nodes *p, uint64_t place, struct steps *steps);
