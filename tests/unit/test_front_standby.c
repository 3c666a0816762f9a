/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/unit/front_script.h"

/* Programs in standby: whose captures reach them, on which GPUs, and what their end means. In the
 * box every program has the pid of the test, so a tenant of that pid is a program in standby. */

enum { CLIENT = 0, OTHER = 1, PROGRAM = 2, ROOTS = 7 };

static void let_operators_capture(struct config *c)
{
	c->policy.operator_captures = true;
	c->policy.operators.uids[c->policy.operators.n_uids++] = front_box_uid(BOB);
	c->policy.device.uids[c->policy.device.n_uids++] = front_box_uid(BOB);
}

static void let_nobody_operate(struct config *c)
{
	c->policy.operator_captures = false;
}

/* --- GPUs --- */

FRONT_TEST(test_gpus_are_those_that_the_program_computes_on)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(share_gpus);
	front_box_set_tenant(1, (uint32_t)getpid());
	connect_client(CLIENT, ANN);
	open_processes(CLIENT, &program, 1);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	assert_int_equal(last_granter_request(GRANTER_OPEN).gpus, 2);
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_WELCOME), 1);
}

/* That it computes there gives Ann no right to the GPU, which is Bob's job's. */
FRONT_TEST(test_gpus_of_others_are_not_leased_though_the_program_computes_there)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(share_gpus);
	connect_client(OTHER, ROOT);
	begin_job(OTHER, "4711", BOB, "1", 0);
	front_box_set_tenant(1, (uint32_t)getpid());
	connect_client(CLIENT, ANN);
	open_processes(CLIENT, &program, 1);
	assert_int_equal(last_granter_request(GRANTER_OPEN).gpus, 1);
}

/* It would be told to play one, and nobody has its GPUs. */
FRONT_TEST(test_a_program_that_waits_plays_no_recording)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	connect_client(CLIENT, ANN);
	say_open(CLIENT,
		 &(struct wire_open_capture){ .processes = { 1, &program }, .recorded = true });
	assert_int_equal(refused_for(CLIENT), GPUCTR_E_BAD_REQUEST);
	assert_int_equal(count_heard(CLIENT, WIRE_OPENED), 0);
	open_processes(CLIENT, &program, 1); /* it is free */
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_WELCOME), 1);
}

/* Which GPUs it needs is known only then, and the one that is held is not among them. */
FRONT_TEST(test_who_does_not_wait_is_refused_for_the_programs_gpus_alone)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(share_gpus);
	connect_client(OTHER, BOB);
	open_capture(OTHER, "0");
	connect_client(CLIENT, ANN);
	front_box_set_tenant(1, (uint32_t)getpid());
	say_open(CLIENT,
		 &(struct wire_open_capture){ .processes = { 1, &program }, .no_wait = true });
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	close_capture(CLIENT, front_box_heard(CLIENT).capture);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
	front_box_set_tenant(1, 0);
	front_box_set_tenant(0, (uint32_t)getpid());
	say_open(CLIENT,
		 &(struct wire_open_capture){ .processes = { 1, &program }, .no_wait = true });
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	assert_int_equal(last_heard(CLIENT, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_GPU_BUSY);
}

/* --- whose --- */

static uint32_t capture_as(unsigned user, uint32_t program)
{
	connect_client(CLIENT, user);
	return open_processes(CLIENT, &program, 1);
}

static void expect_not_allowed(void)
{
	assert_int_equal(refused_for(CLIENT), GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_WELCOME), 0);
}

/* The uid is the same, the user is not. */
FRONT_TEST(test_root_of_a_container_has_no_part_in_roots_programs)
{
	uint32_t program = connect_standby(PROGRAM, ROOT);
	const struct wire_message ask = { .type = WIRE_PROCESSES_REQUEST };

	change_settings(let_operators_capture);
	connect_container(CLIENT);
	say(CLIENT, &ask);
	assert_int_equal(last_heard(CLIENT, WIRE_PROCESSES_REPLY)->processes_reply.processes.n, 0);
	open_processes(CLIENT, &program, 1);
	expect_not_allowed();
	connect_client(OTHER, ROOT);
	say(OTHER, &ask);
	assert_int_equal(last_heard(OTHER, WIRE_PROCESSES_REPLY)->processes_reply.processes.n, 1);
}

static void nobody_is_an_operator(struct config *c)
{
	c->policy.operator_captures = true;
}

