/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/granter/leases.h"

/* What the granter says while the front does not read: all of it arrives, in order, or the link is
 * over. */

static struct outbox *begin(int *ret_front)
{
	static struct outbox o;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	outbox_init(&o, fds[0]);
	*ret_front = fds[1];
	return &o;
}

static void say(struct outbox *o, uint64_t id)
{
	outbox_say(o, &(struct granter_reply){ .op = GRANTER_ALLOC, .id = id });
}

/* Reads what there is. Returns the id expected next. */
static uint64_t read_from(int front, uint64_t next)
{
	struct granter_reply p;

	while (recv(front, &p, sizeof(p), MSG_DONTWAIT) == (ssize_t)sizeof(p)) {
		assert_int_equal(p.size, sizeof(p));
		assert_int_equal(p.id, next);
		next++;
	}
	return next;
}

TEST(what_waits_arrives_in_order)
{
	uint64_t said = 0, next = 0;
	int front;
	struct outbox *o = begin(&front);

	while (o->n < OUTBOX_MAX / 2 && said < (uint64_t)4 * OUTBOX_MAX) {
		say(o, said++);
	}
	assert_int_equal(o->n, OUTBOX_MAX / 2);
	assert_true(said > OUTBOX_MAX / 2); /* some are in the socket */
	while (!outbox_is_empty(o)) {
		uint64_t before = next;

		next = read_from(front, next);
		assert_true(next > before);
		outbox_flush(o);
		say(o, said++); /* behind those that wait */
	}
	assert_int_equal(read_from(front, next), said);
	assert_int_equal(o->error, 0);
	close(front);
	close(o->link);
}

TEST(more_than_there_is_room_for_is_the_end)
{
	int front;
	struct outbox *o = begin(&front);

	while (o->n < OUTBOX_MAX) {
		say(o, 0);
		assert_int_equal(o->error, 0);
	}
	say(o, 0);
	assert_int_equal(o->error, -ENOBUFS);
	close(front);
	close(o->link);
}

TEST(a_front_that_is_gone_is_the_end)
{
	int front;
	struct outbox *o = begin(&front);

	close(front);
	say(o, 0);
	assert_int_equal(o->error, -EPIPE);
	assert_true(outbox_is_empty(o));
	close(o->link);
}

int main(void)
{
	alarm(30); /* a reply that is lost would be waited for without end */
	return unit_run();
}
