/* SPDX-License-Identifier: Apache-2.0 */

/* A graph that is launched once, or is made anew for each launch, has places that never come again:
 * its kernels are left to the steps of their stream. So a place gets a position when it has come
 * three times, because positions with fewer kernels are not solved. */

#include "client/attribution/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_LEAST 3

struct place {
	uint64_t place; /* 0: free */
	uint32_t times, position;
};

struct nodes {
	struct place *v; /* hash table, at most half full */
	uint32_t size, used;
};

struct nodes *nodes_new(void)
{
	return calloc(1, sizeof(struct nodes));
}

struct nodes *nodes_free(struct nodes *p)
{
	if (p) {
		free(p->v);
	}
	free(p);
	return NULL;
}

/* The entry of this place, or the free slot for it. */
static struct place *find(const struct nodes *p, uint64_t place)
{
	uint32_t i = (uint32_t)((place * 0x9E3779B97F4A7C15ULL) >> 32) & (p->size - 1);

	while (p->v[i].place != 0 && p->v[i].place != place) {
		i = (i + 1) & (p->size - 1);
	}
	return &p->v[i];
}

static int grow(struct nodes *p)
{
	struct nodes more = { .size = p->size ? 2 * p->size : 1024, .used = p->used };

	more.v = calloc(more.size, sizeof(*more.v));
	if (!more.v) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < p->size; i++) {
		if (p->v[i].place != 0) {
			*find(&more, p->v[i].place) = p->v[i];
		}
	}
	free(p->v);
	*p = more;
	return 0;
}

int nodes_see(struct nodes *p, uint64_t place)
{
	struct place *found;

	if (2 * p->used >= p->size && p->used < NODES_MOST && grow(p) < 0) {
		return -ENOMEM;
	}
	found = find(p, place);
	if (found->place == 0) {
		if (p->used == NODES_MOST) {
			return 0;
		}
		*found = (struct place){ .place = place, .position = STEPS_NONE };
		p->used++;
	}
	found->times += found->times < TIMES_LEAST;
	return 0;
}

uint32_t nodes_position(struct nodes *p, uint64_t place, struct steps *steps)
{
	struct place *found = p->size > 0 ? find(p, place) : NULL;

	if (!found || found->place == 0 || found->times < TIMES_LEAST) {
		return STEPS_NONE;
	}
	if (found->position == STEPS_NONE) {
		found->position = steps_take_position(steps);
	}
	return found->position;
}
