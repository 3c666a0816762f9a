/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <sys/socket.h>
#include <unistd.h>

#include "daemon/gpu/service.h"
#include "tests/unit/cupti.h"

/* What the front asks of a process behind it: only what that one has a handler for. */

static unsigned n_statuses, n_tenants;

static int count_status(struct service *s, const struct wire_message *m)
{
	(void)s;
	(void)m;
	n_statuses++;
	return 0;
}

static int count_tenants(struct service *s, const struct wire_message *m)
{
	(void)s;
	(void)m;
	n_tenants++;
	return 0;
}

/* The second one is behind the end of the table. */
static const struct service_handler handlers[] = {
	{ WIRE_STATUS_REQUEST, count_status },
	{ WIRE_TENANTS_REQUEST, count_tenants },
};

static int serve(enum wire_type type)
{
	struct wire_message m = { .type = type };
	struct buffer frame = { 0 };
	struct service s;
	struct arena a;
	int fds[2], status;

	n_statuses = n_tenants = 0;
	arena_init(&a, 1 << 20);
	assert_int_equal(wire_encode(&a, &frame, &m), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(write(fds[1], frame.data + frame.start, buffer_length(&frame)),
			 buffer_length(&frame));
	close(fds[1]);
	service_init(&s, fds[0], handlers, 1);
	status = service_run(&s);
	service_deinit(&s);
	buffer_deinit(&frame);
	arena_deinit(&a);
	return status;
}

TEST(a_service_answers_what_is_in_its_table)
{
	assert_int_equal(serve(WIRE_STATUS_REQUEST), 0);
	assert_int_equal(n_statuses, 1);
	assert_int_equal(serve(WIRE_TENANTS_REQUEST), 1);
	assert_int_equal(n_statuses + n_tenants, 0);
}
