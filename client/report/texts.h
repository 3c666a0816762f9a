/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A set that holds each text once. Equal texts are the same pointer, so callers that group by text
 * compare and hash pointers. Texts live as long as the set. Zero-initialised by the caller. */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/map.h"

struct texts {
	struct arena arena;
	struct map known;
};

void texts_deinit(struct texts *t);

/* Returns the set's copy of the n bytes; NULL: out of memory. */
const char *texts_add(struct texts *t, const char *text, size_t n);
const char *texts_add_string(struct texts *t, const char *text); /* takes NULL as "" */
/* NULL: the set has no such text. */
const char *texts_find(const struct texts *t, const char *text, size_t n);

/* Zeroed memory that lives as long as the texts; NULL: out of memory. */
void *texts_take(struct texts *t, size_t bytes);
