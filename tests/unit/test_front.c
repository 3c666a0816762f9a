/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "tests/unit/front_script.h"

/* What peers may say to the front, what of it counts, and what the others hear. */

/* --- clients --- */

FRONT_TEST(test_only_its_client_closes_a_capture)
{
	uint32_t anns;

	connect_client(0, ANN);
	anns = open_capture(0, "0");
	connect_client(1, BOB);
	close_capture(1, anns);
	connect_client(2, ANN);
	close_capture(2, anns);
	assert_int_equal(count_heard(0, WIRE_CAPTURE_END), 0);
	close_capture(0, anns);
	assert_int_equal(count_heard(0, WIRE_CAPTURE_END), 1);
}

FRONT_TEST(test_who_waits_is_told_of_a_gpu_that_both_want)
{
	const struct wire_message *m;

	connect_client(0, BOB);
	open_capture(0, NULL);
	connect_client(1, ANN);
	open_capture(1, "1");
	m = last_heard(1, WIRE_QUEUED);
	assert_non_null(m);
	assert_string_equal(m->queued.gpu, FRONT_BOX_UUID_1);
	assert_int_equal(m->queued.position, 1);
}

/* Ann holds the GPU and waits for it twice more. */
/* Of two users who hold GPUs, one has a name that a name service tells: when it is told, it is that
 * of the capture that was opened before. */
FRONT_TEST(test_a_name_that_comes_late_is_the_holders)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	front_box_name_user(ANN, "ann-of-the-directory");
	settle();
	connect_client(2, ROOT);
	open_capture(2, "0");
	assert_non_null(
		strstr(last_heard(2, WIRE_QUEUED)->queued.holder, "ann-of-the-directory ("));
	open_capture(2, "1");
	assert_non_null(strstr(last_heard(2, WIRE_QUEUED)->queued.holder, "uid 1002 ("));
}

FRONT_TEST(test_behind_all_captures_of_a_user_another_is_next)
{
	uint32_t anns[3], bobs;

	connect_client(0, ANN);
	for (size_t i = 0; i < 3; i++) {
		anns[i] = open_capture(0, "0");
	}
	assert_int_equal(last_heard(0, WIRE_QUEUED)->queued.position, 2);
	connect_client(1, BOB);
	bobs = open_capture(1, "0");
	assert_int_equal(last_heard(1, WIRE_QUEUED)->queued.position, 1);
	assert_int_equal(last_heard(0, WIRE_QUEUED)->queued.position, 3); /* is told */
	close_capture(0, anns[0]);
	assert_int_equal(count_heard(1, WIRE_READY), 1);
	assert_int_equal(count_heard(0, WIRE_READY), 1);
	close_capture(1, bobs);
	assert_int_equal(count_heard(0, WIRE_READY), 2);
}

FRONT_TEST(test_what_the_planner_refuses_is_not_opened)
{
	connect_client(0, ANN);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	open_capture(0, "0");
	front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_REFUSAL);
	settle();
	assert_int_equal(refused_for(0), GPUCTR_E_METRIC_UNKNOWN);
	assert_string_equal(last_heard(0, WIRE_REFUSAL)->refusal.message, "no such metric");
	assert_int_equal(count_heard(0, WIRE_OPENED), 0);
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
}

/* Has the front ask, and leaves the question without an answer. */
static enum front_box_asked ask_and_wait(enum wire_type question)
{
	enum front_box_asked which =
		question == WIRE_TENANTS_REQUEST ? FRONT_BOX_GPU : FRONT_BOX_PLANNER;

	connect_client(0, ANN);
	front_box_gpu_set_prompt(which, false);
	if (question == WIRE_METRICS_REQUEST) {
		say(0, &(struct wire_message){ .type = question, .metrics_request = { 1, "", 0 } });
	} else {
		open_capture(0, "0");
	}
	return which;
}

/* Whatever the question, who answers it with the answer to another one, or with a question, is
 * taken for somebody else (the box sees to it) and its texts are not read: the client hears ours.
 * The next one is asked again. */
