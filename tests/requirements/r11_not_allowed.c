/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/unit/front_script.h"
#include "tests/unit/unit.h"

/* R11: not allowed means nothing. Mallory is not named in the configuration; he knows Ann's token
 * and the numbers of her capture, and says every message in every state of hers and of his.
 * Whatever he says, the answer is a refusal or the end of the connection, and the granter hears
 * nothing. With operators, who capture programs of others, he may wait in standby, and learns the
 * number under which he does. The front's box aborts when he is told anything else. */

enum { CLIENT, SECOND, PROGRAM, ASKER, STRANGER, TYPES_END = 128 };

/* What Mallory says before the message in question, in one piece with it. */
enum before { NOTHING, HELLO, AGENT_HELLO, PERMISSION, HALF_A_FRAME, IN_STANDBY, BEFORES };

/* Ann's capture meanwhile. */
enum scene { NO_CAPTURE, READY, GRANTED, WITH_QUEUE, ENDING, SCENES };

static struct {
	bool beside_operators;
	uint32_t capture, process;
	unsigned n_ready; /* captures that became ready, whose tokens are numbered */
	size_t tries, refusals;
} t;

/* --- Ann --- */

static void enter(enum scene scene)
{
	if (scene == NO_CAPTURE) {
		return;
	}
	connect_client(CLIENT, ANN);
	t.capture = open_capture(CLIENT, NULL);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	if (scene == WITH_QUEUE) {
		connect_client(SECOND, BOB);
		open_capture(SECOND, NULL);
		assert_int_equal(count_heard(SECOND, WIRE_QUEUED), 1);
	} else if (scene != READY) {
		connect_agent(PROGRAM, ANN, t.n_ready);
		t.process = front_box_heard(PROGRAM).process;
		ask_permission(ASKER, ANN, t.n_ready);
		assert_int_equal(last_heard(ASKER, WIRE_PERMISSION_REPLY)->permission_reply.code,
				 0);
	}
	if (scene == ENDING) { /* it waits for the agent */
		close_capture(CLIENT, t.capture);
	}
	assert_int_equal(count_heard(CLIENT, WIRE_CAPTURE_END), 0);
}

static void leave(enum scene scene)
{
	if (scene == NO_CAPTURE) {
		return;
	}
	assert_int_equal(count_heard(CLIENT, WIRE_CAPTURE_END), 0); /* hers goes on */
	if (scene != ENDING) {
		close_capture(CLIENT, t.capture);
	}
	front_box_close(PROGRAM, false);
	settle();
	assert_int_equal(last_heard(CLIENT, WIRE_CAPTURE_END)->capture_end.code, 0);
	t.n_ready++;
	if (scene == WITH_QUEUE) {
		assert_int_equal(count_heard(SECOND, WIRE_READY), 1);
		t.n_ready++;
		front_box_close(SECOND, false);
		settle();
	}
}

/* --- Mallory --- */

static void end_connection(void)
{
	front_box_close(STRANGER, true); /* what waits for more ends */
	settle();
	assert_true(is_closed(STRANGER));
	assert_true(t.beside_operators || count_heard(STRANGER, WIRE_AGENT_REGISTERED) == 0);
	t.refusals +=
		count_heard(STRANGER, WIRE_REFUSAL) + count_heard(STRANGER, WIRE_PERMISSION_REPLY);
	t.tries++;
}

static void say_after(enum before before, const struct wire_message *messages, size_t i)
{
	static const uint8_t half[] = { 200, 0, 0, 0, WIRE_HELLO, 0, 0, 0, 1, 2, 3 };
	const struct wire_message standby = { .type = WIRE_AGENT_HELLO,
					      .agent_hello.version = PROTO_VERSION };

	connect_peer(STRANGER, FRONT_BOX_MALLORY);
	if (before == IN_STANDBY) {
		front_box_say_message(STRANGER, &standby);
	} else if (before == HALF_A_FRAME) {
		front_box_say(STRANGER, half, sizeof(half));
	} else if (before != NOTHING) {
		front_box_say_message(STRANGER, &messages[before - HELLO]); /* the first three */
	}
	front_box_attach(STRANGER, 1);
	say(STRANGER, &messages[i]);
	end_connection();
}

