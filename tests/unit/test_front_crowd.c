/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/clock.h"
#include "daemon/front/peer.h"
#include "proto/wire/limits.h"
#include "tests/unit/front_script.h"

/* Many at a time: turns at the planner, connections of all, and those who have none. */

/* --- questions --- */

static void ask_for_plan(unsigned peer, uint32_t request)
{
	static const char *const metrics[] = { "dram__bytes.sum" };

	say(peer, &(struct wire_message){
			  .type = WIRE_PLAN_REQUEST,
			  .plan_request = { request, "GH100", { ARRAY_SIZE(metrics), metrics } } });
}

static void answer_one(void)
{
	front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_GOOD);
	settle();
}

/* Ann has three questions, on two connections, when Bob has his first. */
FRONT_TEST(test_a_users_questions_take_turns_with_others)
{
	connect_client(0, ANN);
	connect_client(1, ANN);
	connect_client(2, BOB);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	ask_for_plan(0, 1);
	ask_for_plan(0, 2);
	ask_for_plan(1, 1);
	ask_for_plan(2, 1);
	answer_one();
	assert_int_equal(last_heard(0, WIRE_PLAN_REPLY)->plan_reply.request, 1);
	answer_one();
	assert_int_equal(count_heard(2, WIRE_PLAN_REPLY), 1);
	assert_int_equal(count_heard(0, WIRE_PLAN_REPLY) + count_heard(1, WIRE_PLAN_REPLY), 1);
	answer_one();
	assert_int_equal(last_heard(0, WIRE_PLAN_REPLY)->plan_reply.request, 2);
	answer_one();
	assert_int_equal(count_heard(1, WIRE_PLAN_REPLY), 1);
}

/* Eight at a time; of another connection eight more. */
FRONT_TEST(test_questions_of_a_connection_are_counted)
{
	connect_client(0, ANN);
	connect_client(1, ANN);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	for (uint32_t i = 1; i <= 9; i++) {
		ask_for_plan(0, i);
		assert_int_equal(refused_for(0), i <= 8 ? 0 : GPUCTR_E_QUOTA);
	}
	assert_int_equal(last_heard(0, WIRE_REFUSAL)->refusal.request, 9);
	ask_for_plan(1, 1);
	assert_int_equal(refused_for(1), 0);
	answer_one();
	ask_for_plan(0, 10);
	assert_int_equal(count_heard(0, WIRE_REFUSAL), 1);
	for (unsigned i = 0; i < 9; i++) {
		answer_one();
	}
	assert_int_equal(count_heard(0, WIRE_PLAN_REPLY), 9);
	assert_int_equal(count_heard(1, WIRE_PLAN_REPLY), 1);
}

/* --- connections --- */

static void allow_six_connections(struct config *c)
{
	c->connections_max = c->connections_per_user = 6;
}

/* --- who may have a connection --- */

static void expect_let_in(unsigned peer, bool expected)
{
	assert_int_equal(!is_closed(peer), expected);
	assert_int_equal(refused_for(peer), expected ? 0 : GPUCTR_E_NOT_ALLOWED);
}

