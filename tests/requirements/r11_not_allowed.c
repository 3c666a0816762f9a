/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R11: not allowed means nothing. Bob is not named in the configuration; he knows Ann's token and
 * the numbers of her capture, and says every message in every state of hers and of his. Whatever
 * he says, the answer is a refusal or the end of the connection, and the driver hears nothing. With
 * operators, who capture programs of others, he may wait in standby, and learns the number under
 * which he does. */

enum { MESSAGES_MAX = 32, TYPES_END = 128 };

/* What Bob says before the message in question, in one piece with it. */
enum before { NOTHING, HELLO, AGENT_HELLO, PERMISSION, HALF_A_FRAME, IN_STANDBY, BEFORES };

/* Ann's capture meanwhile. */
enum scene { NO_CAPTURE, READY, GRANTED, WITH_QUEUE, ENDING, SCENES };

static const char *const scene_names[SCENES] = { "no capture", "ready", "granted", "with a queue",
						 "ending" };

struct test {
	struct fixture *f;
	struct recorder r, second;
	int device, agent;
	uint32_t process;
	char token[64];
	struct wire_message messages[MESSAGES_MAX];
	size_t n_messages;
	size_t tries, refusals;
};

/* --- Ann --- */

static void open_capture(struct test *t, struct recorder *r)
{
	const struct gpuctr_capture_options options = recorder_options();

	recorder_connect(r, t->f, USER_ANN);
	recorder_open(r, &options);
}

static void attach(struct test *t)
{
	const struct wire_message ask = raw_permission(t->token, 0xc1d00001, 0x5c100000);

	t->agent = raw_agent(t->f, USER_ANN, t->token, &t->process);
	assert_true(raw_ask(t->f, USER_ANN, &ask, t->device).granted);
}

static void enter(struct test *t, enum scene scene)
{
	t->agent = -1;
	snprintf(t->token, sizeof(t->token), "0123456789abcdef0123456789abcdef");
	if (scene == NO_CAPTURE) {
		return;
	}
	open_capture(t, &t->r);
	recorder_until(&t->r, &t->r.ready);
	snprintf(t->token, sizeof(t->token), "%s", recorder_token(&t->r));
	if (scene == WITH_QUEUE) {
		open_capture(t, &t->second);
		recorder_until(&t->second, &t->second.opened);
	} else if (scene != READY) {
		attach(t);
	}
	if (scene == ENDING) { /* it waits for the agent */
		assert_int_equal(gpuctr_capture_close(t->r.capture), 0);
		recorder_for(&t->r, 50);
		assert_false(t->r.ended);
	}
}

static void leave(struct test *t, enum scene scene)
{
	if (scene == NO_CAPTURE) {
		return;
	}
	if (scene != ENDING) {
		recorder_for(&t->r, 20);
		assert_false(t->r.ended); /* hers goes on */
		assert_int_equal(gpuctr_capture_close(t->r.capture), 0);
	}
	if (t->agent >= 0) {
		close(t->agent);
	}
	recorder_until(&t->r, &t->r.ended);
	assert_int_equal(t->r.end_code, 0);
	recorder_disconnect(&t->r);
	if (scene == WITH_QUEUE) {
		recorder_until(&t->second, &t->second.ready);
		recorder_disconnect(&t->second);
	}
	/* The client hears of the end before the granter has freed the objects. */
	wait_until(fixture_counter(t->f, "frees") == fixture_counter(t->f, "profiler_granted"));
}

/* --- Bob --- */

static void collect(struct test *t)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	const uint32_t capture = t->r.id, process = t->process;
	const struct wire_message all[] = {
		{ .type = WIRE_HELLO, .hello = { PROTO_VERSION, "bob" } },
		{ .type = WIRE_AGENT_HELLO,
		  .agent_hello = { .version = PROTO_VERSION, .token = t->token, .program = "b" } },
		raw_permission(t->token, 0xc1d00001, 0x5c200000),
		{ .type = WIRE_METRICS_REQUEST, .metrics_request = { .request = 1 } },
		{ .type = WIRE_PLAN_REQUEST,
		  .plan_request = { .request = 1, .metrics = { 1, metrics } } },
		{ .type = WIRE_STATUS_REQUEST, .status_request = { 1 } },
		{ .type = WIRE_OPEN_CAPTURE,
		  .open_capture = { .request = 1, .metrics = { 1, metrics } } },
		{ .type = WIRE_OPEN_CAPTURE,
		  .open_capture = { .request = 1, .metrics = { 1, metrics }, .recorded = true } },
		{ .type = WIRE_CLOSE_CAPTURE, .close_capture = { capture } },
		{ .type = WIRE_PROCESS, .process = { .capture = capture, .process = process } },
		{ .type = WIRE_RECORDS, .records = { capture, process, 0, 1, { 0, NULL } } },
		{ .type = WIRE_RAW_IMAGE, .raw_image = { .capture = capture, .process = process } },
		{ .type = WIRE_PROGRESS, .progress = { capture, process, { .seen = 5 } } },
		{ .type = WIRE_NOTICE, .notice = { capture, process, 1, "not hers", "" } },
		{ .type = WIRE_GOODBYE },
		{ .type = WIRE_TENANTS_REQUEST, .tenants_request = { 1 } },
		{ .type = WIRE_READY, .ready = { capture, t->token } },
		{ .type = WIRE_PERMISSION_REPLY },
	};

	memcpy(t->messages, all, sizeof(all));
	t->n_messages = ARRAY_SIZE(all);
}

