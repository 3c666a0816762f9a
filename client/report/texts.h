/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TEXTS_H
#define CLIENT_REPORT_TEXTS_H

/* Each text once: equal texts are the same pointer, so that what is grouped by text is compared and
 * hashed by pointer. They live as long as the set. Zero-initialised by the caller. */

#include <stddef.h>
#include <stdint.h>

struct texts_chunk;

struct texts {
	struct texts_chunk *chunks;
	const char **slots; /* open addressing, a power of two */
	size_t n, n_slots;
};

void texts_deinit(struct texts *t);

/* The text of n bytes; NULL: out of memory. */
const char *texts_add(struct texts *t, const char *text, size_t n);
const char *texts_add_string(struct texts *t, const char *text); /* NULL is "" */

/* Zeroed memory with the same life; NULL: out of memory. */
void *texts_take(struct texts *t, size_t bytes);

uint64_t texts_hash(const void *data, size_t n);

/* Mixes one more pointer or number into a hash. */
static inline uint64_t texts_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

#endif