/* Without a word of theirs, and however many come. */
FRONT_TEST(test_strangers_have_no_connection)
{
	const struct gpuctr_counts *counts;

	change_settings(allow_six_connections);
	connect_client(0, ROOT);
	for (unsigned i = 1; i < 8; i++) {
		connect_peer(i, FRONT_BOX_MALLORY);
		expect_let_in(i, false);
	}
	assert_int_equal(ask_status(0)->peers, 1);
	counts = ask_status(0)->counts;
	assert_int_equal(counts->n_refusals, 1);
	assert_int_equal(counts->refusals[0].code, GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(counts->refusals[0].count, 7);
}

static void let_bob_in(struct config *c)
{
	c->policy.allow.uids[0] = front_box_uid(BOB);
	c->policy.allow.n_uids = 1;
}

static void let_ann_in(struct config *c)
{
	c->policy.allow.uids[c->policy.allow.n_uids++] = front_box_uid(ANN);
}

/* As many as a user has in a minute are in the log, and then one as of a user. */
FRONT_TEST(test_strangers_hide_no_refusal_of_users)
{
	const char *gpu = "none";
	const struct wire_open_capture o = { .request = 1, .gpus = { 1, &gpu } };
	unsigned listed;

	change_settings(let_bob_in);
	for (unsigned i = 0; i < 100; i++) {
		connect_peer(1, ANN);
	}
	listed = count_decisions("refused: ", NULL);
	assert_in_range(listed, 60, 99);
	change_settings(let_ann_in);
	connect_client(1, ANN);
	say_open(1, &o);
	assert_int_equal(refused_for(1), GPUCTR_E_NO_GPU);
	assert_int_equal(count_decisions("refused: ", NULL), listed + 1);
}

static void let_bob_operate(struct config *c)
{
	c->policy.operator_captures = true;
	c->policy.operators.uids[c->policy.operators.n_uids++] = front_box_uid(BOB);
}

static void let_nobody_operate(struct config *c)
{
	c->policy.operator_captures = false;
}

static void let_ann_watch(struct config *c)
{
	c->policy.monitor.uids[c->policy.monitor.n_uids++] = front_box_uid(ANN);
}

FRONT_TEST(test_who_watches_is_let_in)
{
	change_settings(let_bob_in);
	connect_peer(0, ANN);
	expect_let_in(0, false);
	change_settings(let_ann_watch);
	connect_client(0, ANN);
	assert_int_equal(count_heard(0, WIRE_WELCOME), 1);
	assert_non_null(ask_status(0)->counts);
	connect_client(1, BOB);
	assert_null(ask_status(1)->counts); /* they are for who watches, and for root */
	connect_client(2, ROOT);
	assert_non_null(ask_status(2)->counts);
}

/* Ann may not measure, and Bob measures a program of hers: that has to ask for permissions. */
FRONT_TEST(test_who_is_measured_is_let_in)
{
	uint32_t program;

	change_settings(let_bob_in);
	change_settings(let_bob_operate);
	program = connect_standby(0, ANN);
	assert_int_not_equal(program, 0);
	connect_client(1, BOB);
	open_processes(1, &program, 1);
	change_settings(let_nobody_operate);
	ask_permission(2, FRONT_BOX_MALLORY, 0);
	expect_let_in(2, false);
	connect_peer(3, ANN);
	expect_let_in(3, true);
}

/* Operators may come to measure them, so that they may wait; half of the connections are theirs. */
FRONT_TEST(test_strangers_leave_half_of_the_connections)
{
	change_settings(allow_six_connections);
	change_settings(let_bob_in);
	change_settings(let_bob_operate);
	for (unsigned i = 0; i < 3; i++) {
		connect_peer(i, FRONT_BOX_MALLORY);
		expect_let_in(i, true);
	}
	connect_peer(3, FRONT_BOX_MALLORY);
	assert_int_equal(refused_for(3), GPUCTR_E_QUOTA);
	connect_client(4, BOB);
	assert_int_equal(count_heard(4, WIRE_WELCOME), 1);
}

/* All others have taken all that there are. */
FRONT_TEST(test_root_has_connections_to_itself)
{
	change_settings(allow_six_connections);
	for (unsigned i = 0; i < 6; i++) {
		connect_client(i, i % 2 ? ANN : BOB);
		assert_int_equal(count_heard(i, WIRE_WELCOME), 1);
	}
	connect_peer(6, ANN);
	assert_int_equal(refused_for(6), GPUCTR_E_QUOTA);
	front_box_connect_container(6);
	settle();
	assert_true(is_closed(6));
	connect_client(6, ROOT);
	assert_int_equal(ask_status(6)->peers, 7);
}

/* The kernel is asked twice: how many there are, and which. */
FRONT_TEST(test_whose_groups_are_not_known_is_not_let_in)
{
	for (unsigned nth = 1; nth <= 2; nth++) {
		front_box_fail_groups(nth);
		connect_peer(0, ANN);
		expect_let_in(0, false);
		assert_non_null(strstr(last_heard(0, WIRE_REFUSAL)->refusal.message,
				       "your groups could not be read"));
		front_box_fail_groups(0);
		connect_peer(0, ANN);
		expect_let_in(0, true);
	}
}

static void allow_two_connections(struct config *c)
{
	c->connections_per_user = 2;
}

/* Root of a container is counted as a user, whatever root of the machine has. */
FRONT_TEST(test_connections_of_a_user_are_counted)
{
	change_settings(allow_two_connections);
	for (unsigned i = 0; i < 3; i++) {
		connect_client(i, ROOT);
		assert_int_equal(count_heard(i, WIRE_WELCOME), 1);
		connect_container(3 + i);
		assert_int_equal(count_heard(3 + i, WIRE_WELCOME), i < 2);
		assert_int_equal(refused_for(3 + i), i < 2 ? 0 : GPUCTR_E_QUOTA);
	}
	connect_client(5, ANN);
	connect_client(6, ANN);
	assert_int_equal(count_heard(5, WIRE_WELCOME) + count_heard(6, WIRE_WELCOME), 2);
	connect_client(7, ANN);
	assert_int_equal(refused_for(7), GPUCTR_E_QUOTA);
	change_settings(allow_six_connections);
	connect_client(7, ANN); /* of all users there are as many now */
	assert_int_equal(refused_for(7), GPUCTR_E_QUOTA);
	front_box_close(3, false);
	front_box_close(4, false);
	settle();
	connect_client(7, ANN);
	assert_int_equal(count_heard(7, WIRE_WELCOME), 1);
}

/* Nor is a part of one. Who has introduced itself may be silent. */
FRONT_TEST(test_who_says_no_hello_is_told_to_go)
{
	connect_client(0, ANN);
	connect_peer(1, ANN);
	connect_peer(2, ANN);
	front_box_say(2, "half", 4);
	pass_s(PEER_PATIENCE_S - 1);
	assert_false(is_closed(1) || is_closed(2));
	pass_s(2);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(refused_for(i), GPUCTR_E_TIMEOUT);
		assert_true(is_closed(i));
	}
	assert_false(is_closed(0));
}

