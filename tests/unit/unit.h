/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What every unit test includes first: cmocka wants these headers before its own, in this order. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/clean.h"

enum { UNIT_SKIP = 77 }; /* exit status that meson counts as skipped */

/* What computes much does a part of it under a sanitizer, which looks at memory and not at figures.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool unit_sanitized = true;
#else
static const bool unit_sanitized = false;
#endif

/* Skips the test with a reason, which tests/run repeats. */
static inline void unit_skip(const char *reason)
{
	print_message("SKIP: %s\n", reason);
	skip();
}

/* A test's own random numbers: the same in every run. */
static inline uint64_t unit_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}
