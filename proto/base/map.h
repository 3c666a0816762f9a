/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A hash table of the caller's items, with open addressing, at most half full. The caller computes
 * the hash of a key and compares items with the key. A slot has the hash and the item, so the table
 * grows without calling the caller. Zero-initialised by the caller. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	void *item; /* borrowed; NULL: free */
	uint64_t hash;
};

struct map {
	struct map_slot *slots;
	size_t n, n_slots; /* a power of two, or 0 */
};

typedef bool (*map_has_fn)(const void *item, const void *key);

void map_deinit(struct map *t);
void map_deinit_items(struct map *t); /* also frees the items, which malloc() has allocated */

/* Adds an item that is not in the table yet. -ENOMEM: it was not added. */
int map_add(struct map *t, uint64_t hash, void *item);

/* Mixes one more pointer or number into a hash. */
static inline uint64_t map_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* The hash of n bytes. */
uint64_t map_hash(const void *data, size_t n);

/* The item that has the key, or NULL. Inlined with has(), because some callers search once for each
 * record. */
static inline __attribute__((always_inline)) void *map_find(const struct map *t, uint64_t hash,
							    map_has_fn has, const void *key)
{
	size_t mask = t->n_slots - 1;

	if (t->n_slots == 0) {
		return NULL;
	}
	for (size_t i = hash & mask; t->slots[i].item; i = (i + 1) & mask) {
		if (t->slots[i].hash == hash && has(t->slots[i].item, key)) {
			return t->slots[i].item;
		}
	}
	return NULL;
}
