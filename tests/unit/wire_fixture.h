/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What test_wire.c and test_wire_limits.c share. */

#include "tests/unit/unit.h"

#include <errno.h>

#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "proto/wire/wire_layout.h"

/* Decodes bytes that may be anything: any answer of the documented ones, within the arena. */
static inline int decode_anything(unsigned type, const uint8_t *data, size_t n)
{
	struct wire_message out;
	struct arena a;
	uint8_t *copy =
		malloc(n ? n : 1); /* of the exact size, so that a sanitizer sees a read beyond */
	int r;

	memcpy(copy, data, n);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	r = wire_decode(&a, type, copy, n, &out);
	assert_true(r == 0 || r == WIRE_E_MALFORMED);
	assert_true(a.total <= LIMIT_UNPACKED_BYTES);
	arena_deinit(&a);
	free(copy);
	return r;
}
