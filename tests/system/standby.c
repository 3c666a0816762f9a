/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <poll.h>

#include "tests/system/raw.h"

static struct arena arena; /* of the last message */

int standby_setup(void **state)
{
	arena_init(&arena, LIMIT_UNPACKED_BYTES);
	return fixture_setup(state);
}

int standby_teardown(void **state)
{
	arena_deinit(&arena);
	return fixture_teardown(state);
}

struct wire_message standby_receive(int fd)
{
	return raw_receive(fd, &arena);
}

/* --- agents --- */

struct standby_agent standby_register(struct fixture *f, int uid)
{
	static const char *const claims[] = { "SLURM_JOB_ID=4711", "RANK=3" };
	const struct wire_message hello = {
		.type = WIRE_AGENT_HELLO,
		.agent_hello = { .version = PROTO_VERSION,
				 .program = "python3",
				 .claims = { 2, claims } },
	};
	struct standby_agent a = { .fd = raw_connect(f, uid) };
	struct wire_message m;

	assert_true(raw_send(a.fd, &hello, -1));
	m = standby_receive(a.fd);
	assert_int_equal(m.type, WIRE_AGENT_REGISTERED);
	assert_int_equal(m.agent_registered.version, PROTO_VERSION);
	assert_true(m.agent_registered.process != 0);
	a.id = m.agent_registered.process;
	return a;
}

void standby_expect_welcome(struct standby_agent *a)
{
	struct wire_message m = standby_receive(a->fd);

	assert_int_equal(m.type, WIRE_AGENT_WELCOME);
	a->capture = m.agent_welcome.capture;
	a->number = m.agent_welcome.process;
	a->n_gpus = m.agent_welcome.gpus.n;
	snprintf(a->token, sizeof(a->token), "%s", m.agent_welcome.token);
	assert_int_equal(m.agent_welcome.plan.passes, 1);
}

void standby_goodbye(const struct standby_agent *a, uint64_t measured)
{
	const struct wire_message m = {
		.type = WIRE_GOODBYE,
		.goodbye.totals = { .seen = measured + 1, .measured = measured, .filtered = 1 },
	};

	assert_true(raw_send(a->fd, &m, -1));
}

void standby_expect_stop(const struct standby_agent *a, int code)
{
	struct wire_message m = standby_receive(a->fd);

	assert_int_equal(m.type, WIRE_AGENT_STOP);
	assert_int_equal(m.agent_stop.code, code);
}

void standby_expect_silence(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	assert_int_equal(poll(&p, 1, 100), 0);
}

/* --- clients --- */

/* The next message of this kind; those that only tell of progress are skipped. */
static struct wire_message standby_expect(int client, enum wire_type type)
{
	struct wire_message m;

	do {
		m = standby_receive(client);
	} while (m.type == WIRE_PROGRESS && type != WIRE_PROGRESS);
	if (m.type != type) {
		fail_msg("%s came, and not %s: %s", wire_type_to_string(m.type),
			 wire_type_to_string(type),
			 m.type == WIRE_REFUSAL	      ? m.refusal.message
			 : m.type == WIRE_CAPTURE_END ? m.capture_end.message
						      : "");
	}
	return m;
}

size_t standby_list(int client, struct gpuctr_registered_process *ret)
{
	struct wire_message q = { .type = WIRE_PROCESSES_REQUEST, .processes_request = { 9, 0 } };
	struct wire_message m;
	size_t n = 0;

	do {
		assert_true(raw_send(client, &q, -1));
		m = standby_expect(client, WIRE_PROCESSES_REPLY);
		assert_int_equal(m.processes_reply.request, 9);
		n += m.processes_reply.processes.n;
		if (m.processes_reply.processes.n > 0) {
			*ret = m.processes_reply.processes.v[m.processes_reply.processes.n - 1];
			assert_true(ret->process > q.processes_request.after);
			q.processes_request.after = ret->process;
		}
	} while (!m.processes_reply.last);
	return n;
}

size_t standby_count(int client)
{
	struct gpuctr_registered_process p;

	return standby_list(client, &p);
}