FRONT_TEST(test_an_answer_is_to_its_question)
{
	static const enum wire_type questions[][2] = {
		{ WIRE_METRICS_REQUEST, WIRE_METRICS_REPLY },
		{ WIRE_PLAN_REQUEST, WIRE_PLAN_REPLY },
		{ WIRE_TENANTS_REQUEST, WIRE_TENANTS_REPLY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(questions) * ARRAY_SIZE(front_box_gpu_types); i++) {
		const enum wire_type *q = questions[i / ARRAY_SIZE(front_box_gpu_types)];
		enum wire_type type = front_box_gpu_types[i % ARRAY_SIZE(front_box_gpu_types)];
		enum front_box_asked which;

		if (type == q[1] || type == WIRE_REFUSAL) {
			continue;
		}
		which = ask_and_wait(q[0]);
		front_box_gpu_answer_as(which, type);
		settle();
		assert_int_equal(refused_for(0), which == FRONT_BOX_GPU ? 0 : GPUCTR_E_INTERNAL);
		front_box_gpu_set_prompt(which, true);
		front_box_gpu_replace(which, false);
		settle();
		if (which == FRONT_BOX_PLANNER) {
			open_capture(0, "0");
		}
		assert_int_equal(count_heard(0, WIRE_READY), 1);
		front_box_close(0, false);
		settle();
	}
}

/* What is no message at all ends the link too, and takes no memory until it is one. */
FRONT_TEST(test_noise_of_a_process_ends_its_link)
{
	static const uint8_t too_large[FRAME_HEADER_BYTES] = { 0xff, 0xff, 0xff, 0xff, 1 };
	static const uint8_t malformed[FRAME_HEADER_BYTES] = { 1, 0, 0, 0, 1, 1, 1, 1 };
	static const uint8_t *const noises[] = { too_large, malformed };

	for (size_t i = 0; i < ARRAY_SIZE(noises); i++) {
		enum front_box_asked which = ask_and_wait(WIRE_PLAN_REQUEST);

		front_box_gpu_say(which, noises[i], FRAME_HEADER_BYTES);
		settle();
		assert_int_equal(refused_for(0), GPUCTR_E_INTERNAL);
		front_box_gpu_replace(which, false);
		settle();
	}
}

FRONT_TEST(test_captures_of_a_user_are_counted)
{
	connect_client(0, ANN);
	connect_client(1, ANN);
	for (unsigned i = 0; i < 4; i++) {
		open_capture(i % 2, "0");
	}
	assert_int_equal(refused_for(0) + refused_for(1), 0);
	open_capture(1, "0");
	assert_int_equal(refused_for(1), GPUCTR_E_QUOTA);
	connect_client(2, BOB);
	open_capture(2, "1");
	assert_int_equal(refused_for(2), 0);
}

FRONT_TEST(test_refusals_are_counted)
{
	const struct gpuctr_counts *counts;

	connect_client(0, ANN);
	open_capture(0, "7");
	assert_int_equal(refused_for(0), GPUCTR_E_NO_GPU);
	connect_client(1, ROOT);
	counts = ask_status(1)->counts;
	assert_int_equal(counts->n_refusals, 1);
	assert_int_equal(counts->refusals[0].code, GPUCTR_E_NO_GPU);
	assert_int_equal(counts->refusals[0].count, 1);
}

/* Two hold GPUs and two wait, of whom one came later. */
FRONT_TEST(test_what_there_is_is_counted)
{
	const struct gpuctr_counts *counts;

	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	open_capture(0, "0");
	pass_s(3);
	open_capture(1, "0");
	connect_agent(2, ANN, 0);
	connect_agent(3, ANN, 0);
	connect_client(5, ROOT);
	assert_int_not_equal(connect_standby(4, ANN), 0);
	pass_s(1);
	counts = ask_status(5)->counts;
	assert_int_equal(counts->leases_active, 2);
	assert_int_equal(counts->leases, 2);
	assert_int_equal(counts->waiting, 2);
	assert_int_equal(counts->longest_wait_ns / CLOCK_NS_PER_S, 4);
	assert_int_equal(counts->processes, 2);
	assert_int_equal(counts->registered, 1);
	assert_int_equal(counts->connections_max, front_box_settings()->connections_max);
	assert_int_equal(counts->waiting_max, front_box_settings()->queue_max);
	assert_false(counts->audit_fails);
}

static const struct gpuctr_capture_info *find_info(const struct wire_status_reply *status,
						   uint32_t capture)
{
	for (size_t i = 0; i < status->captures.n; i++) {
		if (status->captures.v[i].capture == capture) {
			return &status->captures.v[i];
		}
	}
	return NULL;
}

FRONT_TEST(test_what_is_measured_is_told_to_its_owner_alone)
{
	uint32_t anns, roots;

	connect_client(0, ANN);
	anns = open_capture(0, "0");
	connect_client(1, ROOT);
	roots = open_capture(1, "1");
	assert_int_not_equal(find_info(ask_status(0), anns)->n_metrics, 0);
	assert_int_equal(find_info(ask_status(0), roots)->n_metrics, 0);
	assert_int_not_equal(find_info(ask_status(1), anns)->n_metrics, 0);

	/* Root of a container has the number of the machine's root, and is another user. */
	connect_container(2);
	assert_int_equal(find_info(ask_status(2), roots)->n_metrics, 0);
	assert_int_equal(find_info(ask_status(2), anns)->n_metrics, 0);
	assert_null(ask_status(2)->counts);
}

enum { MANY_CAPTURES = 40 };

static void let_many_wait(struct config *c)
{
	c->queue_max = c->captures_per_user = MANY_CAPTURES;
}

/* Their names are more than a frame holds. */
FRONT_TEST(test_a_reply_has_the_metrics_that_it_has_room_for)
{
	const struct wire_capture_infos *told;
	const size_t room = LIMIT_FRAME_BYTES / 2 / MANY_CAPTURES / LIMIT_NAME_BYTES;

	change_settings(let_many_wait);
	connect_client(0, ANN);
	connect_client(1, ROOT);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	for (unsigned i = 0; i < MANY_CAPTURES; i++) {
		open_capture(0, "0");
		front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_LONG_NAMES);
		settle();
	}
	assert_int_equal(count_heard(0, WIRE_OPENED), MANY_CAPTURES);
	told = &ask_status(1)->captures;
	assert_int_equal(told->n, MANY_CAPTURES);
	for (size_t i = 0; i < told->n; i++) {
		const struct gpuctr_capture_info *info = &told->v[i];

		assert_in_range(info->n_metrics, room - 3, room);
		assert_int_equal(strlen(info->metrics[info->n_metrics - 2]), LIMIT_NAME_BYTES - 1);
		assert_int_equal(atoi(info->metrics[info->n_metrics - 1] + 1),
				 LIMIT_METRICS - (info->n_metrics - 1));
	}
}

