/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/unit/front_script.h"

/* Who may measure, for how long, and who else computes: settings that are read again, jobs that a
 * scheduler states, rates, and the look at a leased GPU. */

static bool has_ended(unsigned client)
{
	return count_heard(client, WIRE_CAPTURE_END) > 0;
}

/* --- settings --- */

static void allow_nobody(struct config *c)
{
	c->policy.allow.n_uids = 0;
}

FRONT_TEST(test_who_loses_the_right_while_the_plan_is_made_is_refused)
{
	connect_client(0, ANN);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	open_capture(0, "0");
	change_settings(allow_nobody);
	front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_GOOD);
	settle();
	assert_int_equal(refused_for(0), GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
}

/* The settings still allow it, but the GPU is another user's job's by then. */
FRONT_TEST(test_a_gpu_that_a_job_gets_while_the_plan_is_made_is_not_leased)
{
	connect_client(0, ANN);
	connect_client(1, ROOT);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	open_capture(0, "0");
	begin_job(1, "bobs", BOB, "0", 0);
	front_box_gpu_answer(FRONT_BOX_PLANNER, FRONT_BOX_GOOD);
	settle();
	assert_int_equal(refused_for(0), GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
}

FRONT_TEST(test_who_loses_the_right_loses_the_lease)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	change_settings(allow_nobody);
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
}

/* What was measured under a lease that has been asked to end is delivered. */
FRONT_TEST(test_who_loses_the_right_at_the_end_may_deliver)
{
	uint32_t capture;

	connect_client(0, ANN);
	capture = open_capture(0, "0");
	connect_agent(1, ANN, 0);
	close_capture(0, capture);
	change_settings(allow_nobody);
	assert_int_equal(last_granter_request(GRANTER_CLOSE).op, 0);
	say(1, &(struct wire_message){ .type = WIRE_GOODBYE });
	assert_true(has_ended(0));
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, 0);
}

static void entitle_ann(struct config *c)
{
	c->policy.device.uids[c->policy.device.n_uids++] = front_box_uid(ANN);
}

static void entitle_nobody(struct config *c)
{
	c->policy.device.n_uids = 0;
}

FRONT_TEST(test_who_loses_the_entitlement_loses_the_lease)
{
	connect_client(1, BOB);
	open_capture(1, "1");
	change_settings(entitle_ann);
	connect_client(0, ANN);
	open_capture(0, "0");
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
	change_settings(entitle_nobody);
	assert_true(has_ended(0));
	assert_false(has_ended(1)); /* had none */
}

static void share_no_gpus(struct config *c)
{
	c->shared = false;
}

static void lease_for_a_minute_at_most(struct config *c)
{
	c->lease_max_ns = 60 * CLOCK_NS_PER_S;
}

FRONT_TEST(test_leases_are_as_long_as_the_settings_say_now)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "0");
	assert_true(last_heard(1, WIRE_QUEUED)->queued.holder_left_ns == 3600 * CLOCK_NS_PER_S);
	change_settings(lease_for_a_minute_at_most);
	pass_s(59);
	assert_false(has_ended(0));
	pass_s(2);
	assert_true(has_ended(0));
	assert_int_equal(count_heard(1, WIRE_READY), 1);
}

/* The granter is told by what names the driver knows the GPUs of the lease. */
FRONT_TEST(test_whole_gpus_are_those_of_the_lease)
{
	struct granter_request q;
	struct rm_gpu gpu;

	change_settings(entitle_ann);
	connect_client(0, ANN);
	close_capture(0, open_capture(0, "1"));
	q = last_granter_request(GRANTER_OPEN);
	assert_int_equal(q.device, 1);
	assert_int_equal(q.gpus, 2);
	assert_true(rm_gpu_from_text(FRONT_BOX_UUID_1, &gpu));
	assert_memory_equal(&q.names[1], &gpu, sizeof(gpu));
	change_settings(share_gpus);
	open_capture(0, "1");
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
}

/* --- permits --- */

