/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAP_FIRST_SLOTS = 64 };

void map_deinit(struct map *t)
{
	free(t->slots);
	*t = (struct map){ 0 };
}

void map_deinit_items(struct map *t)
{
	for (size_t i = 0; i < t->n_slots; i++) {
		free(t->slots[i].item);
	}
	map_deinit(t);
}

static void put(struct map *t, uint64_t hash, void *item)
{
	size_t i = hash & (t->n_slots - 1);

	while (t->slots[i].item) {
		i = (i + 1) & (t->n_slots - 1);
	}
	t->slots[i] = (struct map_slot){ item, hash };
}

static int grow(struct map *t)
{
	struct map old = *t;
	size_t n_slots = old.n_slots ? old.n_slots * 2 : MAP_FIRST_SLOTS;
	struct map_slot *slots = calloc(n_slots, sizeof(*slots));

	if (!slots) {
		return -ENOMEM;
	}
	t->slots = slots;
	t->n_slots = n_slots;
	for (size_t i = 0; i < old.n_slots; i++) {
		if (old.slots[i].item) {
			put(t, old.slots[i].hash, old.slots[i].item);
		}
	}
	free(old.slots);
	return 0;
}

int map_add(struct map *t, uint64_t hash, void *item)
{
	if (t->n * 2 >= t->n_slots && grow(t)) {
		return -ENOMEM;
	}
	put(t, hash, item);
	t->n++;
	return 0;
}

uint64_t map_hash(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t hash = n * UINT64_C(0x9e3779b97f4a7c15) + 1, word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = map_mix(hash, word);
	}
	word = 0;
	memcpy(&word, p, n);
	return map_mix(hash, word);
}