/* --- frames and descriptors --- */

static void say_header(unsigned peer, uint32_t size, uint16_t type, uint16_t zero)
{
	uint8_t header[FRAME_HEADER_BYTES];

	memcpy(header, &(uint32_t){ htole32(size) }, 4);
	memcpy(header + 4, &(uint16_t){ htole16(type) }, 2);
	memcpy(header + 6, &(uint16_t){ htole16(zero) }, 2);
	front_box_say(peer, header, sizeof(header));
	settle();
}

/* Bob's capture goes on meanwhile. */
FRONT_TEST(test_bad_frames_end_their_own_connection)
{
	static const struct {
		uint32_t size;
		uint16_t type, zero;
	} headers[] = {
		{ LIMIT_FRAME_BYTES + 1, WIRE_HELLO, 0 },
		{ UINT32_MAX, WIRE_HELLO, 0 },
		{ 0x80000000, WIRE_HELLO, 0 },
		{ 4, WIRE_HELLO, 1 },
		{ 0, WIRE_HELLO, 0xffff },
		{ 0, WIRE_HELLO, 0 }, /* of version 0 */
		{ 0, 0xffff, 0 },
	};
	static const enum wire_type clients[] = {
		WIRE_METRICS_REQUEST, WIRE_PLAN_REQUEST,  WIRE_STATUS_REQUEST,
		WIRE_OPEN_CAPTURE,    WIRE_CLOSE_CAPTURE, WIRE_PROCESSES_REQUEST,
		WIRE_JOB_BEGIN,	      WIRE_JOB_END,
	};

	connect_client(1, BOB);
	open_capture(1, "1");
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		connect_peer(0, ANN);
		say_header(0, headers[i].size, headers[i].type, headers[i].zero);
		assert_int_equal(refused_for(0), GPUCTR_E_PROTOCOL);
		assert_true(is_closed(0));
	}
	for (uint16_t type = 0; type < 2 * (WIRE_RECORD_COLUMNS + 1); type++) {
		bool is_clients = false;

		for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
			is_clients = is_clients || type == clients[i];
		}
		connect_client(0, ANN); /* a message without content, of a client ... */
		say_header(0, 0, type, 0);
		assert_int_equal(refused_for(0) == GPUCTR_E_PROTOCOL, !is_clients);
		connect_peer(0, ANN); /* ... and as the first one */
		say_header(0, 0, type, 0);
		assert_int_equal(refused_for(0) == GPUCTR_E_PROTOCOL,
				 type != WIRE_PERMISSION_REQUEST);
	}
	ask_status(1);
	assert_int_equal(count_heard(1, WIRE_CAPTURE_END), 0);
}

/* One may come along unclaimed; a second one is too much. The box sees that none stays open. */
FRONT_TEST(test_descriptors_are_taken_only_where_they_belong)
{
	static const unsigned numbers[] = { 1, 2, 3, 253 };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		connect_peer(0, ANN);
		front_box_attach(0, numbers[i]);
		say(0,
		    &(struct wire_message){ .type = WIRE_HELLO, .hello = { PROTO_VERSION, "t" } });
		assert_int_equal(count_heard(0, WIRE_WELCOME), numbers[i] == 1);
		assert_int_equal(is_closed(0), numbers[i] != 1);
		if (numbers[i] == 1) {
			front_box_attach(0, 1);
			front_box_say(0, "x", 1);
			settle();
			assert_true(is_closed(0));
		}
	}
}

/* --- who does not read --- */

/* More than the socket takes, so that the front holds a part of the answers. */
static void ask_without_reading(unsigned peer)
{
	const struct wire_message m = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };

	front_box_set_reading(peer, false);
	for (unsigned i = 0; i < 4000; i++) {
		front_box_say_message(peer, &m);
	}
	settle();
}

FRONT_TEST(test_who_is_refused_and_does_not_read_is_closed_in_time)
{
	connect_client(1, ROOT);
	connect_client(0, ANN);
	ask_without_reading(0);
	pass_s(1); /* nothing else has a deadline then */
	front_box_say(0, "\xff\xff\xff\xff\xff\xff\xff\xff", FRAME_HEADER_BYTES);
	settle();
	assert_int_equal(ask_status(1)->peers, 2);
	pass_s(11);
	assert_int_equal(ask_status(1)->peers, 1);
}

FRONT_TEST(test_what_comes_after_a_refusal_is_thrown_away)
{
	static const char zeroes[1 << 20];

	connect_client(0, ANN);
	ask_without_reading(0);
	front_box_say(0, "\xff\xff\xff\xff\xff\xff\xff\xff", FRAME_HEADER_BYTES);
	for (unsigned i = 0; i < 20; i++) {
		front_box_say(0, zeroes, sizeof(zeroes));
		settle();
	}
	front_box_set_reading(0, true);
	settle();
	assert_int_equal(count_heard(0, WIRE_REFUSAL), 1);
	assert_int_equal(refused_for(0), GPUCTR_E_PROTOCOL);
}