static void open_permit(unsigned peer)
{
	const struct wire_open_capture o = { .request = 9,
					     .program = "ncu ./a.out",
					     .permit = true };

	say(peer, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
}

static void open_permit_of(unsigned peer, const char *gpu)
{
	const struct wire_open_capture o = {
		.request = 9, .program = "ncu ./a.out", .permit = true, .gpus = { 1, &gpu }
	};

	say(peer, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
}

/* No planner is asked, and no agent is expected. */
FRONT_TEST(test_a_permit_is_a_lease)
{
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	connect_client(0, ANN);
	open_permit(0);
	assert_int_equal(count_heard(0, WIRE_READY), 1);
	assert_int_equal(last_heard(0, WIRE_OPENED)->opened.plan.columns.n, 0);
	connect_client(1, BOB);
	open_permit(1);
	assert_non_null(strstr(last_heard(1, WIRE_QUEUED)->queued.holder, "(permit: ncu, pid"));
	connect_agent(2, ANN, 0);
	assert_int_equal(refused_for(2), GPUCTR_E_BAD_TOKEN);
	ask_permission(3, ANN, 0);
	assert_int_equal(last_heard(3, WIRE_PERMISSION_REPLY)->permission_reply.code, GPUCTR_OK);
	connect_client(4, ROOT);
	assert_int_equal(ask_status(4)->counts->leases_active, 1);
	assert_int_equal(ask_status(4)->counts->leases_permit, 1);
}

/* It was alone, and nobody watches that any more. */
FRONT_TEST(test_a_permit_of_whole_gpus_ends_when_they_are_shared)
{
	connect_client(0, ANN);
	open_permit(0);
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
	change_settings(share_gpus);
	assert_true(has_ended(0));
	connect_client(1, BOB);
	open_permit(1);
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 0);
	change_settings(entitle_nobody);
	assert_false(has_ended(1));
}

/* Process 1 is root's, or of whoever runs the test: neither Ann's nor Bob's. */
static bool is_refused_beside_others(unsigned peer)
{
	return count_heard(peer, WIRE_CAPTURE_END) == 1 &&
	       last_heard(peer, WIRE_CAPTURE_END)->capture_end.code == GPUCTR_E_GPU_SHARED;
}

/* A job does not keep others off its GPUs: it answers for what a program counts of itself, and not
 * for the counters of whole GPUs, whether a permit or an entitlement gives those. */
FRONT_TEST(test_a_job_does_not_answer_for_whole_gpus)
{
	unsigned opened;

	connect_client(7, ROOT);
	begin_job(7, "anns", ANN, "0", 0);
	begin_job(7, "bobs", BOB, "1", 0);
	front_box_set_tenant(0, 1);
	front_box_set_tenant(1, 1);
	connect_client(0, ANN);
	open_permit_of(0, "0");
	assert_true(is_refused_beside_others(0));
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
	connect_client(1, BOB);
	opened = open_capture(1, "1"); /* of its own contexts alone */
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 0);
	pass_s(5);
	assert_false(has_ended(1));
	close_capture(1, opened);
	change_settings(entitle_ann);
	connect_client(2, ANN);
	open_capture(2, "0");
	assert_true(is_refused_beside_others(2));
}

/* Who comes later is seen as well, on each of two GPUs, and when the gpu process is gone for good
 * nobody could see them. */
FRONT_TEST(test_whole_gpus_are_watched_within_a_job)
{
	connect_client(7, ROOT);
	begin_job(7, "anns", ANN, "0", 0);
	begin_job(7, "bobs", BOB, "1", 0);
	connect_client(0, ANN);
	open_permit_of(0, "0");
	connect_client(1, BOB);
	open_permit_of(1, "1");
	pass_s(5);
	assert_false(has_ended(0) || has_ended(1));
	front_box_set_tenant(1, 1);
	pass_s(1);
	assert_false(has_ended(0));
	assert_true(has_ended(1));
	front_box_gpu_replace(FRONT_BOX_GPU, true);
	pass_s(5);
	assert_true(has_ended(0));
}

/* Whoever begins, moves or ends the job: Ann's permits on GPU 0, and root's, which no job takes
 * from it. What counts of itself alone goes on, and so does what is on another GPU. */
FRONT_TEST(test_leases_of_whole_gpus_end_with_what_a_job_states)
{
	static const char *const jobs[] = { "one", "two", NULL };
	unsigned bobs;

	connect_client(7, ROOT);
	connect_client(1, BOB);
	bobs = open_capture(1, "0");
	begin_job(7, "bobs", BOB, "0", 0);
	pass_s(1);
	assert_false(has_ended(1));
	close_capture(1, bobs);
	end_job(7, "bobs");
	connect_client(1, BOB);
	open_permit_of(1, "1");
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		connect_client(0, i % 2 == 0 ? ANN : ROOT);
		open_permit_of(0, "0");
		assert_int_equal(count_heard(0, WIRE_READY), 1);
		if (jobs[i]) {
			begin_job(7, jobs[i], ANN, "0", 0);
		} else {
			end_job(7, "two");
		}
		assert_true(has_ended(0));
		assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code,
				 GPUCTR_E_REVOKED);
	}
	begin_job(7, "three", ANN, "0", 0);
	connect_client(0, ANN);
	open_permit_of(0, "0");
	begin_job(7, "three", ANN, "0", 0); /* says again what holds */
	assert_false(has_ended(0) || has_ended(1));
}

