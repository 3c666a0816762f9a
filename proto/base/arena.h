/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory that is allocated in pieces and freed all at once, with an upper bound; for example,
 * memory to unpack a peer's message. Pieces are aligned for any type. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/quota.h"

/* The value of limit for an arena without a limit. */
#define ARENA_NO_LIMIT (SIZE_MAX / 2)

struct arena_block;

struct arena {
	struct arena_block *blocks;
	size_t total;
	size_t limit;
	struct quota *quota; /* account for the blocks' bytes; NULL: none */
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_deinit(struct arena *a);

/* Takes back all pieces; keeps one block for later. */
void arena_reset(struct arena *a);

/* NULL when the limit or the quota is reached, or memory is out. Not zeroed. */
void *arena_alloc(struct arena *a, size_t bytes);
void *arena_zalloc(struct arena *a, size_t bytes);
void *arena_zalloc_array(struct arena *a, size_t n, size_t size);

/* A copy of the first length bytes of text, with a NUL behind them. */
char *arena_text(struct arena *a, const char *text, size_t length);

/* NULL as for arena_alloc(). */
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
