/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/buffer.h"

TEST(appends_and_consumes_in_order)
{
	struct buffer b = { 0 };

	assert_int_equal(buffer_append(&b, "hello ", 6), 0);
	assert_int_equal(buffer_append(&b, "world", 5), 0);
	assert_int_equal(buffer_length(&b), 11);
	buffer_consume(&b, 6);
	assert_int_equal(buffer_length(&b), 5);
	assert_memory_equal(b.data + b.start, "world", 5);
	buffer_deinit(&b);
	assert_null(b.data);
	assert_int_equal(buffer_length(&b), 0);
}

TEST(appends_nothing)
{
	struct buffer b = { 0 };

	assert_int_equal(buffer_append(&b, NULL, 0), 0);
	assert_int_equal(buffer_length(&b), 0);
	buffer_consume(&b, 0);
	assert_int_equal(buffer_reserve(&b, 0), 0);
	buffer_deinit(&b);
}

TEST(reserve_gives_what_was_asked)
{
	struct buffer b = { 0 };

	for (size_t bytes = 1; bytes < 1 << 20; bytes = bytes * 3 + 1) {
		assert_int_equal(buffer_reserve(&b, bytes), 0);
		assert_true(b.size - b.end >= bytes);
		memset(b.data + b.end, 0x5a, bytes);
	}
	buffer_deinit(&b);
}

/* A stream that is consumed as fast as it is filled must not grow with what has passed. */
TEST(stays_small_under_a_stream)
{
	struct buffer b = { 0 };
	uint8_t piece[1000], seen = 0, next = 0;

	for (int round = 0; round < 10000; round++) {
		for (size_t i = 0; i < sizeof(piece); i++) {
			piece[i] = next++;
		}
		assert_int_equal(buffer_append(&b, piece, sizeof(piece)), 0);
		while (buffer_length(&b) > 300) {
			for (size_t i = 0; i < 300; i++) {
				assert_int_equal(b.data[b.start + i], (uint8_t)(seen + i));
			}
			seen = (uint8_t)(seen + 300);
			buffer_consume(&b, 300);
		}
	}
	assert_true(b.size <= 4096);
	buffer_deinit(&b);
}

TEST(gives_back_a_large_buffer_when_empty)
{
	struct buffer b = { 0 };

	assert_int_equal(buffer_reserve(&b, 1 << 20), 0);
	b.end += 1 << 20;
	buffer_consume(&b, (1 << 20) - 1);
	assert_non_null(b.data);
	buffer_consume(&b, 1);
	assert_null(b.data);
	assert_int_equal(b.size, 0);
	assert_int_equal(buffer_append(&b, "again", 5), 0);
	buffer_deinit(&b);
}