/* Of two captures of whom the entitlement lets count whole GPUs, the one that has asked for that
 * ends, and the one that counts its own programs alone goes on. */
FRONT_TEST(test_a_capture_that_counts_a_whole_gpu_ends_with_what_a_job_states)
{
	change_settings(entitle_ann);
	connect_client(7, ROOT);
	for (unsigned i = 0; i < 2; i++) {
		connect_client(i, ANN);
		open_capture(i, i == 0 ? "0" : "1");
		connect_peer(2, ANN);
		front_box_attach(2, 1);
		say(2, &(struct wire_message){ .type = WIRE_PERMISSION_REQUEST,
					       .permission_request = { front_box_token(i), 1, 2, 3,
								       0xb2cc, i == 0 ? 0 : 4,
								       i == 0 ? 0 : 5 } });
		assert_int_equal(last_heard(2, WIRE_PERMISSION_REPLY)->permission_reply.code, 0);
	}
	begin_job(7, "zero", ANN, "0", 0);
	begin_job(7, "one", ANN, "1", 0);
	assert_true(has_ended(0));
	assert_false(has_ended(1));
}

FRONT_TEST(test_a_permits_client_is_told_who_was_refused)
{
	connect_client(0, ANN);
	open_permit(0);
	ask_permission(3, ANN, 0);
	assert_int_equal(count_heard(0, WIRE_NOTICE), 0);
	for (unsigned i = 0; i < 100; i++) {
		ask_permission(4 + i % 4, BOB, 0);
	}
	assert_int_equal(count_heard(0, WIRE_NOTICE), 64); /* and no more */
	assert_non_null(strstr(last_heard(0, WIRE_NOTICE)->notice.message, "runs as another user"));
}