/* What one does not see in the list one is not told in a refusal either. */
FRONT_TEST(test_a_refusal_tells_no_pid_and_no_owner)
{
	static void (*const settings[])(struct config *) = { NULL, nobody_is_an_operator };
	uint32_t program;
	char pid[32];

	front_box_set_pid(getppid());
	program = connect_standby(PROGRAM, ANN);
	front_box_set_pid(0);
	snprintf(pid, sizeof(pid), "%d", (int)getppid());
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const char *message;

		if (settings[i]) {
			change_settings(settings[i]);
		}
		capture_as(BOB, program);
		expect_not_allowed();
		message = last_heard(CLIENT, WIRE_REFUSAL)->refusal.message;
		assert_null(strstr(message, pid));
		assert_null(strstr(message, "uid"));
		assert_non_null(strstr(message, "process 1 is none of yours"));
		assert_non_null(strstr(message, i == 0 ? "nobody captures other users' programs"
						       : "you are no operator of this machine"));
	}
	change_settings(let_nobody_operate);
	capture_as(ROOT, program);
	expect_not_allowed();
	assert_non_null(strstr(last_heard(CLIENT, WIRE_REFUSAL)->refusal.message, pid));
}

/* Nor is root's program for an operator, who may capture all others'. */
FRONT_TEST(test_an_operator_does_not_capture_roots_programs)
{
	uint32_t program = connect_standby(PROGRAM, ROOT);

	change_settings(let_operators_capture);
	capture_as(BOB, program);
	expect_not_allowed();
	assert_non_null(strstr(last_heard(CLIENT, WIRE_REFUSAL)->refusal.message,
			       "what root runs root alone captures"));
}

/* There one may take any uid and group. In the box a process that nobody finds stands for it. */
FRONT_TEST(test_in_a_container_nobody_is_an_operator)
{
	const struct wire_message ask = { .type = WIRE_PROCESSES_REQUEST };
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	connect_client(OTHER, BOB);
	say(OTHER, &ask);
	assert_int_equal(last_heard(OTHER, WIRE_PROCESSES_REPLY)->processes_reply.processes.n, 1);
	front_box_set_pid(0x7ffffff0);
	capture_as(BOB, program);
	front_box_set_pid(0);
	expect_not_allowed();
	assert_non_null(strstr(last_heard(CLIENT, WIRE_REFUSAL)->refusal.message,
			       "an operator in a container captures nothing"));
	say(CLIENT, &ask);
	assert_int_equal(last_heard(CLIENT, WIRE_PROCESSES_REPLY)->processes_reply.processes.n, 0);
}

/* --- who takes part --- */

enum { INTRUDER = 3 };

static const struct gpuctr_registered_process *ask_list(void)
{
	const struct wire_processes_reply *r;

	say(CLIENT, &(struct wire_message){ .type = WIRE_PROCESSES_REQUEST });
	r = &last_heard(CLIENT, WIRE_PROCESSES_REPLY)->processes_reply;
	assert_int_equal(r->processes.n, 2);
	assert_true(r->last);
	return r->processes.v;
}

/* In each of three captures, one after the other. */
FRONT_TEST(test_programs_have_numbers_in_the_order_of_their_names)
{
	uint32_t first = connect_standby(PROGRAM, ANN), second = connect_standby(PROGRAM + 1, ANN);
	const uint32_t named[] = { second, first };
	struct wire_message goodbye = { .type = WIRE_GOODBYE };

	connect_client(CLIENT, ANN);
	for (unsigned round = 1; round <= 3; round++) {
		uint32_t capture = open_processes(CLIENT, named, 2);
		struct wire_message m;

		assert_int_equal(front_box_heard(PROGRAM).process, 2);
		assert_int_equal(front_box_heard(PROGRAM + 1).process, 1);
		assert_int_equal(front_box_heard(PROGRAM).capture, capture);
		m = *last_heard(CLIENT, WIRE_PROCESS);
		assert_int_equal(m.process.process, 2);
		assert_int_equal(m.process.pid, getpid());
		assert_string_equal(m.process.program, "train");
		assert_int_equal(ask_list()[0].capture, capture);
		assert_non_null(strstr(ask_list()[1].holder, "(t, pid "));
		close_capture(CLIENT, capture);
		assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_STOP), round);
		goodbye.goodbye.totals.seen = goodbye.goodbye.totals.measured = 10 * round;
		say(PROGRAM, &goodbye);
		m = *last_heard(CLIENT, WIRE_PROCESS_END);
		assert_int_equal(m.process_end.process, 2);
		assert_true(m.process_end.clean);
		assert_int_equal(m.process_end.totals.measured, 10 * round);
		goodbye.goodbye.totals.seen = goodbye.goodbye.totals.measured = 1;
		say(PROGRAM + 1, &goodbye);
		m = *last_heard(CLIENT, WIRE_CAPTURE_END);
		assert_int_equal(m.capture_end.processes, 2);
		assert_int_equal(m.capture_end.totals.measured, 10 * round + 1);
		assert_int_equal(ask_list()[0].capture, 0);
	}
}