/* --- agents --- */

/* Ann's capture on GPU 0 with two agents at the peers 1 and 2. */
static uint32_t open_with_two_agents(void)
{
	uint32_t capture;

	connect_client(0, ANN);
	capture = open_capture(0, "0");
	connect_agent(1, ANN, 0);
	connect_agent(2, ANN, 0);
	assert_int_equal(front_box_heard(1).process, 1);
	assert_int_equal(front_box_heard(2).process, 2);
	return capture;
}

FRONT_TEST(test_a_token_is_its_users)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_agent(1, BOB, 0);
	assert_int_equal(refused_for(1), GPUCTR_E_BAD_TOKEN);
	assert_true(is_closed(1));
	assert_int_equal(count_heard(0, WIRE_PROCESS), 0);
}

/* Those that are measured may deliver what they have; nobody comes in. */
FRONT_TEST(test_a_token_ends_with_its_capture)
{
	uint32_t capture = open_with_two_agents();

	close_capture(0, capture);
	assert_int_equal(count_heard(0, WIRE_CAPTURE_END), 0);
	connect_agent(3, ANN, 0);
	assert_int_equal(refused_for(3), GPUCTR_E_BAD_TOKEN);
	assert_int_equal(count_heard(3, WIRE_AGENT_WELCOME), 0);
	assert_int_equal(count_heard(0, WIRE_PROCESS), 2);
}

FRONT_TEST(test_who_leaves_without_a_goodbye_is_told_as_such)
{
	open_with_two_agents();
	front_box_close(1, false);
	settle();
	assert_int_equal(last_heard(0, WIRE_PROCESS_END)->process_end.process, 1);
	assert_false(last_heard(0, WIRE_PROCESS_END)->process_end.clean);
	say(2, &(struct wire_message){ .type = WIRE_GOODBYE });
	assert_int_equal(last_heard(0, WIRE_PROCESS_END)->process_end.process, 2);
	assert_true(last_heard(0, WIRE_PROCESS_END)->process_end.clean);
}

static void tell_counted(unsigned peer, uint32_t capture, uint64_t counted_ns, uint64_t seen)
{
	say(peer, &(struct wire_message){
			  .type = WIRE_PROGRESS,
			  .progress = { capture, peer, { .seen = seen }, counted_ns },
		  });
}

static uint64_t end_without_a_goodbye(unsigned peer)
{
	front_box_close(peer, false);
	settle();
	assert_int_equal(last_heard(0, WIRE_PROCESS_END)->process_end.process, peer);
	return last_heard(0, WIRE_PROCESS_END)->process_end.uncounted_ns;
}

/* The agent's own time counts, as its message may have waited for long; one that claims a time to
 * come, or says none, has counted when it was welcomed. Counts that have not changed are told to
 * nobody, and are true until a later time. */
FRONT_TEST(test_it_is_told_until_when_launches_are_counted)
{
	const struct timespec while_ns = { 0, 20 * CLOCK_NS_PER_MS };
	uint32_t capture = open_with_two_agents();
	uint64_t counted_ns[3], end_ns, uncounted_ns;

	for (int i = 0; i < 3; i++) {
		nanosleep(&while_ns, NULL);
		counted_ns[i] = clock_wall_ns();
	}
	tell_counted(1, capture, counted_ns[1], 7);
	tell_counted(1, capture, counted_ns[2], 7);
	assert_int_equal(count_heard(0, WIRE_PROGRESS), 1);
	tell_counted(2, capture, clock_wall_ns() + CLOCK_NS_PER_S, 8);
	tell_counted(2, capture, 0, 9);
	assert_int_equal(count_heard(0, WIRE_PROGRESS), 3);
	nanosleep(&while_ns, NULL);
	end_ns = clock_wall_ns();
	uncounted_ns = end_without_a_goodbye(1);
	assert_in_range(uncounted_ns, end_ns - counted_ns[2], clock_wall_ns() - counted_ns[2]);
	assert_true(end_without_a_goodbye(2) >= end_ns - counted_ns[0]);
}

/* It exits with a message of ours unread, which the kernel tells as an error. */
FRONT_TEST(test_what_an_agent_said_before_it_left_is_heard)
{
	uint32_t capture = open_with_two_agents();
	const struct wire_message notice = {
		.type = WIRE_NOTICE,
		.notice = { .capture = capture, .process = 1, .message = "m", .remedy = "r" },
	};

	front_box_set_reading(1, false);
	close_capture(0, capture);
	for (unsigned i = 0; i < 3; i++) {
		front_box_say_message(1, &notice);
	}
	front_box_say_message(
		1, &(struct wire_message){ .type = WIRE_GOODBYE,
					   .goodbye = { { .seen = 5, .measured = 5 } } });
	front_box_leave(1);
	settle();
	assert_int_equal(count_heard(0, WIRE_NOTICE), 3);
	assert_int_equal(last_heard(0, WIRE_PROCESS_END)->process_end.process, 1);
	assert_true(last_heard(0, WIRE_PROCESS_END)->process_end.clean);
}

