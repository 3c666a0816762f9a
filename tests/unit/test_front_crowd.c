/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/unit/front_script.h"

/* Many at a time: turns at the planner, connections of all, and what those have who may not
 * measure. */

/* --- guests --- */

static void say_guests_hello(unsigned peer)
{
	say(peer,
	    &(struct wire_message){ .type = WIRE_HELLO, .hello = { PROTO_VERSION, true, "t" } });
	assert_int_equal(count_heard(peer, WIRE_WELCOME), 1);
}

static void test_a_guest_sees_no_processes(void **state)
{
	(void)state;
	connect_standby(0, ANN);
	connect_peer(1, FRONT_BOX_MALLORY);
	say_guests_hello(1);
	say(1,
	    &(struct wire_message){ .type = WIRE_PROCESSES_REQUEST, .processes_request = { 1 } });
	assert_int_equal(refused_for(1), GPUCTR_E_PROTOCOL);
	assert_int_equal(count_heard(1, WIRE_PROCESSES_REPLY), 0);
}

static void test_a_guest_stays_for_half_a_minute(void **state)
{
	uint64_t before;

	(void)state;
	connect_peer(1, FRONT_BOX_MALLORY);
	say_guests_hello(1);
	connect_client(0, ROOT);
	before = ask_status(0)->uptime_ns;
	pass_s(29);
	assert_false(is_closed(1));
	pass_s(2);
	assert_true(is_closed(1));
	assert_int_equal(refused_for(1), GPUCTR_E_TIMEOUT);
	assert_true(ask_status(0)->uptime_ns - before == 31 * CLOCK_NS_PER_S);
}

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
static void test_a_users_questions_take_turns_with_others(void **state)
{
	(void)state;
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
static void test_questions_of_a_connection_are_counted(void **state)
{
	(void)state;
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

/* Guests of two users have asked before her: she waits for the one that is being answered. */
static void test_guests_wait_for_who_may_measure(void **state)
{
	(void)state;
	connect_client(0, ANN);
	connect_peer(1, FRONT_BOX_MALLORY);
	say_guests_hello(1);
	front_box_connect_trudy(2);
	say_guests_hello(2);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	ask_for_plan(1, 1);
	ask_for_plan(1, 2);
	ask_for_plan(2, 1);
	ask_for_plan(0, 1);
	ask_for_plan(0, 2);
	answer_one();
	assert_int_equal(count_heard(1, WIRE_PLAN_REPLY), 1);
	answer_one();
	answer_one();
	assert_int_equal(count_heard(0, WIRE_PLAN_REPLY), 2);
	assert_int_equal(count_heard(1, WIRE_PLAN_REPLY) + count_heard(2, WIRE_PLAN_REPLY), 1);
	answer_one(); /* and take turns */
	assert_int_equal(count_heard(2, WIRE_PLAN_REPLY), 1);
	answer_one();
	assert_int_equal(count_heard(1, WIRE_PLAN_REPLY), 2);
}

/* --- connections --- */

static void allow_six_connections(struct config *c)
{
	c->connections_max = c->connections_per_user = 6;
}

static bool is_let_in(unsigned peer)
{
	return !is_closed(peer) && refused_for(peer) == 0;
}

static void test_strangers_have_half_of_the_connections(void **state)
{
	(void)state;
	change_settings(allow_six_connections);
	for (unsigned i = 0; i < 4; i++) {
		if (i % 2) {
			connect_peer(i, FRONT_BOX_MALLORY);
		} else {
			front_box_connect_trudy(i);
			settle();
		}
		assert_int_equal(is_let_in(i), i < 3);
	}
	assert_int_equal(refused_for(3), GPUCTR_E_QUOTA);
	connect_client(3, ANN);
	connect_client(4, BOB);
	connect_client(5, BOB);
	assert_int_equal(count_heard(3, WIRE_WELCOME) + count_heard(5, WIRE_WELCOME), 2);
	front_box_close(0, false); /* and the place of one that goes is another's */
	settle();
	connect_peer(0, FRONT_BOX_MALLORY);
	assert_true(is_let_in(0));
}

/* What is in standby has places of its own. */
static void test_strangers_in_standby_take_no_connections(void **state)
{
	(void)state;
	change_settings(allow_six_connections);
	assert_int_not_equal(connect_standby(0, FRONT_BOX_MALLORY), 0);
	assert_int_not_equal(connect_standby(1, FRONT_BOX_MALLORY), 0);
	front_box_close(1, false);
	settle();
	for (unsigned i = 1; i < 5; i++) {
		connect_peer(i, FRONT_BOX_MALLORY);
		assert_int_equal(is_let_in(i), i < 4);
	}
}

static void let_ann_in(struct config *c)
{
	c->policy.allow.uids[0] = front_box_uid(ANN);
	c->policy.allow.n_uids = 1;
}

static void let_bob_in(struct config *c)
{
	c->policy.allow.uids[0] = front_box_uid(BOB);
	c->policy.allow.n_uids = 1;
	c->policy.operator_captures = true;
	c->policy.operators.uids[c->policy.operators.n_uids++] = front_box_uid(BOB);
}

static void test_who_is_let_in_is_no_stranger_any_more(void **state)
{
	(void)state;
	change_settings(allow_six_connections);
	change_settings(let_bob_in);
	for (unsigned i = 0; i < 4; i++) {
		connect_peer(i, ANN);
		assert_int_equal(is_let_in(i), i < 3);
	}
	change_settings(let_ann_in);
	connect_peer(3, FRONT_BOX_MALLORY);
	assert_true(is_let_in(3));
}

/* Ann may not measure, and Bob measures a program of hers: that has to ask for permissions. */
static void test_who_is_measured_counts_as_admitted(void **state)
{
	uint32_t program;

	(void)state;
	change_settings(allow_six_connections);
	change_settings(let_bob_in);
	program = connect_standby(0, ANN);
	connect_client(1, BOB);
	for (unsigned i = 2; i < 5; i++) {
		connect_peer(i, FRONT_BOX_MALLORY);
	}
	ask_permission(5, ANN, 0);
	assert_int_equal(refused_for(5), GPUCTR_E_QUOTA);
	open_processes(1, &program, 1);
	ask_permission(5, ANN, 0);
	assert_int_equal(refused_for(5), 0);
	assert_int_equal(last_heard(5, WIRE_PERMISSION_REPLY)->permission_reply.code, GPUCTR_OK);
}

/* All others have taken all that there are. */
static void test_root_has_connections_to_itself(void **state)
{
	(void)state;
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

#define FRONT_TEST(f) cmocka_unit_test_setup_teardown(f, front_script_begin, front_script_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRONT_TEST(test_a_guest_sees_no_processes),
		FRONT_TEST(test_a_guest_stays_for_half_a_minute),
		FRONT_TEST(test_a_users_questions_take_turns_with_others),
		FRONT_TEST(test_questions_of_a_connection_are_counted),
		FRONT_TEST(test_guests_wait_for_who_may_measure),
		FRONT_TEST(test_strangers_have_half_of_the_connections),
		FRONT_TEST(test_strangers_in_standby_take_no_connections),
		FRONT_TEST(test_who_is_let_in_is_no_stranger_any_more),
		FRONT_TEST(test_who_is_measured_counts_as_admitted),
		FRONT_TEST(test_root_has_connections_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