/* The owner of the programs knows the token, which every one of them has been told. Whoever named
 * some of them gets no file, no record and no line of another. */
FRONT_TEST(test_a_capture_of_named_programs_takes_no_other)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	capture_as(BOB, program);
	assert_int_equal(count_heard(CLIENT, WIRE_PROCESS), 1);
	connect_agent(INTRUDER, ANN, 0);
	assert_int_equal(refused_for(INTRUDER), GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(count_heard(INTRUDER, WIRE_AGENT_WELCOME), 0);
	assert_true(is_closed(INTRUDER));
	assert_int_equal(count_heard(CLIENT, WIRE_PROCESS), 1);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE }); /* nor when it is alone */
	connect_agent(INTRUDER, ANN, 0);
	assert_int_equal(refused_for(INTRUDER), GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(count_heard(CLIENT, WIRE_PROCESS), 1);
}

/* It has no lease whose line would name whose programs they are. */
FRONT_TEST(test_a_trace_of_others_programs_is_noted)
{
	uint32_t programs[2] = { connect_standby(PROGRAM, ANN) };
	struct wire_open_capture o = { .request = 9, .trace = true, .processes = { 1, programs } };
	const char *line;

	programs[1] = connect_standby(PROGRAM + 1, ANN);
	change_settings(let_operators_capture);
	connect_client(CLIENT, BOB);
	say(CLIENT, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_true(last_heard(PROGRAM, WIRE_AGENT_WELCOME)->agent_welcome.trace);
	assert_int_equal(count_decisions("trace granted: ", &line), 1);
	assert_non_null(strstr(line, "programs of "));
	o.processes.v = &programs[1];
	connect_client(OTHER, ANN);
	say(OTHER, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_true(last_heard(PROGRAM + 1, WIRE_AGENT_WELCOME)->agent_welcome.trace);
	assert_int_equal(count_decisions("trace granted: ", NULL), 1);
}

static void close_it(uint32_t capture)
{
	close_capture(CLIENT, capture);
}

static void leave_it(uint32_t capture)
{
	(void)capture;
	front_box_close(CLIENT, false);
	settle();
	pass_s(5);
}

static void withdraw_it(uint32_t capture)
{
	(void)capture;
	change_settings(let_nobody_operate);
}

static void give_the_gpu_away(uint32_t capture)
{
	(void)capture;
	connect_client(ROOTS, ROOT);
	begin_job(ROOTS, "roots", ROOT, "0", 0);
}

static void let_time_pass(uint32_t capture)
{
	close_capture(CLIENT, capture);
	pass_s(20); /* the program says no goodbye */
}

static uint32_t begin_trace(unsigned client, unsigned user, uint32_t program)
{
	static const char *const gpus[] = { "0" };
	const struct wire_open_capture o = {
		.request = 9, .trace = true, .gpus = { 1, gpus }, .processes = { 1, &program }
	};

	connect_client(client, user);
	say(client, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	return front_box_heard(client).capture;
}

/* However it ends, a trace of another user's program has one line for it, which names this trace
 * and not the other one that goes on. One's own has none. */
FRONT_TEST(test_the_end_of_a_trace_of_others_programs_is_noted)
{
	static void (*const ends[])(uint32_t capture) = { close_it, leave_it, withdraw_it,
							  give_the_gpu_away, let_time_pass };
	uint32_t goes_on;
	unsigned ended = 0;

	change_settings(let_operators_capture);
	goes_on = connect_standby(PROGRAM + 1, ANN);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		char name[64];
		const char *line;
		uint32_t capture;

		change_settings(let_operators_capture);
		begin_trace(OTHER, ANN, goes_on);
		capture = begin_trace(CLIENT, BOB, connect_standby(PROGRAM, ANN));
		assert_int_equal(count_decisions("trace granted: ", NULL), i + 1);
		ends[i](capture);
		if (ends[i] != let_time_pass) {
			say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
		}
		ended += ends[i] == give_the_gpu_away; /* Ann's own is withdrawn as well */
		assert_int_equal(count_decisions("trace ended: ", NULL), ++ended);
		snprintf(name, sizeof(name), "trace ended: capture %u of ", (unsigned)capture);
		assert_int_equal(count_decisions(name, &line), 1);
		assert_non_null(strstr(line, "programs of "));
		if (ends[i] == give_the_gpu_away) {
			end_job(ROOTS, "roots");
		}
		front_box_close(OTHER, false);
		settle();
		say(PROGRAM + 1, &(struct wire_message){ .type = WIRE_GOODBYE });
		assert_int_equal(count_decisions("trace ended: ", NULL), ended);
	}
}

static uint32_t permission_code(unsigned peer)
{
	return last_heard(peer, WIRE_PERMISSION_REPLY)->permission_reply.code;
}

/* Of two programs that are named one has ended its part: what it and a third one ask for is not the
 * capture's. */
FRONT_TEST(test_only_what_is_measured_gets_permissions)
{
	const pid_t first = getpid(), second = getppid();
	uint32_t programs[2];

	programs[0] = connect_standby(PROGRAM, ANN);
	front_box_set_pid(second);
	programs[1] = connect_standby(PROGRAM + 1, ANN);
	connect_client(CLIENT, ANN);
	open_processes(CLIENT, programs, 2);
	ask_permission(OTHER, ANN, 0);
	assert_int_equal(permission_code(OTHER), GPUCTR_OK);
	front_box_set_pid(1);
	ask_permission(OTHER, ANN, 0);
	assert_int_equal(permission_code(OTHER), GPUCTR_E_BAD_TOKEN);
	front_box_set_pid(first);
	ask_permission(OTHER, ANN, 0);
	assert_int_equal(permission_code(OTHER), GPUCTR_OK);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
	ask_permission(OTHER, ANN, 0);
	assert_int_equal(permission_code(OTHER), GPUCTR_E_BAD_TOKEN);
}

FRONT_TEST(test_programs_that_are_measured_by_a_token_are_not_listed)
{
	connect_client(CLIENT, ANN);
	open_capture(CLIENT, "0");
	connect_agent(PROGRAM, ANN, 0);
	say(CLIENT, &(struct wire_message){ .type = WIRE_PROCESSES_REQUEST });
	assert_int_equal(last_heard(CLIENT, WIRE_PROCESSES_REPLY)->processes_reply.processes.n, 0);
}

/* The permission is for the programs, and their user has no such entitlement. */
FRONT_TEST(test_an_operators_entitlement_is_not_the_programs)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	capture_as(BOB, program);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	assert_int_equal(last_granter_request(GRANTER_OPEN).uid, front_box_uid(ANN));
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 0);
	connect_client(OTHER, BOB);
	close_capture(CLIENT, front_box_heard(CLIENT).capture);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
	open_capture(OTHER, NULL);
	assert_int_equal(last_granter_request(GRANTER_OPEN).uid, front_box_uid(BOB));
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
}