FRONT_TEST(test_an_agent_speaks_of_its_own_process)
{
	uint32_t capture = open_with_two_agents();

	say(2, &(struct wire_message){ .type = WIRE_PROGRESS,
				       .progress = { capture, 1, { .seen = 5 } } });
	assert_int_equal(count_heard(0, WIRE_PROGRESS), 0);
	assert_true(is_closed(2));
	tell_progress(1, 7, 7);
	assert_int_equal(last_heard(0, WIRE_PROGRESS)->progress.totals.seen, 7);
}

FRONT_TEST(test_a_pid_is_what_the_kernel_says)
{
	uint32_t capture = open_with_two_agents();
	struct wire_message m = { .type = WIRE_PROCESS,
				  .process = { .capture = capture,
					       .process = 1,
					       .pid = 1,
					       .program = "another",
					       .cupti = "13" } };

	say(1, &m);
	m = *last_heard(0, WIRE_PROCESS);
	assert_int_equal(m.process.process, 1);
	assert_int_equal(m.process.pid, getpid());
	assert_string_equal(m.process.program, "train");
	assert_string_equal(m.process.cupti, "13");
}

FRONT_TEST(test_kernels_are_counted_as_they_are_told)
{
	uint32_t capture = open_with_two_agents();
	const struct wire_message records = { .type = WIRE_RECORDS,
					      .records = { capture, 1, 0, 7, { 0, NULL } } };
	const struct gpuctr_counts *counts;

	connect_client(3, ROOT);
	say(1, &records);
	say(1, &records);
	tell_progress(1, 10, 4);
	tell_progress(1, 12, 6);
	tell_progress(2, 3, 3);
	counts = ask_status(3)->counts;
	assert_int_equal(counts->kernels.seen, 15);
	assert_int_equal(counts->kernels.measured, 9);
	assert_int_equal(counts->records, 14);
	assert_in_range(counts->record_bytes, 14, 200);
	assert_int_equal(counts->connections, 4);
	assert_int_equal(last_heard(0, WIRE_PROGRESS)->progress.totals.seen, 15);
}

/* Two processes took part, though one of them has gone before the end. */
FRONT_TEST(test_the_end_tells_all_processes)
{
	uint32_t capture = open_with_two_agents();
	struct wire_message m;

	say(1, &(struct wire_message){ .type = WIRE_GOODBYE,
				       .goodbye = { { .seen = 2, .measured = 2 } } });
	assert_int_equal(count_heard(0, WIRE_PROCESS_END), 1);
	tell_progress(2, 10, 4);
	close_capture(0, capture);
	assert_int_equal(count_heard(2, WIRE_AGENT_STOP), 1);
	pass_s(12); /* it does not say goodbye */
	m = *last_heard(0, WIRE_CAPTURE_END);
	assert_int_equal(m.capture_end.processes, 2);
	assert_int_equal(m.capture_end.totals.seen, 12);
	assert_int_equal(m.capture_end.totals.lost, 6);
	connect_client(3, ROOT);
	assert_int_equal(ask_status(3)->counts->kernels.lost, 6);
	assert_int_equal(ask_status(3)->counts->kernels.seen, 12);
}

/* --- agents of a client that does not read --- */

enum { AGENTS = 5, BEHIND_PIECES = 5, TURNS = 8 };

static void say_piece(unsigned peer, uint32_t capture)
{
	static const uint8_t data[LIMIT_IMAGE_PIECE_BYTES];

	front_box_say_message(peer, &(struct wire_message){
					    .type = WIRE_RAW_IMAGE,
					    .raw_image = { .capture = capture,
							   .process = front_box_heard(peer).process,
							   .count = 1,
							   .size = sizeof(data),
							   .data = { sizeof(data), data } } });
	settle();
}

static int n_pieces[AGENTS]; /* that the client has heard of each, beyond the first one's first */

static void expect_turns(unsigned peer, const struct frame *f)
{
	int least = INT_MAX, most = 0;
	struct wire_message m;
	struct arena a;

	if (f->type != WIRE_RAW_IMAGE) {
		return;
	}
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_decode(&a, f->type, f->payload, f->size, &m), 0);
	n_pieces[m.raw_image.process - 1]++;
	arena_deinit(&a);
	for (unsigned i = 0; i < AGENTS; i++) {
		least = n_pieces[i] < least ? n_pieces[i] : least;
		most = n_pieces[i] > most ? n_pieces[i] : most;
	}
	assert_true(n_pieces[0] < 0 || most - least <= 1);
}

/* One agent has sent what a client may have unread. Of the others, which have not sent yet, nothing
 * is taken either. When the client reads they go on in turn, and none has two turns while another
 * has none. */
