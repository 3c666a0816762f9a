/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_PATH_H
#define GPUCTR_AGENT_PATH_H

/* How a thread came to a launch: which kernels it launched last, in which shapes and order, of
 * those that a filter lets through. A program that repeats its steps comes to each of their
 * launches by the same path, so the path tells launches of one kernel and shape apart that do
 * different work: in two iterations of ResNet-18 that were recorded on an H200, launches of one
 * kernel and shape deviate from their mean by 34 % of all bytes; by 8 % with the four launches
 * before, 0.7 % with eight, 0.4 % with sixteen, which is what the iterations differ by. Of one
 * thread. */

#include <stdint.h>

enum { PATH_LAUNCHES = 8 };

/* Starts zeroed. */
struct path {
	uint64_t launches[PATH_LAUNCHES];
	uint32_t next;
	uint64_t sum; /* of launches times powers of PATH_FACTOR, the last one's being 0 */
};

#define PATH_FACTOR UINT64_C(0x9e6c63d0876a9a47) /* odd; else any */
#define PATH_FACTOR_2 (PATH_FACTOR * PATH_FACTOR)
#define PATH_FACTOR_4 (PATH_FACTOR_2 * PATH_FACTOR_2)
#define PATH_FACTOR_8 (PATH_FACTOR_4 * PATH_FACTOR_4)

_Static_assert((int)PATH_LAUNCHES == 8, "what leaves is multiplied by the factor's eighth power");

/* A launch more, by its hash. */
static inline void path_add(struct path *p, uint64_t launch)
{
	uint64_t *place = &p->launches[p->next];

	p->sum = p->sum * PATH_FACTOR + launch - *place * PATH_FACTOR_8;
	*place = launch;
	p->next = (p->next + 1) % PATH_LAUNCHES;
}

/* Never 0. */
static inline uint64_t path_hash(const struct path *p)
{
	return p->sum | 1;
}

#endif