FRONT_TEST(test_a_permit_measures_nothing)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	static const uint32_t one = 1;
	struct wire_open_capture o = { .request = 9, .permit = true };

	connect_client(0, ANN);
	o.metrics = (struct wire_strings){ 1, metrics };
	say(0, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_int_equal(refused_for(0), GPUCTR_E_BAD_REQUEST);
	o = (struct wire_open_capture){ .request = 11, .permit = true, .processes = { 1, &one } };
	say(0, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_int_equal(count_heard(0, WIRE_REFUSAL), 2);
	assert_int_equal(count_heard(0, WIRE_OPENED), 0);
}

/* Of samples that come out of a file: nothing is leased, waited for or granted. */
FRONT_TEST(test_a_permit_of_a_recording_permits_nothing)
{
	const struct wire_open_capture o = {
		.request = 9, .program = "gpuctr-replay", .permit = true, .recorded = true
	};

	connect_client(0, BOB);
	open_permit(0);
	connect_client(1, ANN);
	say(1, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_int_equal(count_heard(1, WIRE_READY), 1);
	assert_true(last_heard(1, WIRE_OPENED)->opened.recorded);
	assert_int_equal(last_heard(1, WIRE_OPENED)->opened.gpus.n, 0);
	ask_permission(2, ANN, 1);
	assert_int_equal(last_heard(2, WIRE_PERMISSION_REPLY)->permission_reply.code,
			 GPUCTR_E_BAD_TOKEN);
	assert_int_equal(last_granter_request(GRANTER_ALLOC).op, 0);
	connect_agent(3, ANN, 1);
	assert_int_equal(refused_for(3), GPUCTR_E_BAD_TOKEN);
	connect_client(4, ROOT);
	assert_int_equal(ask_status(4)->counts->leases_active, 1);
}

/* --- traces --- */

/* No planner is asked, nothing is leased or waited for, and no counter is permitted. */
FRONT_TEST(test_a_trace_leases_nothing)
{
	const struct wire_open_capture o = { .request = 9, .no_wait = true, .trace = true };
	const struct wire_agent_welcome *w;

	connect_client(0, BOB);
	open_permit(0);
	front_box_gpu_set_prompt(FRONT_BOX_PLANNER, false);
	connect_client(1, ANN);
	say(1, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_int_equal(count_heard(1, WIRE_READY), 1);
	assert_int_equal(last_heard(1, WIRE_OPENED)->opened.plan.columns.n, 0);
	connect_agent(2, ANN, 1);
	w = &last_heard(2, WIRE_AGENT_WELCOME)->agent_welcome;
	assert_true(w->trace);
	assert_true(w->gpus.n > 0);
	ask_permission(3, ANN, 1);
	assert_int_equal(last_heard(3, WIRE_PERMISSION_REPLY)->permission_reply.code,
			 GPUCTR_E_BAD_TOKEN);
	connect_client(4, ROOT);
	assert_int_equal(ask_status(4)->counts->leases_active, 1);
	front_box_set_tenant(0, 1); /* a stranger ends the lease alone */
	pass_s(1);
	assert_true(has_ended(0));
	assert_int_equal(count_heard(2, WIRE_AGENT_STOP), 0);
}

/* They name what records will get from elsewhere. */
FRONT_TEST(test_a_traces_metrics_are_planned)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	const struct wire_open_capture o = { .request = 9,
					     .trace = true,
					     .metrics = { 1, metrics } };

	connect_client(0, ANN);
	say(0, &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = o });
	assert_int_equal(count_heard(0, WIRE_READY), 1);
	assert_true(last_heard(0, WIRE_OPENED)->opened.plan.columns.n > 0);
	connect_agent(1, ANN, 0);
	assert_true(last_heard(1, WIRE_AGENT_WELCOME)->agent_welcome.trace);
	assert_true(last_heard(1, WIRE_AGENT_WELCOME)->agent_welcome.plan.columns.n > 0);
	connect_client(2, ROOT);
	assert_int_equal(ask_status(2)->counts->leases_active, 0);
}

FRONT_TEST(test_a_trace_has_nothing_to_keep_or_to_permit)
{
	struct wire_open_capture wrong[2] = { { 0 } };

	connect_client(0, ANN);
	wrong[0].permit = true;
	wrong[1].selection.raw_images = true;
	for (unsigned i = 0; i < 2; i++) {
		wrong[i].request = i + 9;
		wrong[i].trace = true;
		say(0,
		    &(struct wire_message){ .type = WIRE_OPEN_CAPTURE, .open_capture = wrong[i] });
		assert_int_equal(count_heard(0, WIRE_REFUSAL), i + 1);
		assert_int_equal(refused_for(0), GPUCTR_E_BAD_REQUEST);
	}
	assert_int_equal(count_heard(0, WIRE_OPENED), 0);
}

/* --- jobs --- */

static void allow_owners_of_jobs(struct config *c)
{
	c->policy.allow.n_uids = 0;
	c->policy.job_owners = true;
}

FRONT_TEST(test_what_a_job_allows_ends_with_it)
{
	change_settings(allow_owners_of_jobs);
	connect_client(1, ROOT);
	begin_job(1, "4711", ANN, "0", 0);
	connect_client(0, ANN);
	open_capture(0, NULL);
	assert_int_equal(last_granter_request(GRANTER_OPEN).gpus, 1);
	end_job(1, "4711");
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
}

/* Of two jobs each ends by its own time, and with it the captures that it allowed: the one that
 * holds the GPU, and the one that waits. */
FRONT_TEST(test_what_a_job_allows_ends_with_its_time)
{
	change_settings(allow_owners_of_jobs);
	connect_client(0, ROOT);
	begin_job(0, "4711", ANN, "0", UINT64_C(5000000000));
	begin_job(0, "4712", BOB, "1", UINT64_C(60000000000));
	connect_client(1, ANN);
	open_capture(1, "0");
	connect_client(2, ANN);
	open_capture(2, "0");
	connect_client(3, BOB);
	open_capture(3, "1");
	assert_int_equal(count_heard(1, WIRE_READY) + count_heard(3, WIRE_READY), 2);
	pass_s(4);
	assert_false(has_ended(1) || has_ended(2) || has_ended(3));
	pass_s(7);
	assert_int_equal(last_heard(1, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
	assert_int_equal(last_heard(2, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_NOT_ALLOWED);
	assert_false(has_ended(3));
	assert_int_equal(last_granter_request(GRANTER_CLOSE).op, GRANTER_CLOSE);
	pass_s(60);
	assert_int_equal(last_heard(3, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
}

/* Each of two begins with a line and ends with one: when it is said, and by its time. */
FRONT_TEST(test_jobs_are_noted)
{
	const char *line;

	connect_client(0, ROOT);
	begin_job(0, "4711", ANN, "0", 0);
	begin_job(0, "4712", BOB, "1", UINT64_C(5000000000));
	assert_int_equal(count_decisions("job begun: job ", &line), 2);
	assert_non_null(strstr(line, "job 4712 of "));
	assert_int_equal(count_decisions("job ended: ", NULL), 0);
	end_job(0, "4711");
	assert_int_equal(count_decisions("job ended: ", &line), 1);
	assert_non_null(strstr(line, "job 4711 of "));
	pass_s(11);
	assert_int_equal(count_decisions("job ended: ", &line), 2);
	assert_non_null(strstr(line, "job 4712 of "));
	assert_non_null(strstr(line, "its time is over"));
}

/* Ann's and Bob's leases last for half an hour. Then somebody waits for Ann's GPU: it is free
 * within a moment, as who waits is told, and Bob keeps his. */
FRONT_TEST(test_who_comes_after_lease_max_waits_for_a_moment)
{
	const char *line;

	change_settings(lease_for_a_minute_at_most);
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	pass_s(1800);
	connect_client(2, ROOT);
	open_capture(2, "0");
	assert_true(last_heard(2, WIRE_QUEUED)->queued.holder_left_ns <= CLOCK_NS_PER_S);
	pass_s(2);
	assert_int_equal(count_decisions("lease expired: ", &line), 1);
	assert_non_null(strstr(line, "capture 1 of "));
	assert_true(has_ended(0));
	assert_int_equal(count_heard(2, WIRE_READY), 1);
	pass_s(600);
	assert_false(has_ended(1));
}

/* Each of two, and no other. */
FRONT_TEST(test_a_job_that_loses_its_gpus_to_another_has_ended)
{
	const char *line;

	connect_client(0, ROOT);
	begin_job(0, "both", ANN, "0", 0);
	begin_job(0, "other", ANN, "1", 0);
	begin_job(0, "next", BOB, "0", 0);
	assert_int_equal(count_decisions("job ended: ", &line), 1);
	assert_non_null(strstr(line, "job both of "));
	assert_non_null(strstr(line, "its GPUs are another job's now"));
	begin_job(0, "next", BOB, "0", 0); /* says again what holds */
	assert_int_equal(count_decisions("job ended: ", NULL), 1);
	begin_job(0, "last", BOB, "1", 0);
	assert_int_equal(count_decisions("job ended: ", &line), 2);
	assert_non_null(strstr(line, "job other of "));
}

/* Of two captures; what the one is given or loses is no line of the other. */
FRONT_TEST(test_leases_and_permissions_are_noted)
{
	const char *line;
	uint32_t bobs;

	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	bobs = open_capture(1, "1");
	assert_int_equal(count_decisions("lease granted: ", &line), 2);
	assert_non_null(strstr(line, "capture 2 of "));
	ask_permission(2, ANN, 0);
	ask_permission(2, ANN, 1); /* Bob's */
	assert_int_equal(count_decisions("permission granted: ", &line), 1);
	assert_non_null(strstr(line, "capture 1 of "));
	assert_int_equal(count_decisions("permission refused: ", NULL), 1);
	close_capture(1, bobs);
	assert_int_equal(count_decisions("lease ended: ", &line), 1);
	assert_non_null(strstr(line, "capture 2 of "));
	front_box_set_tenant(0, 1);
	pass_s(1);
	assert_int_equal(count_decisions("lease revoked: ", &line), 1);
	assert_non_null(strstr(line, "capture 1 of "));
	assert_int_equal(count_decisions("lease ended: ", NULL), 1);
	assert_int_equal(count_decisions("lease expired: ", NULL), 0);
}

FRONT_TEST(test_what_the_settings_allow_does_not_end_with_a_job)
{
	connect_client(1, ROOT);
	begin_job(1, "4711", ANN, "0", 0);
	connect_client(0, ANN);
	open_capture(0, "0");
	end_job(1, "4711");
	assert_false(has_ended(0));
	begin_job(1, "4712", BOB, "0", 0);
	assert_true(has_ended(0));
}

FRONT_TEST(test_a_job_lasts_as_long_as_it_was_stated)
{
	connect_client(0, ROOT);
	begin_job(0, "4711", ANN, "0", UINT64_MAX);
	begin_job(0, "4712", ANN, "1", UINT64_C(5000000000));
	pass_s(4);
	assert_string_equal(ask_status(0)->gpus.v[0].job, "4711");
	assert_string_equal(ask_status(0)->gpus.v[1].job, "4712");
	pass_s(4);
	assert_string_equal(ask_status(0)->gpus.v[0].job, "4711");
	assert_string_equal(ask_status(0)->gpus.v[1].job, "");
}

/* Root of the machine alone states jobs, and root of a container has no part in them. */
FRONT_TEST(test_jobs_are_stated_by_root_of_the_machine)
{
	connect_client(0, ROOT);
	begin_job(0, "4711", BOB, "0", 0);
	connect_container(1);
	connect_client(2, ANN);
	for (unsigned i = 1; i < 3; i++) {
		begin_job(i, "1", ANN, "0", 0);
		end_job(i, "4711");
		assert_int_equal(count_heard(i, WIRE_REFUSAL), 2);
		open_capture(i, "0");
		assert_int_equal(count_heard(i, WIRE_REFUSAL), 3);
		assert_int_equal(refused_for(i), GPUCTR_E_NOT_ALLOWED);
		assert_non_null(strstr(last_heard(i, WIRE_REFUSAL)->refusal.message,
				       "GPU 0 belongs to job 4711 of uid 1002"));
	}
	assert_string_equal(ask_status(0)->gpus.v[0].job, "4711");
	assert_string_equal(ask_status(0)->gpus.v[0].job_user, "uid 1002");
	close_capture(0, open_capture(0, "0"));
	assert_int_equal(count_heard(0, WIRE_READY), 1);
}

/* Without a name it could not be ended, and without a GPU it says nothing. */
FRONT_TEST(test_a_job_has_a_name_and_a_gpu)
{
	connect_client(0, ROOT);
	begin_job(0, "", ANN, "0", 0);
	assert_int_equal(refused_for(0), GPUCTR_E_BAD_REQUEST);
	say(0, &(struct wire_message){ .type = WIRE_JOB_BEGIN,
				       .job_begin = { 1, "4711", front_box_uid(ANN), { 0 }, 0 } });
	assert_int_equal(count_heard(0, WIRE_REFUSAL), 2);
	assert_int_equal(refused_for(0), GPUCTR_E_BAD_REQUEST);
	assert_int_equal(count_heard(0, WIRE_JOB_REPLY), 0);
	assert_string_equal(ask_status(0)->gpus.v[0].job, "");
}

FRONT_TEST(test_a_job_that_cannot_be_noted_does_not_begin)
{
	connect_client(0, ROOT);
	change_settings(want_an_audit_file);
	begin_job(0, "4711", ANN, "0", 0);
	assert_int_equal(refused_for(0), GPUCTR_E_AUDIT);
	assert_int_equal(count_heard(0, WIRE_JOB_REPLY), 0);
	assert_string_equal(ask_status(0)->gpus.v[0].job, "");
}

/* --- rates --- */

static void allow_two_a_minute(struct config *c)
{
	c->permissions_per_minute = c->captures_per_minute = 2;
}

static uint32_t permission_status(unsigned peer)
{
	return last_heard(peer, WIRE_PERMISSION_REPLY)->permission_reply.code;
}

FRONT_TEST(test_permissions_have_a_rate_but_for_root)
{
	change_settings(allow_two_a_minute);
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, ROOT);
	open_capture(1, "1");
	for (unsigned i = 0; i < 3; i++) {
		ask_permission(2, ANN, 0);
		assert_int_equal(permission_status(2), i < 2 ? GPUCTR_OK : GPUCTR_E_QUOTA);
		ask_permission(3, ROOT, 1);
		assert_int_equal(permission_status(3), GPUCTR_OK);
	}
	pass_s(31); /* half a minute gives one back */
	ask_permission(2, ANN, 0);
	assert_int_equal(permission_status(2), GPUCTR_OK);
	ask_permission(2, ANN, 0);
	assert_int_equal(permission_status(2), GPUCTR_E_QUOTA);
}

FRONT_TEST(test_captures_have_a_rate_but_for_root)
{
	change_settings(allow_two_a_minute);
	connect_client(0, ANN);
	connect_client(1, ROOT);
	for (unsigned i = 0; i < 3; i++) {
		close_capture(0, open_capture(0, "0"));
		assert_int_equal(refused_for(0), i < 2 ? GPUCTR_OK : GPUCTR_E_QUOTA);
		close_capture(1, open_capture(1, "1"));
		assert_int_equal(refused_for(1), GPUCTR_OK);
	}
}

static void let_two_be_open_and_share(struct config *c)
{
	c->captures_per_user = 2;
	c->shared = true;
}

/* What root of a container has open, sends, or asks, root of the machine has not, and the other way
 * round. */
FRONT_TEST(test_two_roots_are_two_users)
{
	change_settings(let_two_be_open_and_share);
	connect_container(0);
	connect_client(1, ROOT);
	for (unsigned peer = 0; peer < 2; peer++) {
		for (unsigned i = 0; i < 2; i++) {
			say_open(peer,
				 &(struct wire_open_capture){ .recorded = true, .chip = "GH100" });
		}
		assert_int_equal(refused_for(peer), 0);
		assert_int_equal(count_heard(peer, WIRE_OPENED), 2);
	}
	say_open(0, &(struct wire_open_capture){ .recorded = true, .chip = "GH100" });
	assert_int_equal(refused_for(0), GPUCTR_E_QUOTA);
}

/* Descriptors that are not closed yet count as who sent them. */
FRONT_TEST(test_root_of_a_container_does_not_keep_jobs_from_ending)
{
	connect_client(1, ROOT);
	begin_job(1, "one", ANN, "0", 0);
	front_box_hold_closes(true);
	for (unsigned i = 0; i < 4; i++) {
		front_box_connect_container(0);
		settle();
		front_box_attach(0, 255);
		front_box_say(0, "x", 1);
		settle();
	}
	connect_client(2, ROOT);
	assert_int_equal(count_heard(2, WIRE_WELCOME), 1);
	end_job(2, "one");
	assert_int_equal(count_heard(2, WIRE_JOB_REPLY), 1);
	front_box_hold_closes(false);
	settle();
}

static void allow_one_question(struct config *c)
{
	c->questions_per_minute = 1;
}

static unsigned count_answers(unsigned peer, unsigned questions)
{
	static const char *const metrics[] = { "dram__bytes.sum" };

	for (unsigned i = 0; i < questions; i++) {
		say(peer, &(struct wire_message){ .type = WIRE_PLAN_REQUEST,
						  .plan_request = { i + 1, "", { 1, metrics } } });
	}
	return count_heard(peer, WIRE_PLAN_REPLY);
}

FRONT_TEST(test_questions_have_a_rate_but_for_root_of_the_machine)
{
	change_settings(allow_one_question);
	connect_container(0);
	connect_client(1, ANN);
	connect_client(2, ROOT);
	assert_int_equal(count_answers(0, 5), 1);
	assert_int_equal(count_answers(1, 5), 1);
	assert_int_equal(count_answers(2, 5), 5);
}

static void entitle_uid_0(struct config *c)
{
	c->policy.device.uids[c->policy.device.n_uids++] = 0;
}

/* Where users trust each other the entitlement decides, which root of the machine has, and root of
 * a container when it is named. */
FRONT_TEST(test_root_of_a_container_counts_no_whole_gpu)
{
	change_settings(let_two_be_open_and_share);
	connect_container(0);
	close_capture(0, open_capture(0, "0"));
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 0);
	connect_client(1, ROOT);
	close_capture(1, open_capture(1, "0"));
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
	change_settings(entitle_uid_0);
	close_capture(0, open_capture(0, "0"));
	assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
}

/* Of two that wait, who has a reservation already comes behind: the other root has none. */
FRONT_TEST(test_two_roots_take_turns)
{
	uint32_t anns;

	connect_client(0, ANN);
	anns = open_capture(0, "0");
	connect_client(1, ROOT);
	open_capture(1, "0");
	open_capture(1, "0");
	connect_container(2);
	open_capture(2, "0");
	assert_int_equal(last_heard(2, WIRE_QUEUED)->queued.position, 2);
	close_capture(0, anns);
}

/* --- who else computes --- */

/* Time counts from the look before the lease, also for one that begins between two ticks. */
FRONT_TEST(test_a_lease_begins_with_a_look)
{
	connect_client(1, BOB);
	open_capture(1, "1");
	pass_s(5);
	connect_client(0, ANN);
	open_capture(0, "0");
	front_box_gpu_set_prompt(FRONT_BOX_GPU, false);
	pass_s(2);
	assert_false(has_ended(0));
}

/* Nobody can say then whether Ann would be alone. */
FRONT_TEST(test_no_lease_begins_when_nobody_tells_who_computes)
{
	static const enum front_box_answer answers[] = { FRONT_BOX_UNKNOWN_TENANTS,
							 FRONT_BOX_REFUSAL };

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		connect_client(0, ANN);
		front_box_gpu_set_prompt(FRONT_BOX_GPU, false);
		open_capture(0, "0");
		front_box_gpu_answer(FRONT_BOX_GPU, answers[i]);
		settle();
		assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code,
				 GPUCTR_E_GPU_SHARED);
		assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
	}
}

/* Two captures on two GPUs are asked about when it ends, and again when there is another. */
FRONT_TEST(test_a_lease_waits_for_the_gpu_process)
{
	connect_client(0, ANN);
	connect_client(1, BOB);
	front_box_gpu_set_prompt(FRONT_BOX_GPU, false);
	open_capture(0, "0");
	open_capture(1, "1");
	front_box_gpu_replace(FRONT_BOX_GPU, true);
	settle();
	assert_false(has_ended(0) || has_ended(1));
	assert_int_equal(count_heard(0, WIRE_READY) + count_heard(1, WIRE_READY), 0);
	front_box_gpu_replace(FRONT_BOX_GPU, false);
	front_box_gpu_set_prompt(FRONT_BOX_GPU, true);
	settle();
	assert_int_equal(count_heard(0, WIRE_READY), 1);
	assert_int_equal(count_heard(1, WIRE_READY), 1);
}

/* On the first GPU runs nobody any more, on the second somebody does. */
FRONT_TEST(test_each_gpu_of_a_capture_is_looked_at)
{
	pid_t gone = fork();

	if (gone == 0) {
		_exit(0);
	}
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	front_box_set_tenant(0, (uint32_t)gone);
	front_box_set_tenant(1, 1); /* root's */
	connect_client(0, ANN);
	open_capture(0, NULL);
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_GPU_SHARED);
	assert_non_null(strstr(last_heard(0, WIRE_CAPTURE_END)->capture_end.message, "GPU 1"));
}

/* One's own programs compute where one measures; of two GPUs that counts on each. */
FRONT_TEST(test_ones_own_programs_are_nobody_else)
{
	if (getuid() != 0) { /* the test is the program */
		print_message("SKIP: needs root, whose program is measured\n");
		skip();
	}
	front_box_set_tenant(0, (uint32_t)getpid());
	front_box_set_tenant(1, (uint32_t)getpid());
	connect_client(0, ROOT);
	open_capture(0, NULL);
	assert_int_equal(count_heard(0, WIRE_READY), 1);
	pass_s(4);
	assert_false(has_ended(0));
	close_capture(0, front_box_heard(0).capture);
	connect_client(1, ANN);
	open_capture(1, "1");
	assert_int_equal(last_heard(1, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_GPU_SHARED);
}

FRONT_TEST(test_each_lease_is_looked_after)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	connect_client(1, BOB);
	open_capture(1, "1");
	pass_s(2);
	front_box_set_tenant(1, 1);
	pass_s(1);
	assert_true(has_ended(1));
	pass_s(4);
	assert_false(has_ended(0));
	front_box_set_tenant(0, 1);
	pass_s(1);
	assert_true(has_ended(0));
}

/* Four times a second and no more, and not when nobody holds one. */
FRONT_TEST(test_leased_gpus_are_looked_at_four_times_a_second)
{
	uint32_t anns;
	unsigned before;

	connect_client(0, ANN);
	anns = open_capture(0, "0");
	before = count_looks();
	assert_int_equal(before, 1); /* before the lease */
	for (unsigned ms = 0; ms < 10000; ms += 50) {
		front_box_pass(50);
		settle();
	}
	assert_in_range(count_looks() - before, 38, 41);
	close_capture(0, anns);
	before = count_looks();
	pass_s(5);
	assert_int_equal(count_looks(), before);
}

/* The front can open no file: whose a process is cannot be read, and that is not "nobody". */
FRONT_TEST(test_who_cannot_be_told_is_a_stranger)
{
	struct rlimit before, none;

	front_box_set_tenant(0, (uint32_t)getpid());
	front_box_set_tenant(1, (uint32_t)getpid());
	connect_client(0, ANN);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ (rlim_t)dup(STDERR_FILENO), before.rlim_max };
	close((int)none.rlim_cur); /* the next one that would be given */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	open_capture(0, "0");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_GPU_SHARED);
	assert_non_null(
		strstr(last_heard(0, WIRE_CAPTURE_END)->capture_end.message, "cannot be told"));
	assert_int_equal(last_granter_request(GRANTER_OPEN).op, 0);
}