/* Ann's job has the GPU, and it is Ann's program that is measured. */
FRONT_TEST(test_an_operator_measures_programs_within_their_users_job)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	connect_client(OTHER, ROOT);
	begin_job(OTHER, "4711", ANN, "0", 0);
	begin_job(OTHER, "4712", BOB, "1", 0);
	capture_as(BOB, program);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	assert_int_equal(last_granter_request(GRANTER_OPEN).gpus, 1);
}

/* The scheduler has said that the GPU is theirs; whose job the operator has says nothing. */
FRONT_TEST(test_programs_within_their_users_job_need_not_be_alone)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	connect_client(OTHER, ROOT);
	begin_job(OTHER, "4711", ANN, "0", 0);
	begin_job(OTHER, "4712", BOB, "1", 0);
	front_box_set_tenant(0, 1); /* root's */
	capture_as(BOB, program);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 1);
	pass_s(1);
	assert_int_equal(count_heard(CLIENT, WIRE_CAPTURE_END), 0);
}

/* The operator's own processes are strangers to the programs that are measured. */
FRONT_TEST(test_who_captures_may_not_compute_there)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	front_box_set_tenant(0, 1); /* root's */
	connect_client(CLIENT, ROOT);
	open_processes(CLIENT, &program, 1);
	assert_int_equal(count_heard(CLIENT, WIRE_READY), 0);
	assert_int_equal(last_heard(CLIENT, WIRE_CAPTURE_END)->capture_end.code,
			 GPUCTR_E_GPU_SHARED);
}

