/* SPDX-License-Identifier: Apache-2.0 */

/* The agent numbers kernels and ranges densely from 1, so one bit for each id says whether it has
 * been written. Sets of active ranges have no number in the API: a hash table finds them by their
 * content. A program has few distinct sets (most have one, the empty one), or one for each of its
 * asynchronous phases, and consecutive records nearly always have the same one. */

#include "client/store/written.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void written_deinit(struct written *w)
{
	for (size_t i = 0; i < w->n_processes; i++) {
		free(w->processes[i].kernels.words);
		free(w->processes[i].ranges.words);
	}
	free(w->processes);
	free(w->sets);
	free(w->ids);
	memset(w, 0, sizeof(*w));
}

/* Where the process is, or would be: they are sorted by number. */
static size_t find_place(const struct written *w, unsigned process)
{
	size_t low = 0, high = w->n_processes;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->processes[middle].process < process) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

struct written_process *written_process(struct written *w, unsigned process)
{
	size_t at = find_place(w, process);
	struct written_process *grown;

	if (at < w->n_processes && w->processes[at].process == process) {
		return &w->processes[at];
	}
	if (w->n_processes == w->max_processes) {
		size_t max = w->max_processes ? w->max_processes * 2 : 8;

		grown = realloc(w->processes, max * sizeof(*grown));
		if (!grown) {
			return NULL;
		}
		w->processes = grown;
		w->max_processes = max;
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
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ process;

	for (size_t i = 0; i < n_ranges; i++) {
		hash = (hash ^ ranges[i]->id) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	return hash;
}

static bool same_set(const struct written *w, const struct written_set *set, unsigned process,
		     const struct gpuctr_range *const *ranges, size_t n_ranges)
{
	if (set->process != process || set->count != n_ranges) {
		return false;
	}
	for (size_t i = 0; i < n_ranges; i++) {
		if (w->ids[set->first + i] != ranges[i]->id) {
			return false;
		}
	}
	return true;
}

static int grow_slots(struct written *w)
{
	size_t n_slots = w->n_slots ? w->n_slots * 2 : 64;
	struct written_set *sets;

	if (w->n_sets * 4 < w->n_slots * 3) {
		return 0;
	}
	sets = calloc(n_slots, sizeof(*sets));
	if (!sets) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < w->n_slots; i++) {
		size_t slot = w->sets[i].hash & (n_slots - 1);

		if (!w->sets[i].id) {
			continue;
		}
		while (sets[slot].id) {
			slot = (slot + 1) & (n_slots - 1);
		}
		sets[slot] = w->sets[i];
	}
	free(w->sets);
	w->sets = sets;
	w->n_slots = n_slots;
	return 0;
}

static int add_ids(struct written *w, const struct gpuctr_range *const *ranges, size_t n_ranges)
{
	if (w->n_ids + n_ranges > w->max_ids) {
		size_t max_ids = (w->n_ids + n_ranges) * 2;
		unsigned *ids = realloc(w->ids, max_ids * sizeof(*ids));

		if (!ids) {
			return -ENOMEM;
		}
		w->ids = ids;
		w->max_ids = max_ids;
	}
	for (size_t i = 0; i < n_ranges; i++) {
		w->ids[w->n_ids++] = ranges[i]->id;
	}
	return 0;
}

int written_set(struct written *w, unsigned process, const struct gpuctr_range *const *ranges,
		size_t n_ranges, unsigned *ret_id, bool *ret_new)
{
	uint64_t hash = hash_set(process, ranges, n_ranges);
	size_t slot;

	*ret_new = false;
	*ret_id = 0;
	if (n_ranges == 0) {
		return 0;
	}
	if (grow_slots(w) < 0) {
		return -ENOMEM;
	}
	for (slot = hash & (w->n_slots - 1); w->sets[slot].id;
	     slot = (slot + 1) & (w->n_slots - 1)) {
		if (w->sets[slot].hash == hash &&
		    same_set(w, &w->sets[slot], process, ranges, n_ranges)) {
			*ret_id = w->sets[slot].id;
			return 0;
		}
	}
	if (add_ids(w, ranges, n_ranges) < 0) {
		return -ENOMEM;
	}
	w->sets[slot] = (struct written_set){ .hash = hash,
					      .process = process,
					      .id = (unsigned)++w->n_sets,
					      .first = w->n_ids - n_ranges,
					      .count = n_ranges };
	*ret_id = w->sets[slot].id;
	*ret_new = true;
	return 0;
}
