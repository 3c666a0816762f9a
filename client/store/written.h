/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Rows of one table. */
struct written_rows {
	struct map kept;
	unsigned n; /* number of rows that were written */
};

/* What the file already has: kernels and sites of each process, and rows of all processes. */
struct written {
	struct written_process *processes;
	size_t n_processes, max_processes;
	struct written_rows sets, places, launches;
};

/* Zero-initialised by the caller. */
void written_deinit(struct written *w);

/* NULL: out of memory. Borrowed until the next call. */
struct written_process *written_process(struct written *w, unsigned process);

bool written_has(const struct written_bits *bits, unsigned id);
int written_add(struct written_bits *bits, unsigned id); /* -ENOMEM */

/* Sets *ret_id to the number of the row with these values, from 1. *ret_new: the caller has to
 * write the row. After very many rows, a row may get a second number. 0 or -ENOMEM. */
int written_row(struct written_rows *rows, const int64_t *of, size_t n, unsigned *ret_id,
		bool *ret_new);