FRONT_TEST(test_an_operator_who_is_none_any_more_loses_the_capture)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	change_settings(let_operators_capture);
	capture_as(BOB, program);
	change_settings(let_nobody_operate);
	assert_int_equal(last_granter_request(GRANTER_CLOSE).op, GRANTER_CLOSE);
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_STOP), 1);
}

/* --- what a program says --- */

static void say_notices(unsigned n, uint32_t code)
{
	const struct front_box_heard h = front_box_heard(PROGRAM);

	for (unsigned i = 0; i < n; i++) {
		say(PROGRAM,
		    &(struct wire_message){ .type = WIRE_NOTICE,
					    .notice = { h.capture, h.process, code, "look", "" } });
	}
}

/* As many as one reads, then one that there are more, and in the end how many. */
FRONT_TEST(test_a_programs_notices_are_bounded_in_each_capture)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	capture_as(ANN, program);
	say_notices(256, GPUCTR_E_PROFILER);
	assert_int_equal(count_heard(CLIENT, WIRE_NOTICE), 256);
	assert_string_equal(last_heard(CLIENT, WIRE_NOTICE)->notice.message, "look");
	say_notices(44, GPUCTR_E_PROFILER);
	assert_int_equal(count_heard(CLIENT, WIRE_NOTICE), 257);
	assert_non_null(
		strstr(last_heard(CLIENT, WIRE_NOTICE)->notice.message, "has sent 256 notices"));
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
	assert_int_equal(count_heard(CLIENT, WIRE_NOTICE), 258);
	assert_non_null(
		strstr(last_heard(CLIENT, WIRE_NOTICE)->notice.message, "44 notices of pid "));
	close_capture(CLIENT, front_box_heard(CLIENT).capture);
	open_processes(CLIENT, &program, 1);
	say_notices(1, GPUCTR_E_PROFILER);
	assert_int_equal(count_heard(CLIENT, WIRE_NOTICE), 259);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_GOODBYE });
	assert_int_equal(count_heard(CLIENT, WIRE_NOTICE), 259);
}

/* That nothing moves any more ends the capture, whatever was said before. */
FRONT_TEST(test_a_stall_counts_among_many_notices)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	capture_as(ANN, program);
	say_notices(300, GPUCTR_E_PROFILER);
	say_notices(1, GPUCTR_E_STALLED);
	assert_int_equal(last_granter_request(GRANTER_CLOSE).op, GRANTER_CLOSE);
}

/* --- ends --- */

FRONT_TEST(test_programs_that_end_before_the_plan_are_missed)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	capture_as(ANN, program);
	front_box_close(PROGRAM, false);
	settle();
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, true);
	front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_GOOD);
	settle();
	assert_int_equal(refused_for(CLIENT), GPUCTR_E_AGENT_LOST);
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
}

FRONT_TEST(test_programs_that_end_before_their_turn_end_the_capture)
{
	uint32_t programs[2] = { connect_standby(PROGRAM, ANN), connect_standby(PROGRAM + 1, ANN) };

	connect_client(OTHER, BOB);
	open_capture(OTHER, NULL);
	connect_client(CLIENT, ANN);
	open_processes(CLIENT, programs, 2);
	assert_int_equal(count_heard(CLIENT, WIRE_QUEUED), 1);
	front_box_close(PROGRAM, false);
	settle();
	assert_int_equal(count_heard(CLIENT, WIRE_CAPTURE_END), 0);
	front_box_close(PROGRAM + 1, false);
	settle();
	assert_int_equal(last_heard(CLIENT, WIRE_CAPTURE_END)->capture_end.code,
			 GPUCTR_E_AGENT_LOST);
}

/* It has heard nothing of the capture, which ends in the queue; and one that has, and says no
 * goodbye, is closed. */
FRONT_TEST(test_programs_whose_turn_has_not_come_stay_in_standby)
{
	uint32_t program = connect_standby(PROGRAM, ANN);

	connect_client(OTHER, BOB);
	open_capture(OTHER, NULL);
	close_capture(CLIENT, capture_as(ANN, program));
	assert_int_equal(count_heard(CLIENT, WIRE_CAPTURE_END), 1);
	pass_s(12);
	assert_false(is_closed(PROGRAM));
	close_capture(OTHER, front_box_heard(OTHER).capture);
	capture_as(ANN, program);
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_WELCOME), 1);
	close_capture(CLIENT, front_box_heard(CLIENT).capture);
	pass_s(9);
	assert_false(is_closed(PROGRAM));
	pass_s(3);
	assert_true(is_closed(PROGRAM));
}

