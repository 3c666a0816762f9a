/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The path to a launch: the last kernels that its thread launched, with shapes and order, among
 * those that the filter selects. A program that repeats a step reaches each launch of the step by
 * the same path. So the path distinguishes launches of the same kernel and shape that do different
 * work. In two iterations of ResNet-18 recorded on an H200, launches of the same kernel and shape
 * deviate from their mean by 34 % of all bytes; of the same path as well by 8 % with paths of four
 * launches, 0.7 % with eight, and 0.4 % with sixteen, which is the difference between the
 * iterations. A path belongs to one thread. */

#include <stdint.h>

enum { PATH_LAUNCHES = 8 };

/* Starts zeroed. */
struct path {
	uint64_t launches[PATH_LAUNCHES];
	uint32_t next;
	uint64_t sum; /* sum of the launches' hashes times powers of PATH_FACTOR; the power of the
			 last launch is 0 */
};

#define PATH_FACTOR UINT64_C(0x9e6c63d0876a9a47) /* any odd number */
#define PATH_FACTOR_2 (PATH_FACTOR * PATH_FACTOR)
#define PATH_FACTOR_4 (PATH_FACTOR_2 * PATH_FACTOR_2)
#define PATH_FACTOR_8 (PATH_FACTOR_4 * PATH_FACTOR_4)

_Static_assert((int)PATH_LAUNCHES == 8, "what leaves is multiplied by the factor's eighth power");

/* Appends a launch, given its hash. */
static inline void path_add(struct path *p, uint64_t launch)
{
	uint64_t *slot = &p->launches[p->next];

	p->sum = p->sum * PATH_FACTOR + launch - *slot * PATH_FACTOR_8;
	*slot = launch;
	p->next = (p->next + 1) % PATH_LAUNCHES;
}

/* Never 0. */
static inline uint64_t path_hash(const struct path *p)
{
	return p->sum | 1;
}
