/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/store/schema.h"
#include "client/store/store.h"
#include "proto/base/map.h"

/* A growing set of small numbers. */
struct written_bits {
	uint64_t *words;
	size_t n_words;
};

struct written_process {
	unsigned process;
	struct written_bits kernels, sites;
};

/* A set of active ranges. */
struct written_set {
	unsigned process, id;
	size_t count;
	unsigned ids[];
};

/* What the file has of each process. */
struct written {
	struct written_process *processes;
	size_t n_processes, max_processes;
	struct map sets, places, launches;
	unsigned n_launches; /* that were written */
};

/* Zero-initialised by the caller. */
void written_deinit(struct written *w);

/* NULL: out of memory. Borrowed until the next call. */
struct written_process *written_process(struct written *w, unsigned process);

bool written_has(const struct written_bits *bits, unsigned id);
int written_add(struct written_bits *bits, unsigned id); /* -ENOMEM */

/* The number of this set of ranges within the capture, from 1; 0 for the empty set. *ret_new tells
 * whether it has just been made. */
int written_set(struct written *w, unsigned process, const struct gpuctr_site *const *sites,
		size_t n_sites, unsigned *ret_id, bool *ret_new);

/* The number of the launch with these values, by column (its own number is left out of account),
 * from
 * 1. After very many launches one that comes again gets another number. -ENOMEM. */
int written_launch(struct written *w, const int64_t *values, unsigned *ret_id, bool *ret_new);

/* The number of this combination of op, sizes, dir and layer, from 1; 0: nothing is known. -ENOMEM.
 */
int written_place(struct written *w, const struct store_attribution *what, unsigned *ret_id,
		  bool *ret_new);