/* Of status requests: the rest of one, then the first byte of another, at once. */
static void say_half(unsigned peer, bool rest, bool another)
{
	const struct wire_message m = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };
	struct buffer b = { 0 };
	struct arena a;

	arena_init(&a, 4096);
	assert_int_equal(wire_encode(&a, &b, &m), 0);
	front_box_say(peer, b.data + b.start + 1, rest ? buffer_length(&b) - 1 : 0);
	front_box_say(peer, b.data + b.start, another ? 1 : 0);
	settle();
	buffer_deinit(&b);
	arena_deinit(&a);
}

/* Four begin a message. One ends it late and begins the next, and one sends byte by byte: what
 * counts is how long a message takes. Who has nothing begun may be silent for ever. */
FRONT_TEST(test_half_a_message_does_not_stay_for_ever)
{
	static const uint8_t zero[1];

	for (unsigned i = 0; i < 5; i++) {
		connect_client(i, i % 2 ? ANN : BOB);
	}
	for (unsigned i = 0; i < 4; i++) {
		say_half(i, false, true);
	}
	pass_s(PEER_HALF_S / 2);
	say_half(0, true, true);
	assert_int_equal(count_heard(0, WIRE_STATUS_REPLY), 1);
	front_box_say(1, zero, 1);
	pass_s(PEER_HALF_S / 2 - 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_false(is_closed(i));
	}
	pass_s(10);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(is_closed(i), i >= 1 && i <= 3);
		assert_int_equal(refused_for(i), is_closed(i) ? GPUCTR_E_TIMEOUT : 0);
	}
	say_half(0, true, false);
	assert_int_equal(count_heard(0, WIRE_STATUS_REPLY), 2);
}
