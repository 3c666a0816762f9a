/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/strata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A hash table of numbers with open addressing, at least twice as large as the largest number of
 * strata, so that each search ends at a free slot. A thread adds a stratum with the lock held and
 * writes its slot last, so a thread that reads a number from a slot may read that stratum. Strata
 * are never removed or changed.
 *
 * A stratum has a parent, whose key has fewer fields: no range, then no path, then no shape.
 * Parents are added first and count their children. A parent with the largest number of children
 * holds the launches of further ones itself: a program that gives every range a name of its own, or
 * every launch another shape, gets strata by path, or by kernel, instead of strata of one launch
 * each. If there is no room for a launch's path, the stratum without the path holds the launch. */

int strata_init(struct strata *s, size_t max, uint32_t passes)
{
	memset(s, 0, sizeof(*s));
	if (max == 0 || passes == 0 || passes > STRATA_PASSES_MAX) {
		return -EINVAL;
	}
	s->max = max;
	s->passes = passes;
	for (s->n_slots = 1; s->n_slots < 2 * max; s->n_slots *= 2) {
	}
	lock_init(&s->lock, LOCK_LEAF);
	s->v = calloc(max, sizeof(*s->v));
	s->seen = calloc(max * passes, sizeof(*s->seen));
	s->slots = calloc(s->n_slots, sizeof(*s->slots));
	if (!s->v || !s->seen || !s->slots) {
		strata_deinit(s);
		return -ENOMEM;
	}
	s->v[STRATA_REST].merged = true;
	s->n = 1;
	return 0;
}

void strata_deinit(struct strata *s)
{
	free(s->v);
	free(s->seen);
	free(s->slots);
	lock_deinit(&s->lock);
	memset(s, 0, sizeof(*s));
}

/* --- keys --- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x7fb5d329728ea185);
	x ^= x >> 27;
	x *= UINT64_C(0x81dadef4bc2dd44d);
	return x ^ x >> 33;
}

static uint64_t hash_key(const struct stratum_key *key)
{
	uint64_t words[sizeof(*key) / sizeof(uint64_t)], hash = UINT64_C(0x243f6a8885a308d3);

	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		hash = mix(hash ^ words[i]) + i;
	}
	return hash;
}

/* Runs at each launch, so the hash takes one multiplication for each number. */
uint64_t strata_hash_launch(const struct stratum_key *key)
{
	const uint64_t factor = UINT64_C(0xd1342543de82ef95);
	uint64_t hash = key->kernel;

	for (int i = 0; i < 3; i++) {
		hash = hash * factor + ((uint64_t)key->grid[i] << 32 | key->block[i]);
	}
	return mix(hash * factor + key->shared_bytes);
}

static bool has_shape(const struct stratum_key *key)
{
	return key->grid[0] || key->grid[1] || key->grid[2] || key->block[0] || key->block[1] ||
	       key->block[2] || key->shared_bytes;
}

static enum stratum_level level_of(const struct stratum_key *key)
{
	return key->range	? STRATUM_RANGE
	       : key->path	? STRATUM_PATH
	       : has_shape(key) ? STRATUM_SHAPE
				: STRATUM_KERNEL;
}

static struct stratum_key parent_of(const struct stratum_key *key)
{
	struct stratum_key parent = { .kernel = key->kernel, .device = key->device };

	if (key->range) {
		parent = *key;
		parent.range = 0;
	} else if (key->path) {
		parent = *key;
		parent.path = 0;
	}
	return parent;
}

/* How many children the parent of a stratum with this key may have. */
static uint32_t children_max(const struct stratum_key *key)
{
	switch (level_of(key)) {
	case STRATUM_RANGE:
		return STRATA_RANGES_MAX;
	case STRATUM_PATH:
		return STRATA_PATHS_OF_A_SHAPE_MAX;
	default:
		return STRATA_SHAPES_OF_A_KERNEL_MAX;
	}
}

