/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/spans.h"

#include <errno.h>
#include <stdlib.h>

/* A set-associative cache of fixed size: an id belongs to one set and may use any entry of the set.
 * CUPTI assigns ids in order to every call of the program, so they are hashed. Queued batches hold
 * a few thousand launches, far fewer than there are entries. Entries of a lost batch are replaced
 * when they are the oldest of their sets. */

int spans_init(struct spans *s, unsigned bits)
{
	s->bits = bits;
	s->v = calloc((size_t)1 << bits, sizeof(*s->v));
	return s->v ? 0 : -ENOMEM;
}

/* CUPTI may report a kernel after spans_deinit(). */
void spans_deinit(struct spans *s)
{
	free(s->v);
	s->v = NULL;
}

static struct span *find_set(struct spans *s, uint32_t correlation)
{
	return s->v[(correlation * UINT32_C(0x9e3779b1)) >> (32 - s->bits)];
}

/* NULL: the launch was not announced. */
static struct span *find(struct spans *s, uint32_t correlation)
{
	struct span *set = find_set(s, correlation);

	for (size_t i = 0; i < SPANS_WAYS; i++) {
		if (set[i].correlation == correlation) {
			return &set[i];
		}
	}
	return NULL;
}

/* Ids wrap around, so age is the distance from the newest. */
static struct span *find_slot(struct spans *s, uint32_t correlation)
{
	struct span *set = find_set(s, correlation), *oldest = set;

	for (size_t i = 0; i < SPANS_WAYS; i++) {
		if (set[i].correlation == 0) {
			return &set[i];
		}
		if (correlation - set[i].correlation > correlation - oldest->correlation) {
			oldest = &set[i];
		}
	}
	return oldest;
}

void spans_expect(struct spans *s, uint32_t correlation, bool single)
{
	if (correlation != 0) {
		*find_slot(s, correlation) =
			(struct span){ .correlation = correlation, .single = single };
	}
}

bool spans_has(struct spans *s, uint32_t correlation)
{
	return correlation != 0 && s->v && find(s, correlation);
}

bool spans_add(struct spans *s, uint32_t correlation, bool single, uint64_t begin_ns,
	       uint64_t end_ns)
{
	struct span *found = correlation != 0 && s->v ? find(s, correlation) : NULL;

	if (!found || found->single != single) {
		return false;
	}
	if (!found->has_come) {
		found->has_come = true;
		found->begin_ns = begin_ns;
		found->end_ns = end_ns;
	} else if (single) {
		found->is_shared = true;
		return false;
	} else {
		found->begin_ns = begin_ns < found->begin_ns ? begin_ns : found->begin_ns;
		found->end_ns = end_ns > found->end_ns ? end_ns : found->end_ns;
	}
	return true;
}

bool spans_take(struct spans *s, uint32_t correlation, struct span *ret)
{
	struct span *found = correlation != 0 ? find(s, correlation) : NULL;
	bool has_come = found && found->has_come;

	if (has_come) {
		*ret = *found;
		found->correlation = 0;
	}
	return has_come;
}

void spans_forget(struct spans *s, uint32_t correlation)
{
	struct span *found = correlation != 0 ? find(s, correlation) : NULL;

	if (found) {
		found->correlation = 0;
	}
}
