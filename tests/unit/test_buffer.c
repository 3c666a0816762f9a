/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* What waits is sent as far as the socket takes it, and comes out in order. */
TEST(passes_through_a_socket_that_is_full_at_times)
{
	struct buffer out = { 0 }, in = { 0 };
	uint8_t next = 0, expected = 0;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(buffer_receive(&in, pair[1], 100, MSG_DONTWAIT), 0);
	assert_int_equal(buffer_length(&in), 0);
	for (int i = 0; i < 2000000; i++) {
		assert_int_equal(buffer_append(&out, &next, 1), 0);
		next++;
	}
	assert_int_equal(buffer_send(&out, pair[0], MSG_DONTWAIT), 0);
	assert_true(buffer_length(&out) > 0); /* more than a socket holds */
	for (int i = 0; i < 2000000; i++) {
		if (buffer_length(&in) == 0) {
			assert_int_equal(buffer_receive(&in, pair[1], 5000, 0), 0);
			assert_int_equal(buffer_send(&out, pair[0], MSG_DONTWAIT), 0);
		}
		assert_int_equal(in.data[in.start], expected++);
		buffer_consume(&in, 1);
	}
	assert_int_equal(buffer_length(&out), 0);
	close(pair[0]);
	assert_int_equal(buffer_receive(&in, pair[1], 100, 0), -EPIPE);
	assert_int_equal(buffer_append(&out, "late", 4), 0);
	assert_int_equal(buffer_send(&out, pair[1], 0), -EPIPE);
	assert_int_equal(buffer_length(&out), 4);
	close(pair[1]);
	buffer_deinit(&out);
	buffer_deinit(&in);
}
