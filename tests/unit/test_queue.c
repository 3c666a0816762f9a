/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "daemon/base/queue.h"

/* What is held for somebody, and who pays for it. */

TEST(sends_in_order_what_the_socket_takes)
{
	uint8_t message[1000], got[1000], next = 0, expected = 0;
	size_t sent = 0, received = 0;
	struct queue q;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	queue_init(&q, NULL);
	for (int round = 0; round < 2000; round++, sent += sizeof(message)) {
		for (size_t i = 0; i < sizeof(message); i++) {
			message[i] = next++;
		}
		assert_int_equal(queue_append(&q, message, sizeof(message), 0), 0);
		assert_int_equal(queue_send(&q, pair[0]), 0);
	}
	assert_true(q.bytes > 0); /* more than a socket holds */
	while (received < sent) {
		ssize_t n = recv(pair[1], got, sizeof(got), 0);

		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++) {
			assert_int_equal(got[i], expected++);
		}
		received += (size_t)n;
		assert_int_equal(queue_send(&q, pair[0]), 0);
	}
	assert_int_equal(q.bytes, 0);
	close(pair[1]);
	assert_int_equal(queue_append(&q, message, 1, 0), 0);
	assert_int_equal(queue_send(&q, pair[0]), -EPIPE);
	queue_clear(&q);
	close(pair[0]);
}

/* What has been begun is kept, so that the reader finds whole messages. */
TEST(drops_only_what_is_not_begun)
{
	struct queue q;

	queue_init(&q, NULL);
	assert_int_equal(queue_append(&q, "begun", 5, 2), 0);
	assert_int_equal(queue_append(&q, "never", 5, 0), 0);
	assert_int_equal(q.bytes, 8);
	queue_drop_unbegun(&q);
	assert_int_equal(q.bytes, 3);
	queue_clear(&q);
	assert_int_equal(q.bytes, 0);
}

TEST(takes_no_more_than_the_quota)
{
	struct quota quota = { .max = 10000 };
	static const uint8_t data[8000];
	struct queue q;

	queue_init(&q, &quota);
	assert_int_equal(queue_append(&q, data, 8000, 0), 0);
	assert_true(quota.used > 8000);
	assert_int_equal(queue_append(&q, data, 8000, 0), -EDQUOT);
	assert_int_equal(queue_append(&q, data, 500, 0), 0);
	queue_clear(&q);
	assert_int_equal(quota.used, 0);
}

TEST(buffers_and_arenas_pay_for_what_they_allocate)
{
	struct quota quota = { .max = 100 * 1024 };
	struct buffer b = { .quota = &quota };
	struct arena a;

	arena_init(&a, 1 << 20);
	a.quota = &quota;
	assert_int_equal(buffer_reserve_exactly(&b, 60000), 0);
	assert_int_equal(quota.used, 60000);
	assert_int_equal(buffer_reserve(&b, 60001), -EDQUOT);
	assert_int_equal(quota.used, 60000); /* and the content is as it was */
	assert_non_null(arena_alloc(&a, 1000));
	assert_true(quota.used > 61000);
	assert_null(arena_alloc(&a, 60000));
	buffer_deinit(&b);
	assert_non_null(arena_alloc(&a, 60000));
	arena_deinit(&a);
	assert_int_equal(quota.used, 0);
	assert_int_equal(buffer_append(&b, "again", 5), 0); /* on the same quota */
	assert_int_equal(quota.used, b.size);
	buffer_deinit(&b);
	assert_int_equal(quota.used, 0);
}