FRONT_TEST(test_no_agent_is_read_while_its_client_is_behind)
{
	uint32_t capture;

	memset(n_pieces, 0, sizeof(n_pieces));
	n_pieces[0] = -BEHIND_PIECES;
	connect_client(0, ANN);
	capture = open_capture(0, "0");
	for (unsigned i = 1; i <= AGENTS; i++) {
		connect_agent(i, ANN, 0);
	}
	front_box_set_reading(0, false);
	for (unsigned i = 0; i < BEHIND_PIECES; i++) {
		say_piece(1, capture);
	}
	for (unsigned n = 0; n < TURNS * AGENTS; n++) {
		say_piece(1 + n % AGENTS, capture);
		assert_true(front_box_unsent(1 + n % AGENTS) > 0);
	}
	listen_to(expect_turns);
	front_box_set_reading(0, true);
	settle();
	assert_int_equal(count_heard(0, WIRE_RAW_IMAGE), BEHIND_PIECES + TURNS * AGENTS);
	listen_to(NULL);
	for (unsigned i = 1; i <= AGENTS; i++) {
		assert_int_equal(front_box_unsent(i), 0);
		assert_false(is_closed(i));
	}
}

/* --- permissions --- */

static uint32_t permission_code(unsigned peer)
{
	const struct wire_message *m = last_heard(peer, WIRE_PERMISSION_REPLY);

	assert_non_null(m);
	assert_int_equal(m->permission_reply.status == RM_STATUS_OK, m->permission_reply.code == 0);
	return m->permission_reply.code;
}

FRONT_TEST(test_a_permission_is_for_the_captures_own_programs)
{
	open_with_two_agents();
	ask_permission(3, BOB, 0);
	assert_int_equal(permission_code(3), GPUCTR_E_BAD_TOKEN);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).op, 0);
	ask_permission(4, ANN, 0);
	assert_int_equal(permission_code(4), GPUCTR_OK);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).uid, front_box_uid(ANN));
	connect_client(5, ROOT);
	assert_int_equal(ask_status(5)->counts->permissions, 1);
}

static void ask_and_hang_up(unsigned peer)
{
	ask_permission(peer, ANN, 0);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).uid, front_box_uid(ANN));
	front_box_close(peer, false);
	settle();
}

/* The line that a permission is granted is written before it is asked for. */
FRONT_TEST(test_a_permission_is_noted_though_its_program_hangs_up)
{
	uint32_t capture = open_with_two_agents();
	const char *line;
	char text[32];

	snprintf(text, sizeof(text), "capture %u", capture);
	connect_client(5, ROOT);
	front_box_granter_set_prompt(false);
	ask_and_hang_up(3);
	front_box_granter_answer(0, 0x1b);
	settle();
	assert_int_equal(count_decisions("permission granted: ", NULL), 1);
	assert_int_equal(count_decisions("permission refused: ", &line), 1);
	assert_non_null(strstr(line, text));
	assert_int_equal(ask_status(5)->counts->permissions, 0);
	ask_and_hang_up(3);
	front_box_granter_answer(0, RM_STATUS_OK);
	settle();
	assert_int_equal(count_decisions("permission granted: ", NULL), 2);
	assert_int_equal(count_decisions("permission refused: ", NULL), 1);
	assert_int_equal(ask_status(5)->counts->permissions, 1);
}

/* Nor does the end of the granter, or of the capture meanwhile, keep it from being noted. */
FRONT_TEST(test_a_permission_without_an_answer_is_noted)
{
	uint32_t capture = open_with_two_agents();
	const char *line;
	char text[32];

	snprintf(text, sizeof(text), "capture %u", capture);
	front_box_granter_set_prompt(false);
	ask_and_hang_up(3);
	front_box_close(0, false);
	front_box_close(1, false);
	front_box_close(2, false);
	settle();
	assert_int_equal(count_decisions("permission refused: ", NULL), 0);
	front_box_granter_replace(true);
	settle();
	assert_int_equal(count_decisions("permission refused: ", &line), 1);
	assert_non_null(strstr(line, text));
	assert_non_null(strstr(line, "the granter did not answer"));
}

/* Nothing was granted that such a line would correct: they are counted as all refusals are. */
FRONT_TEST(test_refusals_of_other_files_are_not_listed_without_end)
{
	const char *line;

	open_with_two_agents();
	front_box_attach_other_files(true);
	for (unsigned i = 0; i < 100; i++) {
		ask_permission(3, ANN, 0);
		assert_int_equal(permission_code(3), GPUCTR_E_NOT_ALLOWED);
	}
	assert_int_equal(count_decisions("permission refused: ", NULL), 60);
	pass_s(60);
	ask_permission(3, ANN, 0);
	assert_int_equal(count_decisions("permission refused: ", &line), 61);
	assert_non_null(strstr(line, "(40 refusals before it and 0 of other users"));
	assert_int_equal(count_decisions("permission granted: ", NULL), 0);
}

/* How many lines of the audit file have both texts. */
static unsigned count_lines(FILE *audit, const char *event, const char *text)
{
	char line[4096];
	unsigned n = 0;

	rewind(audit);
	while (fgets(line, sizeof(line), audit)) {
		n += strstr(line, event) && strstr(line, text);
	}
	return n;
}

