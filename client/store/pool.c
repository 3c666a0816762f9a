/* SPDX-License-Identifier: Apache-2.0 */

/* Memory for the definitions of a capture: many small strings that live as long as the reader. It
 * comes in chunks of 64 KiB; a larger request gets a chunk of its own. */

#include "client/store/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

struct store_pool_chunk {
	struct store_pool_chunk *next;
	size_t size, used;
	alignas(max_align_t) unsigned char data[];
};

void store_pool_deinit(struct store_pool *pool)
{
	while (pool->chunks) {
		struct store_pool_chunk *next = pool->chunks->next;

		free(pool->chunks);
		pool->chunks = next;
	}
}

static struct store_pool_chunk *add_chunk(struct store_pool *pool, size_t bytes)
{
	size_t size = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
	struct store_pool_chunk *chunk = calloc(1, sizeof(*chunk) + size);

	if (!chunk) {
		return NULL;
	}
	chunk->size = size;
	/* A large one goes second, so that the room left in the first is still used. */
	if (pool->chunks && size != CHUNK_BYTES) {
		chunk->next = pool->chunks->next;
		pool->chunks->next = chunk;
	} else {
		chunk->next = pool->chunks;
		pool->chunks = chunk;
	}
	return chunk;
}

void *store_pool_take(struct store_pool *pool, size_t n, size_t size)
{
	size_t align = alignof(max_align_t);
	struct store_pool_chunk *chunk = pool->chunks;
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 4) {
		return NULL;
	}
	bytes = (bytes + align) & ~(align - 1); /* never 0 */
	if (!chunk || chunk->size - chunk->used < bytes) {
		chunk = add_chunk(pool, bytes);
	}
	if (!chunk) {
		return NULL;
	}
	p = chunk->data + chunk->used;
	chunk->used += bytes;
	return p;
}

char *store_pool_text(struct store_pool *pool, const char *text, size_t length)
{
	char *copy = store_pool_take(pool, length + 1, 1);

	if (copy) {
		memcpy(copy, text, length);
	}
	return copy;
}
