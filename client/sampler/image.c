/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/image.h"

#include <stdlib.h>
#include <string.h>

/* It is in memory twice. */
#define KEPT_MOST ((size_t)128 << 20)

enum { LOOKS_AFTER = 64 }; /* so many times once whether samples have changed more */

bool image_init(struct image *m, size_t bytes)
{
	*m = (struct image){ .bytes = bytes };
	m->data = calloc(1, bytes);
	return m->data != NULL;
}

void image_deinit(struct image *m)
{
	free(m->data);
	free(m->kept);
	*m = (struct image){ 0 };
}

void image_keep(struct image *m)
{
	if (!m->kept && m->bytes <= KEPT_MOST) {
		m->kept = malloc(m->bytes);
	}
	if (m->kept) {
		memcpy(m->kept, m->data, m->bytes);
	}
}

bool image_empty(struct image *m, size_t changed)
{
	if (!m->kept) {
		return false;
	}
	if (m->is_spread || changed > m->bytes) {
		changed = m->bytes;
	}
	memcpy(m->data, m->kept, changed);
	if (m->n_emptied++ % LOOKS_AFTER == 0 &&
	    memcmp(m->data + changed, m->kept + changed, m->bytes - changed) != 0) {
		m->is_spread = true;
		memcpy(m->data + changed, m->kept + changed, m->bytes - changed);
	}
	return true;
}
