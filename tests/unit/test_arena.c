/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdalign.h>

#include "proto/base/arena.h"

TEST(pieces_are_aligned_and_apart)
{
	struct arena a;
	uint8_t *pieces[500];

	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		pieces[i] = arena_alloc(&a, i % 97);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
		memset(pieces[i], (int)i, i % 97);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		for (size_t k = 0; k < i % 97; k++) {
			assert_int_equal(pieces[i][k], (uint8_t)i);
		}
	}
	arena_deinit(&a);
}

TEST(stops_at_its_limit)
{
	struct arena a;
	size_t got = 0;

	arena_init(&a, 100000);
	while (arena_alloc(&a, 1000)) {
		got += 1000;
		assert_true(got <= 100000);
	}
	assert_true(got > 50000);
	assert_true(a.total <= a.limit);
	arena_deinit(&a);
}

TEST(refuses_sizes_that_overflow)
{
	struct arena a;

	arena_init(&a, 1 << 20);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 15));
	assert_null(arena_alloc(&a, (1 << 20) + 1));
	assert_null(arena_zalloc(&a, SIZE_MAX));
	assert_non_null(arena_alloc(&a, 1));
	arena_deinit(&a);
}

TEST(reset_gives_the_room_back)
{
	struct arena a;

	arena_init(&a, 1 << 20);
	for (int round = 0; round < 100; round++) {
		size_t got = 0;

		while (arena_alloc(&a, 5000)) {
			got += 5000;
		}
		assert_true(got > 500000);
		arena_reset(&a);
		assert_true(a.total <= 256 * 1024);
	}
	arena_reset(&a);
	arena_deinit(&a);
	assert_int_equal(a.total, 0);
}

TEST(zalloc_zeroes_used_memory)
{
	struct arena a;
	uint8_t *p;

	arena_init(&a, 1 << 16);
	memset(arena_alloc(&a, 4096), 0xff, 4096);
	arena_reset(&a);
	p = arena_zalloc(&a, 4096);
	for (size_t i = 0; i < 4096; i++) {
		assert_int_equal(p[i], 0);
	}
	arena_deinit(&a);
}

TEST(printf_formats_or_gives_null)
{
	struct arena a;

	arena_init(&a, 32 * 1024);
	assert_string_equal(arena_printf(&a, "%s-%d", "gpu", 7), "gpu-7");
	assert_string_equal(arena_printf(&a, "%s", ""), "");
	assert_null(arena_printf(&a, "%*s", 40000, "x"));
	arena_deinit(&a);
}

TEST(copies_text_and_ends_it)
{
	struct arena a;

	arena_init(&a, ARENA_NO_LIMIT);
	memset(arena_alloc(&a, 64), 0xff, 64);
	arena_reset(&a);
	assert_string_equal(arena_text(&a, "gpu-7", 3), "gpu");
	assert_string_equal(arena_text(&a, "gpu", 0), "");
	arena_deinit(&a);
}

TEST(arrays_that_overflow_are_refused)
{
	struct arena a;
	uint64_t *v;

	arena_init(&a, ARENA_NO_LIMIT);
	assert_null(arena_zalloc_array(&a, SIZE_MAX / 4, 8));
	assert_null(arena_zalloc_array(&a, (size_t)1 << 61, 8));
	v = arena_zalloc_array(&a, 100, sizeof(*v));
	assert_int_equal(v[99], 0);
	arena_deinit(&a);
}

/* A million texts: blocks grow, but a block that has just begun wastes little. */
TEST(blocks_stay_below_a_size)
{
	struct arena a;

	arena_init(&a, ARENA_NO_LIMIT);
	for (int i = 0; i < 1000000; i++) {
		assert_non_null(arena_text(&a, "a text of 31 bytes and its end.", 31));
	}
	assert_true(a.total < 32000000 + (9 << 20));
	arena_deinit(&a);
}