/* As long as a name may be, with a last letter of two bytes. */
FRONT_TEST(test_a_line_has_the_whole_name_of_a_program)
{
	static const char *const metrics[] = { "dram__bytes.sum" };
	static const char *const gpus[] = { "0" };
	char name[LIMIT_NAME_BYTES + 1], told[LIMIT_NAME_BYTES + 32];
	FILE *audit = tmpfile();

	assert_non_null(audit);
	front_box_set_audit_file(fileno(audit));
	memset(name, 'a', sizeof(name));
	memcpy(name + LIMIT_NAME_BYTES - 2, "\xc3\xa9", 3);
	connect_client(0, ANN);
	say(0, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE,
				       .open_capture = { .request = 1,
							 .program = name,
							 .metrics = { 1, metrics },
							 .gpus = { 1, gpus } } });
	connect_agent(1, ANN, 0);
	ask_permission(3, ANN, 0);
	assert_int_equal(permission_code(3), GPUCTR_OK);
	snprintf(told, sizeof(told), "\"program\":\"%s\"", name);
	assert_int_equal(count_lines(audit, "lease-granted", told), 1);
	assert_int_equal(count_lines(audit, "permission-granted", told), 1);
	fclose(audit);
}

/* The front ends, and its lines name the GPU that was leased, not the one that has its index now.
 */
FRONT_TEST(test_a_front_ends_with_the_gpus_that_it_began_with)
{
	FILE *audit = tmpfile();

	assert_non_null(audit);
	front_box_set_audit_file(fileno(audit));
	connect_client(6, ROOT);
	begin_job(6, "7", ANN, "0", 0);
	open_with_two_agents();
	front_box_granter_set_prompt(false);
	ask_permission(3, ANN, 0);
	front_box_swap_gpus();
	front_box_gpu_replace(FRONT_BOX_GPU, false);
	settle();
	assert_int_equal(count_heard(0, WIRE_CAPTURE_END), 0); /* its agents may deliver */
	assert_int_equal(count_heard(1, WIRE_AGENT_STOP), 1);
	front_box_granter_answer(-ENOENT, 0);
	settle();
	front_box_close(1, false);
	front_box_close(2, false);
	settle();
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
	assert_int_equal(count_lines(audit, "permission-refused", ""), 1);
	assert_int_equal(count_lines(audit, "permission-refused", FRONT_BOX_UUID_0), 1);
	assert_int_equal(count_lines(audit, "lease-revoked", ""), 1);
	assert_int_equal(count_lines(audit, "lease-revoked", FRONT_BOX_UUID_0), 1);
	assert_int_equal(count_lines(audit, "job-ended", FRONT_BOX_UUID_0), 1);
	assert_int_equal(count_lines(audit, "", FRONT_BOX_UUID_1), 0);
	fclose(audit);
}

/* The lease was noted before that, and the permission would not be. */
FRONT_TEST(test_nothing_is_granted_that_cannot_be_noted)
{
	open_with_two_agents();
	change_settings(want_an_audit_file);
	ask_permission(3, ANN, 0);
	assert_int_equal(permission_code(3), GPUCTR_E_AUDIT);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).op, 0);
}

/* The driver would make up a number that is 0; without a client the whole GPU is meant. */
FRONT_TEST(test_a_permission_has_all_its_numbers)
{
	static const struct {
		uint32_t root, parent, object, client;
		const char *says;
	} wrong[] = {
		{ 0, 2, 3, 4, "without a number" },
		{ 1, 0, 3, 4, "without a number" },
		{ 1, 2, 0, 4, "without a number" },
		{ 1, 2, 3, 0, "needs an entitlement" },
	};

	open_with_two_agents();
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		connect_peer(3, ANN);
		front_box_attach(3, 1);
		say(3, &(struct wire_message){
			       .type = WIRE_PERMISSION_REQUEST,
			       .permission_request = { front_box_token(0), wrong[i].root,
						       wrong[i].parent, wrong[i].object, 0xb2cc,
						       wrong[i].client, 5 } });
		assert_int_equal(permission_code(3), GPUCTR_E_NOT_ALLOWED);
		assert_non_null(
			strstr(last_heard(3, WIRE_PERMISSION_REPLY)->permission_reply.message,
			       wrong[i].says));
	}
	assert_int_equal(last_granter_request(GRANTER_ALLOC).op, 0);
}

/* Its processes still have to deliver, and need nothing new for that. */
FRONT_TEST(test_a_capture_that_ends_gets_no_permissions)
{
	uint32_t capture = open_with_two_agents();

	close_capture(0, capture);
	ask_permission(3, ANN, 0);
	assert_int_equal(permission_code(3), GPUCTR_E_BAD_TOKEN);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).op, 0);
}

/* Whatever the granter says, who asked hears what to do. */
FRONT_TEST(test_a_refusal_of_the_granter_has_a_remedy)
{
	static const struct {
		int error;
		uint32_t code;
		const char *says, *remedy;
	} all[] = {
		{ -ENOSPC, GPUCTR_E_QUOTA, "a capture may have 256", "with fewer processes" },
		{ -EXDEV, GPUCTR_E_NOT_ALLOWED, "a GPU that the lease does not cover",
		  "Name that GPU in --devices" },
		{ -ESRCH, GPUCTR_E_NOT_ALLOWED, "the process that asked has ended", "live until" },
		{ -EPROTO, GPUCTR_E_NOT_ALLOWED, "another number", "Report the versions" },
		{ -EPERM, GPUCTR_E_NOT_ALLOWED, "the granter refused", "report it" },
	};
	const struct wire_permission_reply *p;

	open_with_two_agents();
	front_box_granter_set_prompt(false);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		ask_permission(3, ANN, 0);
		front_box_granter_answer(all[i].error, 0);
		settle();
		assert_int_equal(permission_code(3), all[i].code);
		p = &last_heard(3, WIRE_PERMISSION_REPLY)->permission_reply;
		assert_non_null(strstr(p->message, all[i].says));
		assert_non_null(strstr(p->remedy, all[i].remedy));
	}
}