static void append(struct buffer *b, const struct wire_message *m)
{
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&scratch, b, m), 0);
	arena_deinit(&scratch);
}

/* What follows a first message that was refused is not read; it may be reset before it is sent. */
static void prepend(struct test *t, struct buffer *b, enum before before)
{
	static const uint8_t half[] = { 200, 0, 0, 0, WIRE_HELLO, 0, 0, 0, 1, 2, 3 };

	if (before == IN_STANDBY) {
		append(b, &(struct wire_message){ .type = WIRE_AGENT_HELLO,
						  .agent_hello.version = PROTO_VERSION });
	} else if (before == HALF_A_FRAME) {
		assert_int_equal(buffer_append(b, half, sizeof(half)), 0);
	} else if (before != NOTHING) {
		append(b, &t->messages[before - HELLO]); /* the first three */
	}
}

static void expect_refusals(struct test *t, int socket, enum before before, const char *what)
{
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	while (raw_next(socket, &a, &m)) {
		bool refused = m.type == WIRE_REFUSAL && m.refusal.code != 0;

		refused = refused ||
			  (m.type == WIRE_PERMISSION_REPLY && m.permission_reply.code != 0 &&
			   m.permission_reply.status == RM_STATUS_INSUFFICIENT_PERMISSIONS);
		if (before == IN_STANDBY && m.type == WIRE_AGENT_REGISTERED) {
			continue;
		}
		if (!refused) {
			fail_msg("%s is answered with %s", what, wire_type_to_string(m.type));
		}
		t->refusals++;
	}
	arena_deinit(&a);
	close(socket);
	t->tries++;
}

static void say(struct test *t, enum before before, const struct wire_message *m)
{
	int socket = raw_connect(t->f, USER_BOB);
	struct buffer b = { 0 };

	prepend(t, &b, before);
	append(&b, m);
	raw_send_bytes(socket, b.data + b.start, buffer_length(&b), t->device);
	if (before == HALF_A_FRAME || before == IN_STANDBY) {
		/* it waits for more */
		assert_int_equal(shutdown(socket, SHUT_WR), 0);
	}
	expect_refusals(t, socket, before, wire_type_to_string(m->type));
	buffer_deinit(&b);
}

/* Types that there are not, without content. */
static void say_types(struct test *t)
{
	for (uint16_t type = 0; type < TYPES_END; type++) {
		int socket = raw_connect(t->f, USER_BOB);

		raw_send_header(socket, 0, type, 0);
		shutdown(socket, SHUT_WR);
		expect_refusals(t, socket, type == WIRE_AGENT_HELLO ? IN_STANDBY : NOTHING,
				"a type without content");
	}
}

static void say_everything(struct test *t)
{
	collect(t);
	for (enum before before = 0; before < BEFORES; before++) {
		for (size_t i = 0; i < t->n_messages; i++) {
			say(t, before, &t->messages[i]);
		}
	}
	say_types(t);
}

static void expect_nothing(struct fixture *f, const char *operators)
{
	size_t rounds = requirement_amount(10, 500);
	struct test t = { .f = f, .device = raw_control_device() };

	fixture_need_root();
	fixture_limit(1000);
	fixture_start_strict_daemon(t.f, "--set", "allow-users=1234", "--set", operators, NULL);
	for (size_t round = 0; round < rounds; round++) {
		for (enum scene scene = 0; scene < SCENES; scene++) {
			uint64_t allocations, frees;

			enter(&t, scene);
			allocations = fixture_counter(t.f, "allocs");
			frees = fixture_counter(t.f, "frees");
			say_everything(&t);
			if (fixture_counter(t.f, "allocs") != allocations ||
			    fixture_counter(t.f, "frees") != frees) {
				fail_msg("the driver was asked (%s)", scene_names[scene]);
			}
			leave(&t, scene);
		}
	}
	close(t.device);
	assert_int_equal(count_text(t.f->daemon->err, "of uid 1235 (uid 1235"), 0); /* a grant */
	expect_no_owner(t.f);
	expect_no_objects(t.f);
	requirement_figure("R11",
			   "%zu connections of a user who is not allowed, in %d states: %zu "
			   "refusals, nothing else, 0 ioctls",
			   t.tries, SCENES, t.refusals);
}

SYSTEM_TEST(who_is_not_allowed_gets_nothing)
{
	expect_nothing(*state, "operator-captures=no");
}

SYSTEM_TEST(who_is_not_allowed_gets_nothing_beside_operators)
{
	expect_nothing(*state, "operator-captures=yes");
}
