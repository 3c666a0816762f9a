/* SPDX-License-Identifier: Apache-2.0 */

/* Memory for the definitions of a capture: many small strings that live as long as the reader. It
 * comes in chunks, the first of 64 KiB and later ones of an eighth of what there is, up to 8 MiB; a
 * larger request gets a chunk of its own. Large chunks ask for huge pages: a capture may have
 * millions of ranges, and the faults of small pages then take longer than the copying. */

#include "client/store/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define CHUNK_BYTES_MAX ((size_t)8 << 20)
#define HUGE_BYTES ((size_t)2 << 20)

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

static size_t usual_bytes(const struct store_pool *pool)
{
	size_t bytes = pool->bytes / 8;

	return bytes < CHUNK_BYTES	 ? CHUNK_BYTES
	       : bytes < CHUNK_BYTES_MAX ? bytes
					 : CHUNK_BYTES_MAX;
}

/* A wish: where the system has none, nothing is different. */
static void want_huge_pages(void *data, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)data % page;

	if (bytes >= HUGE_BYTES + page) {
		madvise((char *)data + skip, (bytes - skip) & ~(page - 1), MADV_HUGEPAGE);
	}
}

static struct store_pool_chunk *add_chunk(struct store_pool *pool, size_t bytes)
{
	size_t usual = usual_bytes(pool), size = bytes > usual / 4 ? bytes : usual;
	struct store_pool_chunk *chunk = calloc(1, sizeof(*chunk) + size);

	if (!chunk) {
		return NULL;
	}
	want_huge_pages(chunk, sizeof(*chunk) + size);
	chunk->size = size;
	pool->bytes += size;
	/* A large one goes second, so that the room left in the first is still used. */
	if (pool->chunks && size != usual) {
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