FRONT_TEST(test_a_driver_that_hangs_is_told_as_such)
{
	open_with_two_agents();
	front_box_granter_set_prompt(false);
	ask_permission(3, ANN, 0);
	front_box_granter_answer(-ETIMEDOUT, 0);
	settle();
	assert_int_equal(permission_code(3), GPUCTR_E_DRIVER_HUNG);
	ask_permission(4, ANN, 0);
	front_box_granter_answer(0, RM_STATUS_INSUFFICIENT_PERMISSIONS);
	settle();
	assert_int_equal(permission_code(4), GPUCTR_E_GRANT_REFUSED);
	ask_permission(5, ANN, 0);
	front_box_granter_answer(-ENOENT, 0);
	settle();
	assert_int_equal(permission_code(5), GPUCTR_E_NOT_ALLOWED);
}

FRONT_TEST(test_a_hang_ends_captures_of_its_gpu_alone)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	front_box_granter_hang(1);
	settle();
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
	assert_int_equal(count_heard(1, WIRE_CAPTURE_END), 0);
}

/* --- the granter --- */

static uint32_t end_code(unsigned client)
{
	const struct wire_message *m = last_heard(client, WIRE_CAPTURE_END);

	return m ? m->capture_end.code : 0;
}

/* Of two leases the second is waited for, an hour after its begin. */
FRONT_TEST(test_a_lease_that_runs_out_ends_its_capture_alone)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	connect_client(2, ROOT);
	open_capture(2, "1");
	assert_true(last_heard(2, WIRE_QUEUED)->queued.holder_left_ns == 3600 * CLOCK_NS_PER_S);
	pass_s(3599);
	assert_int_equal(count_heard(1, WIRE_CAPTURE_END), 0);
	pass_s(1);
	assert_int_equal(end_code(1), GPUCTR_E_LEASE_EXPIRED);
	assert_int_equal(count_heard(0, WIRE_CAPTURE_END), 0);
	assert_int_equal(count_heard(2, WIRE_READY), 1);
}

/* Whoever holds a GPU loses it; whoever waits keeps the place until there is a granter again. */
FRONT_TEST(test_who_waits_is_served_by_the_next_granter)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "0");
	front_box_granter_replace(true);
	settle();
	assert_int_equal(end_code(0), GPUCTR_E_REVOKED);
	assert_int_equal(count_heard(1, WIRE_READY) + count_heard(1, WIRE_CAPTURE_END), 0);
	front_box_granter_replace(false);
	settle();
	assert_int_equal(count_heard(1, WIRE_READY), 1);
}

/* What a field means to the one may be something else to the other. */
FRONT_TEST(another_version_is_refused_in_plain_words)
{
	static const char said[] = "version 2 of the protocol is spoken there, version 1 here";

	connect_peer(0, ANN);
	say(0, &(struct wire_message){ .type = WIRE_HELLO, .hello = { 2, "t" } });
	assert_int_equal(refused_for(0), GPUCTR_E_PROTOCOL);
	assert_string_equal(last_heard(0, WIRE_REFUSAL)->refusal.message, said);
	assert_non_null(strstr(last_heard(0, WIRE_REFUSAL)->refusal.remedy, GPUCTR_VERSION));
	assert_true(is_closed(0));
	connect_peer(1, ANN);
	say(1, &(struct wire_message){ .type = WIRE_AGENT_HELLO,
				       .agent_hello = { .version = 2, .program = "t" } });
	assert_int_equal(refused_for(1), GPUCTR_E_PROTOCOL);
	assert_string_equal(last_heard(1, WIRE_REFUSAL)->refusal.message, said);
	assert_true(is_closed(1));
}

/* The agent never prints: who waits for its records hears why there are none. */
FRONT_TEST(an_agent_of_another_version_is_told_to_the_client)
{
	struct wire_message hello = {
		.type = WIRE_AGENT_HELLO,
		.agent_hello = { .version = 2, .program = "train" },
	};

	connect_client(0, ANN);
	open_capture(0, "0");
	hello.agent_hello.token = front_box_token(0);
	connect_peer(1, BOB);
	say(1, &hello);
	assert_int_equal(refused_for(1), GPUCTR_E_PROTOCOL);
	assert_int_equal(count_heard(0, WIRE_NOTICE), 0); /* not by another user's program */
	connect_peer(1, ANN);
	say(1, &hello);
	assert_int_equal(refused_for(1), GPUCTR_E_PROTOCOL);
	assert_int_equal(count_heard(0, WIRE_NOTICE), 1);
	assert_int_equal(last_heard(0, WIRE_NOTICE)->notice.code, GPUCTR_E_PROTOCOL);
	assert_non_null(strstr(last_heard(0, WIRE_NOTICE)->notice.message, "train (pid "));
	assert_non_null(strstr(last_heard(0, WIRE_NOTICE)->notice.message, "version 2"));
}