/* Types that there are not, without content. */
static void say_types(void)
{
	for (uint8_t type = 0; type < TYPES_END; type++) {
		const uint8_t header[FRAME_HEADER_BYTES] = { 0, 0, 0, 0, type };

		connect_peer(STRANGER, FRONT_BOX_MALLORY);
		front_box_say(STRANGER, header, sizeof(header));
		settle();
		end_connection();
	}
}

static void say_everything(void)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	const char *token = front_box_token(t.n_ready);
	const struct wire_message all[] = {
		{ .type = WIRE_HELLO, .hello = { PROTO_VERSION, "m" } },
		{ .type = WIRE_AGENT_HELLO,
		  .agent_hello = { .version = PROTO_VERSION, .token = token, .program = "m" } },
		{ .type = WIRE_PERMISSION_REQUEST,
		  .permission_request = { token, 1, 2, 3, 0xb2cc, 4, 5 } },
		{ .type = WIRE_METRICS_REQUEST, .metrics_request = { .request = 1 } },
		{ .type = WIRE_PLAN_REQUEST,
		  .plan_request = { .request = 1, .metrics = { 1, metrics } } },
		{ .type = WIRE_STATUS_REQUEST, .status_request = { 1 } },
		{ .type = WIRE_PROCESSES_REQUEST, .processes_request = { 1, 0 } },
		{ .type = WIRE_OPEN_CAPTURE,
		  .open_capture = { .request = 1, .metrics = { 1, metrics } } },
		{ .type = WIRE_OPEN_CAPTURE,
		  .open_capture = { .request = 1, .metrics = { 1, metrics }, .recorded = true } },
		{ .type = WIRE_CLOSE_CAPTURE, .close_capture = { t.capture } },
		{ .type = WIRE_JOB_BEGIN, .job_begin = { .request = 1, .job = "m" } },
		{ .type = WIRE_JOB_END, .job_end = { 1, "m" } },
		{ .type = WIRE_PROCESS, .process = { .capture = t.capture, .process = t.process } },
		{ .type = WIRE_RECORDS, .records = { t.capture, t.process, 0, 1, { 0, NULL } } },
		{ .type = WIRE_RAW_IMAGE,
		  .raw_image = { .capture = t.capture, .process = t.process } },
		{ .type = WIRE_PROGRESS, .progress = { t.capture, t.process, { .seen = 5 } } },
		{ .type = WIRE_NOTICE, .notice = { t.capture, t.process, 1, "not hers", "" } },
		{ .type = WIRE_GOODBYE },
		{ .type = WIRE_TENANTS_REQUEST, .tenants_request = { 1 } },
		{ .type = WIRE_READY, .ready = { t.capture, token } },
		{ .type = WIRE_PERMISSION_REPLY },
	};

	for (enum before before = 0; before < BEFORES; before++) {
		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			say_after(before, all, i);
		}
	}
	say_types();
}

/* The number of the granter's last request, but for signs of life. */
static uint64_t last_asked(void)
{
	uint64_t last = last_granter_request(GRANTER_OPEN).id;

	for (enum granter_op op = GRANTER_CLOSE; op <= GRANTER_ALLOC; op++) {
		last = last_granter_request(op).id > last ? last_granter_request(op).id : last;
	}
	return last;
}

static void expect_nothing(bool beside_operators)
{
	t = (__typeof__(t)){ .beside_operators = beside_operators };
	for (enum scene scene = 0; scene < SCENES; scene++) {
		uint64_t before;

		enter(scene);
		before = last_asked();
		say_everything();
		assert_int_equal(last_asked(), before);
		leave(scene);
	}
	requirement_figure("R11",
			   "%zu connections of a user who is not allowed, in %d states: %zu "
			   "refusals, nothing else, and the granter is asked nothing",
			   t.tries, SCENES, t.refusals);
}

static void have_operators(struct config *c)
{
	c->policy.operator_captures = true;
}

static void have_none(struct config *c)
{
	c->policy.operator_captures = false;
}

FRONT_TEST(who_is_not_allowed_gets_nothing)
{
	change_settings(have_none);
	expect_nothing(false);
}

FRONT_TEST(who_is_not_allowed_gets_nothing_beside_operators)
{
	change_settings(have_operators);
	expect_nothing(true);
}
