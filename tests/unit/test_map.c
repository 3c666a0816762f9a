/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/map.h"

enum { NUMBERS = 3000 };

static int numbers[NUMBERS];

static bool is_number(const void *item, const void *key)
{
	return *(const int *)item == *(const int *)key;
}

static void fill(struct map *t, uint64_t (*hash)(int number))
{
	for (int i = 0; i < NUMBERS; i++) {
		numbers[i] = i;
		assert_null(map_find(t, hash(i), is_number, &i));
		assert_int_equal(map_add(t, hash(i), &numbers[i]), 0);
	}
	assert_int_equal(t->n, NUMBERS);
}

static uint64_t hash_mixed(int number)
{
	return map_mix(1, (uint64_t)number);
}

/* Many numbers to a place, and places at both ends of the table: searches go around its end. */
static uint64_t hash_crowded(int number)
{
	return number % 3 ? UINT64_MAX - (uint64_t)number % 5 : (uint64_t)number % 7;
}

static uint64_t (*const hashes[])(int number) = { hash_mixed, hash_crowded };

TEST(finds_what_was_added)
{
	for (size_t k = 0; k < 2; k++) {
		struct map t = { 0 };

		fill(&t, hashes[k]);
		for (int i = 0; i < NUMBERS; i++) {
			assert_ptr_equal(map_find(&t, hashes[k](i), is_number, &i), &numbers[i]);
		}
		map_deinit(&t);
		assert_int_equal(t.n, 0);
	}
}

TEST(an_empty_table_has_nothing)
{
	struct map t = { 0 };
	int key = 1;

	assert_null(map_find(&t, 1, is_number, &key));
	assert_int_equal(t.n, 0);
	map_deinit(&t);
}

TEST(frees_the_items_that_it_has)
{
	struct map t = { 0 };

	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(map_add(&t, map_mix(0, i), malloc(1)), 0);
	}
	map_deinit_items(&t); /* a sanitizer looks */
	assert_int_equal(t.n_slots, 0);
}

/* Texts that differ in one byte, or in a byte more that is 0, hash differently. */
TEST(bytes_have_hashes_of_their_own)
{
	char text[20] = { 0 };
	uint64_t before = map_hash(text, 0);

	for (size_t n = 1; n < sizeof(text); n++) {
		assert_true(map_hash(text, n) != before);
		before = map_hash(text, n);
		text[n - 1] = 1;
		assert_true(map_hash(text, n) != before);
		text[n - 1] = 0;
	}
}
