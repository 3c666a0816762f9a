/* SPDX-License-Identifier: Apache-2.0 */

/* The agent numbers kernels and ranges densely from 1, so one bit for each id says whether it has
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
		free(w->processes[i].ranges.words);
	}
	free(w->processes);
	map_deinit_items(&w->sets);
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

static uint64_t hash_set(unsigned process, const struct gpuctr_range *const *ranges,
			 size_t n_ranges)
{
	uint64_t hash = process;

	for (size_t i = 0; i < n_ranges; i++) {
		hash = map_mix(hash, ranges[i]->id);
	}
	return hash;
}

struct wanted {
	unsigned process;
	const struct gpuctr_range *const *ranges;
	size_t n_ranges;
};

static bool is_set(const void *item, const void *key)
{
	const struct written_set *set = item;
	const struct wanted *w = key;

	if (set->process != w->process || set->count != w->n_ranges) {
		return false;
	}
	for (size_t i = 0; i < w->n_ranges; i++) {
		if (set->ids[i] != w->ranges[i]->id) {
			return false;
		}
	}
	return true;
}

int written_set(struct written *w, unsigned process, const struct gpuctr_range *const *ranges,
		size_t n_ranges, unsigned *ret_id, bool *ret_new)
{
	const struct wanted wanted = { process, ranges, n_ranges };
	uint64_t hash = hash_set(process, ranges, n_ranges);
	struct written_set *set = map_find(&w->sets, hash, is_set, &wanted);

	*ret_new = !set && n_ranges > 0;
	if (*ret_new) {
		set = malloc(sizeof(*set) + n_ranges * sizeof(*set->ids));
		if (!set || map_add(&w->sets, hash, set)) {
			free(set);
			return -ENOMEM;
		}
		*set = (struct written_set){ process, (unsigned)w->sets.n, n_ranges };
		for (size_t i = 0; i < n_ranges; i++) {
			set->ids[i] = ranges[i]->id;
		}
	}
	*ret_id = set ? set->id : 0;
	return 0;
}
