/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STORE_WRITTEN_H
#define CLIENT_STORE_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

/* A growing set of small numbers. */
struct written_bits {
	uint64_t *words;
	size_t n_words;
};

struct written_process {
	unsigned process;
	struct written_bits kernels, ranges;
};

/* A set of active ranges; its ids lie in intern.ids. */
struct written_set {
	uint64_t hash;
	unsigned process;
	unsigned id; /* 0: free slot */
	size_t first, count;
};

/* What the file has of each process. */
struct written {
	struct written_process *processes;
	size_t n_processes, max_processes;
	struct written_set *sets; /* open addressing, a power of two */
	size_t n_slots, n_sets;
	unsigned *ids;
	size_t n_ids, max_ids;
};

/* Zero-initialised by the caller. */
void written_deinit(struct written *w);

/* NULL: out of memory. Borrowed until the next call. */
struct written_process *written_process(struct written *w, unsigned process);

bool written_has(const struct written_bits *bits, unsigned id);
int written_add(struct written_bits *bits, unsigned id); /* -ENOMEM */

/* The number of this set of ranges within the capture, from 1; 0 for the empty set. *ret_new tells
 * whether it has just been made. */
int written_set(struct written *w, unsigned process, const struct gpuctr_range *const *ranges,
		size_t n_ranges, unsigned *ret_id, bool *ret_new);

#endif