FRONT_TEST(test_shared_gpus_are_not_looked_at)
{
	change_settings(share_gpus);
	front_box_set_tenant(0, 1);
	connect_client(0, ANN);
	open_capture(0, "0");
	pass_s(10);
	assert_false(has_ended(0));
}

/* Two users may compute where they trust each other, and then they may not. */
FRONT_TEST(test_whole_gpus_that_are_shared_no_more_are_looked_at)
{
	change_settings(entitle_ann);
	change_settings(share_gpus);
	front_box_set_tenant(0, 1);
	for (unsigned i = 0; i < 2; i++) {
		connect_client(i, ANN);
		open_capture(i, i == 0 ? "0" : "1");
		assert_int_equal(last_granter_request(GRANTER_OPEN).device, 1);
	}
	pass_s(5);
	assert_false(has_ended(0) || has_ended(1));
	change_settings(share_no_gpus);
	front_box_pass(500);
	settle();
	assert_true(has_ended(0));
	assert_int_equal(last_heard(0, WIRE_CAPTURE_END)->capture_end.code, GPUCTR_E_REVOKED);
	pass_s(5);
	assert_false(has_ended(1));
	connect_client(2, ANN);
	open_capture(2, "0");
	assert_true(is_refused_beside_others(2));
}

FRONT_TEST(test_a_lease_ends_when_nobody_can_look)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	pass_s(1);
	front_box_gpu_set_prompt(FRONT_BOX_GPU, false);
	pass_s(2);
	assert_false(has_ended(0));
	pass_s(2);
	assert_true(has_ended(0));
}

/* Who was stopped has not looked either, and nobody is to blame. */
FRONT_TEST(test_time_in_which_the_front_stood_still_does_not_count)
{
	connect_client(0, ANN);
	open_capture(0, "0");
	pass_s(1);
	front_box_gpu_set_prompt(FRONT_BOX_GPU, false);
	front_box_pass(60 * 1000);
	settle();
	pass_s(2);
	assert_false(has_ended(0));
	pass_s(2);
	assert_true(has_ended(0));
}
