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

/* TEST(name) { ... } is a test, which finds cmocka's state in `state`; TEST_WITH() has a function
 * that runs before it and one that runs behind it, or NULL. They register themselves, in their
 * order. */
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, setup, teardown)                                                   \
	static void name(void **state);                                                    \
	__attribute__((constructor)) static void register_##name(void)                     \
	{                                                                                  \
		unit_register(&(struct CMUnitTest){ #name, name, setup, teardown, NULL }); \
	}                                                                                  \
	static void name(void **state __attribute__((unused)))

/* What runs before and behind all tests of the executable. */
#define TEST_GROUP(setup, teardown)                                   \
	__attribute__((constructor)) static void register_group(void) \
	{                                                             \
		unit_set_group(setup, teardown);                      \
	}

/* The tests behind this, up to the next such line, run where the executable's argument names them.
 * Those of part "" run where there is no argument. */
#define TEST_PART(name)                                                           \
	__attribute__((constructor)) static void UNIT_JOIN(begin, __LINE__)(void) \
	{                                                                         \
		unit_begin_part(name);                                            \
	}
#define UNIT_JOIN(a, b) UNIT_JOIN_THEM(a, b)
#define UNIT_JOIN_THEM(a, b) a##_##b

void unit_register(const struct CMUnitTest *test); /* copies */
void unit_begin_part(const char *name);		   /* borrowed */
void unit_set_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Runs the tests of a part, or those of them that $GPUCTR_TEST_FILTER matches ("the_*"). Returns
 * the exit status. main.c does, and where something has to be prepared, a main() beside the tests.
 */
int unit_run_part(const char *name);
int unit_run(void); /* of part "" */

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
