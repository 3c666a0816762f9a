/* SPDX-License-Identifier: Apache-2.0 */

/* The agent numbers kernels and sites densely from 1, so one bit for each id says whether it has
 * been written. Sets of active ranges have no number in the API: a hash table finds them by their
 * content. A program has few distinct sets (most have one, the empty one), or one for each of its
 * asynchronous phases, and consecutive records nearly always have the same one. */

#include "client/store/written.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

void written_deinit(struct written *w)
{
	for (size_t i = 0; i < w->n_processes; i++) {
		free(w->processes[i].kernels.words);
		free(w->processes[i].sites.words);
	}
	free(w->processes);
	map_deinit_items(&w->sets);
	map_deinit_items(&w->places);
	map_deinit_items(&w->launches);
	memset(w, 0, sizeof(*w));
}

/* The index of the process, or where it is to be inserted: processes are sorted by number. */
static size_t process_index(const struct written *w, unsigned process)
{
	return ARRAY_FIND_INDEX(w->processes, w->n_processes, process, process);
}

struct written_process *written_process(struct written *w, unsigned process)
{
	size_t at = process_index(w, process);
	struct written_process *grown;

	if (at < w->n_processes && w->processes[at].process == process) {
		return &w->processes[at];
	}
	if (!array_make_room(&w->processes, sizeof(*grown), w->n_processes, &w->max_processes)) {
		return NULL;
	}
	grown = &w->processes[at];
	memmove(grown + 1, grown, (w->n_processes++ - at) * sizeof(*grown));
	*grown = (struct written_process){ .process = process };
	return grown;
}

bool written_has(const struct written_bits *bits, unsigned id)
{
	size_t word = id / 64;

	return word < bits->n_words && (bits->words[word] >> (id % 64) & 1) != 0;
}

int written_add(struct written_bits *bits, unsigned id)
{
	size_t word = id / 64;

	if (word >= bits->n_words) {
		size_t n_words = word + word / 2 + 16;
		uint64_t *words = realloc(bits->words, n_words * sizeof(*words));

		if (!words) {
			return -ENOMEM;
		}
		memset(words + bits->n_words, 0, (n_words - bits->n_words) * sizeof(*words));
		bits->words = words;
		bits->n_words = n_words;
	}
	bits->words[word] |= UINT64_C(1) << (id % 64);
	return 0;
}

static uint64_t hash_set(unsigned process, const struct gpuctr_site *const *sites, size_t n_sites)
{
	uint64_t hash = process;

	for (size_t i = 0; i < n_sites; i++) {
		hash = map_mix(hash, sites[i]->id);
	}
	return hash;
}

struct wanted {
	unsigned process;
	const struct gpuctr_site *const *sites;
	size_t n_sites;
};

static bool is_set(const void *item, const void *key)
{
	const struct written_set *set = item;
	const struct wanted *w = key;

	if (set->process != w->process || set->count != w->n_sites) {
		return false;
	}
	for (size_t i = 0; i < w->n_sites; i++) {
		if (set->ids[i] != w->sites[i]->id) {
			return false;
		}
	}
	return true;
}

int written_set(struct written *w, unsigned process, const struct gpuctr_site *const *sites,
		size_t n_sites, unsigned *ret_id, bool *ret_new)
{
	const struct wanted wanted = { process, sites, n_sites };
	uint64_t hash = hash_set(process, sites, n_sites);
	struct written_set *set = map_find(&w->sets, hash, is_set, &wanted);

	*ret_new = !set && n_sites > 0;
	if (*ret_new) {
		set = malloc(sizeof(*set) + n_sites * sizeof(*set->ids));
		if (!set || map_add(&w->sets, hash, set)) {
			free(set);
			return -ENOMEM;
		}
		*set = (struct written_set){ process, (unsigned)w->sets.n, n_sites };
		for (size_t i = 0; i < n_sites; i++) {
			set->ids[i] = sites[i]->id;
		}
	}
	*ret_id = set ? set->id : 0;
	return 0;
}

struct place {
	unsigned id;
	struct store_attribution what;
};

/* Equal texts are one pointer. */
static bool is_place(const void *item, const void *key)
{
	const struct store_attribution *a = &((const struct place *)item)->what, *b = key;

	return a->op == b->op && a->sizes == b->sizes && a->dir == b->dir && a->layer == b->layer;
}

int written_place(struct written *w, const struct store_attribution *what, unsigned *ret_id,
		  bool *ret_new)
{
	uint64_t hash = map_mix(map_mix(0, (uintptr_t)what->op), (uintptr_t)what->sizes);
	struct place *place;

	hash = map_mix(map_mix(hash, (uintptr_t)what->dir), (uintptr_t)what->layer);
	place = map_find(&w->places, hash, is_place, what);
	*ret_new = !place && (*what->op || *what->sizes || *what->dir || *what->layer);
	if (*ret_new) {
		place = malloc(sizeof(*place));
		if (!place || map_add(&w->places, hash, place)) {
			free(place);
			return -ENOMEM;
		}
		*place = (struct place){ (unsigned)w->places.n, *what };
	}
	*ret_id = place ? place->id : 0;
	return 0;
}

/* A program may launch with another grid each time. */
enum { LAUNCHES_KEPT = 1 << 16 };

struct launch {
	unsigned id;
	int64_t values[STORE_LAUNCH_COLUMNS];
};

static bool is_launch(const void *item, const void *key)
{
	return memcmp(((const struct launch *)item)->values + 1, (const int64_t *)key + 1,
		      (STORE_LAUNCH_COLUMNS - 1) * sizeof(int64_t)) == 0;
}

int written_launch(struct written *w, const int64_t *values, unsigned *ret_id, bool *ret_new)
{
	uint64_t hash = 0;
	struct launch *launch;

	for (int i = 1; i < STORE_LAUNCH_COLUMNS; i++) {
		hash = map_mix(hash, (uint64_t)values[i]);
	}
	launch = map_find(&w->launches, hash, is_launch, values);
	*ret_new = !launch;
	if (launch) {
		*ret_id = launch->id;
		return 0;
	}
	if (w->launches.n >= LAUNCHES_KEPT) {
		map_deinit_items(&w->launches);
	}
	launch = malloc(sizeof(*launch));
	if (!launch || map_add(&w->launches, hash, launch)) {
		free(launch);
		return -ENOMEM;
	}
	memcpy(launch->values, values, sizeof(launch->values));
	*ret_id = launch->id = ++w->n_launches;
	return 0;
}
