/* SPDX-License-Identifier: Apache-2.0 */

/* The agent numbers kernels and sites densely from 1, so one bit for each id says whether it has
 * been written. Sets of active ranges, places and launches have no number in the API: a hash table
 * finds them by their values. A program has few of these, or one for each asynchronous phase, and
 * consecutive records mostly share them. */

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
	map_deinit_items(&w->sets.kept);
	map_deinit_items(&w->places.kept);
	map_deinit_items(&w->launches.kept);
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

/* Bounds the memory, because a program may launch with another grid each time. */
enum { ROWS_KEPT = 1 << 16 };

struct row {
	unsigned id;
	size_t n;
	const int64_t *of; /* values, behind the struct */
};

static bool is_row(const void *item, const void *key)
{
	const struct row *a = item, *b = key;

	return a->n == b->n && memcmp(a->of, b->of, a->n * sizeof(*a->of)) == 0;
}

int written_row(struct written_rows *rows, const int64_t *of, size_t n, unsigned *ret_id,
		bool *ret_new)
{
	size_t size = n * sizeof(*of);
	uint64_t hash = map_hash(of, size);
	struct row *row = map_find(&rows->kept, hash, is_row, &(struct row){ 0, n, of });

	*ret_new = !row;
	if (row) {
		*ret_id = row->id;
		return 0;
	}
	if (rows->kept.n >= ROWS_KEPT) {
		map_deinit_items(&rows->kept);
	}
	row = malloc(sizeof(*row) + size);
	if (!row || map_add(&rows->kept, hash, row)) {
		free(row);
		return -ENOMEM;
	}
	*row = (struct row){ ++rows->n, n, memcpy(row + 1, of, size) };
	*ret_id = row->id;
	return 0;
}
