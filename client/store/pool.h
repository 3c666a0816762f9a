/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STORE_POOL_H
#define CLIENT_STORE_POOL_H

#include <stddef.h>

/* Memory that is freed all at once. Zero-initialised by the caller. */
struct store_pool {
	struct store_pool_chunk *chunks;
	size_t bytes; /* of all chunks */
};

void store_pool_deinit(struct store_pool *pool);
/* Zeroed and aligned for anything; NULL: out of memory. */
void *store_pool_take(struct store_pool *pool, size_t n, size_t size);
char *store_pool_text(struct store_pool *pool, const char *text, size_t length);

#endif