/* --- numbers --- */

static void let_two_connect(struct config *c)
{
	c->connections_per_user = 2;
	c->registered_per_user = 2;
}

/* It has heard of no capture, so whatever it says of one is made up. */
FRONT_TEST(test_who_waits_for_a_turn_tells_no_progress)
{
	uint32_t program = connect_standby(PROGRAM, ANN), capture;

	change_settings(share_gpus);
	connect_client(OTHER, BOB);
	open_capture(OTHER, NULL);
	connect_client(CLIENT, ANN);
	capture = open_processes(CLIENT, &program, 1);
	assert_int_equal(count_heard(CLIENT, WIRE_QUEUED), 1);
	say(PROGRAM, &(struct wire_message){ .type = WIRE_PROGRESS,
					     .progress = { capture, 0, { .seen = 5 } } });
	assert_true(is_closed(PROGRAM));
	assert_int_equal(count_heard(CLIENT, WIRE_PROGRESS), 0);
}

static void take_two(struct config *c)
{
	c->registered_max = 2;
}

static void take_four(struct config *c)
{
	c->registered_max = 4;
}

/* Root has no share to keep to, but there are no more places than these. */
FRONT_TEST(test_there_are_so_many_places_for_all)
{
	change_settings(take_two);
	assert_int_not_equal(connect_standby(2, ROOT), 0);
	assert_int_not_equal(connect_standby(3, ROOT), 0);
	assert_int_equal(connect_standby(4, ROOT), 0);
	assert_int_equal(refused_for(4), GPUCTR_E_QUOTA);
	change_settings(take_four);
	change_settings(let_operators_capture);
	assert_int_equal(connect_standby(5, FRONT_BOX_MALLORY), 0); /* half are for the others */
	assert_int_equal(refused_for(5), GPUCTR_E_QUOTA);
	assert_int_not_equal(connect_standby(5, ANN), 0);
}

/* Another process holds the connection, and the pid may be a third one's by now. */
FRONT_TEST(test_who_has_ended_is_not_captured)
{
	pid_t child = fork();
	uint32_t program;

	if (child == 0) {
		pause();
		_exit(0);
	}
	front_box_set_pid(child);
	program = connect_standby(PROGRAM, ANN);
	front_box_set_pid(0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	capture_as(ANN, program);
	assert_int_equal(refused_for(CLIENT), GPUCTR_E_BAD_REQUEST);
	assert_non_null(strstr(last_heard(CLIENT, WIRE_REFUSAL)->refusal.message, "has ended"));
	assert_true(is_closed(PROGRAM));
}

FRONT_TEST(test_labels_have_a_limit)
{
	char label[256];
	const char *const labels[] = { label, label, label, label, label };
	struct wire_message hello = { .type = WIRE_AGENT_HELLO,
				      .agent_hello = { .version = PROTO_VERSION,
						       .program = "train",
						       .claims = { 4, labels } } };

	memset(label, 'x', sizeof(label));
	label[1] = '=';
	label[sizeof(label) - 1] = '\0';
	connect_peer(PROGRAM, ANN);
	say(PROGRAM, &hello);
	assert_int_equal(count_heard(PROGRAM, WIRE_AGENT_REGISTERED), 1);
	hello.agent_hello.claims.n = 5;
	connect_peer(PROGRAM, ANN);
	say(PROGRAM, &hello);
	assert_int_equal(refused_for(PROGRAM), GPUCTR_E_QUOTA);
	assert_non_null(
		strstr(last_heard(PROGRAM, WIRE_REFUSAL)->refusal.message, "more than 1024 bytes"));
}

FRONT_TEST(test_programs_take_no_place_of_other_connections)
{
	change_settings(let_two_connect);
	assert_int_not_equal(connect_standby(0, ANN), 0);
	assert_int_not_equal(connect_standby(1, ANN), 0);
	connect_client(2, ANN);
	connect_client(3, ANN);
	assert_int_equal(count_heard(2, WIRE_WELCOME) + count_heard(3, WIRE_WELCOME), 2);
	connect_client(4, ANN);
	assert_int_equal(refused_for(4), GPUCTR_E_QUOTA);
	front_box_close(3, false);
	settle();
	assert_int_equal(connect_standby(4, ANN), 0);
	assert_int_equal(refused_for(4), GPUCTR_E_QUOTA);
}