static bool has_room(struct strata *s, const struct stratum_key *key, const struct stratum *parent)
{
	return parent->children < children_max(key) &&
	       strata_n(s) < (key->path ? s->max / 2 : s->max);
}

/* --- the table --- */

/* The stratum's number, or 0 if there is none. *ret_slot is its slot, or the free slot for it. */
static uint32_t look_up(struct strata *s, const struct stratum_key *key, uint64_t hash,
			size_t *ret_slot)
{
	size_t i = hash & (s->n_slots - 1);
	uint32_t number;

	while ((number = atomic_load_explicit(&s->slots[i], memory_order_acquire)) != 0) {
		const struct stratum *found = &s->v[number];

		if (found->hash == hash && memcmp(&found->key, key, sizeof(*key)) == 0) {
			break;
		}
		i = (i + 1) & (s->n_slots - 1);
	}
	*ret_slot = i;
	return number;
}

/* With the lock held. Returns 0 if there is no room. */
static uint32_t add_locked(struct strata *s, const struct stratum_key *key, uint64_t hash,
			   size_t slot, uint32_t parent)
{
	uint32_t number = s->n;

	if (number == s->max) {
		return 0;
	}
	s->v[number].key = *key;
	s->v[number].hash = hash;
	s->v[number].level = level_of(key);
	s->v[number].parent = parent;
	s->v[parent].children++;
	atomic_store_explicit(&s->n, number + 1, memory_order_release);
	atomic_store_explicit(&s->slots[slot], number, memory_order_release);
	return number;
}

static uint32_t add(struct strata *s, const struct stratum_key *key, uint64_t hash, uint32_t parent)
{
	uint32_t number;
	size_t slot;

	LOCK_SCOPE(&s->lock);
	number = look_up(s, key, hash, &slot);
	if (number == 0) {
		number = add_locked(s, key, hash, slot, parent);
	}
	return number;
}

static uint32_t merge_into(struct strata *s, uint32_t number)
{
	if (!atomic_load_explicit(&s->v[number].merged, memory_order_relaxed)) {
		s->v[number].merged = true;
	}
	return number;
}

/* The stratum for a key that found no room itself: the same key without the path if possible, else
 * the parent's. */
static uint32_t find_less(struct strata *s, const struct stratum_key *key,
			  const struct stratum_key *above, uint32_t parent)
{
	struct stratum_key less = *key;

	less.path = 0;
	if (key->path && key->range && memcmp(&s->v[parent].key, above, sizeof(*above)) != 0) {
		return merge_into(s, strata_find(s, &less));
	}
	return merge_into(s, parent);
}

uint32_t strata_find(struct strata *s, const struct stratum_key *key)
{
	uint64_t hash = hash_key(key);
	struct stratum_key above;
	uint32_t number, parent = STRATA_REST;
	size_t slot;

	number = look_up(s, key, hash, &slot);
	if (number != 0) {
		return number;
	}
	if (level_of(key) != STRATUM_KERNEL) {
		above = parent_of(key);
		parent = strata_find(s, &above);
		/* There was no room for the parent, or the parent takes no more children. */
		if (memcmp(&s->v[parent].key, &above, sizeof(above)) != 0 ||
		    !has_room(s, key, &s->v[parent])) {
			return find_less(s, key, &above, parent);
		}
	}
	number = strata_are_full(s) ? 0 : add(s, key, hash, parent);
	return number != 0 ? number : merge_into(s, parent);
}

/* --- counts --- */

uint64_t strata_seen(struct strata *s, uint32_t number)
{
	uint64_t n = 0;

	for (uint32_t pass = 0; pass < s->passes; pass++) {
		n += atomic_load_explicit(&s->seen[(size_t)number * s->passes + pass],
					  memory_order_relaxed);
	}
	return n;
}

uint64_t strata_total(struct strata *s)
{
	uint64_t n = 0;

	for (uint32_t number = 0; number < strata_n(s); number++) {
		n += strata_seen(s, number);
	}
	return n;
}
