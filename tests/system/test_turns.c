/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/recorder.h"

/* Who may measure, and when: policy, the queue, leases. */

/* Ann's client holds the GPU with a program that runs until it is killed. */
static struct program *hold(struct fixture *f)
{
	struct program *p = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP,
					   "--kernels", "1000000", "--sleep-us", "2000", NULL);

	expect_text_soon(f->daemon->err, "permission granted: ");
	return p;
}

static void the_second_waits_for_the_first(void **state)
{
	struct fixture *f = *state;
	struct program *first, *second;

	fixture_start_daemon(f, NULL);
	first = hold(f);
	second = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "7",
				NULL);
	expect_text_soon(second->err, "waiting, number 1 in the queue");
	expect_message(second, fixture_user(USER_ANN, " (fakeapp, pid "));
	expect_running(second);
	expect_output(second, ""); /* its program has not begun */
	program_kill(first, SIGTERM);
	expect_exit(first, 128 + SIGTERM);
	expect_exit(second, 0);
	expect_output(second, "done 7\n");
	expect_message(second, "7 measured");
	expect_no_owner(f);
}

/* While the second's lease is being opened, the third is the only one in the queue. */
static void whose_turn_it_is_waits_for_nobody(void **state)
{
	struct fixture *f = *state;
	struct program *first, *second, *third;

	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
	first = hold(f);
	second = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "7",
				NULL);
	expect_text_soon(second->err, "waiting, number 1 in the queue");
	third = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "7",
			       NULL);
	expect_text_soon(third->err, "waiting, number 2 in the queue");
	program_kill(first, SIGTERM);
	expect_exit(second, 0);
	expect_exit(third, 0);
	expect_no_message(second, "number 0");
	expect_no_message(third, "number 0");
}

/* Soon; it has no turn. */
static void expect_position(struct recorder *r, unsigned position)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (r->position != position && now_ms() < by) {
		recorder_for(r, 10);
	}
	assert_int_equal(r->position, position);
	assert_false(r->ready);
}

static void the_queue_is_in_order(void **state)
{
	struct fixture *f = *state;
	struct recorder r[4];

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		const struct gpuctr_capture_options options = recorder_options();

		recorder_connect(&r[i], f, i % 2 ? USER_BOB : USER_ANN);
		recorder_open(&r[i], &options);
		recorder_until(&r[i], &r[i].opened);
		if (i == 0) {
			recorder_until(&r[i], &r[i].ready);
		}
		if (i > 0) {
			expect_position(&r[i], (unsigned)i);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		recorder_until(&r[i], &r[i].ready);
		for (size_t k = i + 1; k < ARRAY_SIZE(r); k++) {
			expect_position(&r[k], (unsigned)(k - i));
		}
		if (i % 2) {
			recorder_disconnect(&r[i]); /* gone, or ended as it should: the next one's
						       turn either way */
		} else {
			recorder_close(&r[i]);
			recorder_disconnect(&r[i]);
		}
	}
	expect_service(f, 1000);
}

/* Others see who holds the GPU, and not how far the program has come. */
static void progress_is_its_owners(void **state)
{
	struct fixture *f = *state;
	struct program *status;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	hold(f);
	do {
		sleep_ms(50);
		status = fixture_client(f, USER_ANN, "status", NULL);
		expect_exit(status, 0);
	} while (count_text(status->out, "kernels measured") == 0);
	assert_true(count_text(status->out, "1 process") > 0);
	assert_true(count_text(status->out, "dram__bytes_read.sum") > 0);
	status = fixture_client(f, USER_BOB, "status", NULL);
	expect_exit(status, 0);
	assert_true(count_text(status->out, "running  uid 1234 (fakeapp, pid ") > 0);
	assert_true(count_text(status->out, "held by capture 1") > 0);
	assert_int_equal(count_text(status->out, "kernels measured"), 0);
	assert_int_equal(count_text(status->out, "1 process"), 0);
	assert_int_equal(count_text(status->out, "dram__bytes_read.sum"), 0);
	status = fixture_client(f, USER_SELF, "status", NULL);
	expect_exit(status, 0);
	assert_true(count_text(status->out, "kernels measured") > 0);
}

static void no_wait_is_refused_with_the_holder(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	hold(f);
	client = fixture_client(f, USER_BOB, "--no-wait", "--metrics", "memory", "--", FAKEAPP,
				NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "gpu-busy");
	expect_message(client, fixture_user(USER_ANN, " (fakeapp, pid "));
}

static void a_timeout_ends_the_wait(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	uint64_t begin;

	fixture_start_daemon(f, NULL);
	hold(f);
	begin = now_ms();
	client = fixture_client(f, USER_BOB, "--timeout", "0.5", "--metrics", "memory", "--",
				FAKEAPP, NULL);
	expect_exit(client, 125);
	assert_in_range(now_ms() - begin, 450, fixture_time(1500));
	expect_output(client, "");
	expect_message(client, "error[timeout]");
}

static void the_queue_has_an_end(void **state)
{
	struct fixture *f = *state;
	struct program *waiting, *client;

	fixture_start_daemon(f, "--set", "queue=1", NULL);
	hold(f);
	waiting = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, NULL);
	expect_text_soon(waiting->err, "waiting, number 1 in the queue");
	client = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "queue-full");
	expect_running(waiting);
}

static void a_user_has_so_many_captures(void **state)
{
	struct fixture *f = *state;
	const struct gpuctr_capture_options options = recorder_options();
	struct recorder r[3];

	fixture_start_daemon(f, "--set", "captures-per-user=2", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		recorder_connect(&r[i], f, USER_ANN);
		recorder_open(&r[i], &options);
		recorder_until(&r[i], i < 2 ? &r[i].opened : &r[i].ended);
	}
	assert_int_equal(r[2].end_code, GPUCTR_E_QUOTA);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		recorder_disconnect(&r[i]);
	}
	expect_service(f, 1000);
}

static void gpus_are_leased_one_by_one(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_ANN, "--devices", "0", "--metrics", "memory", "--", FAKEAPP,
		       "--kernels", "1000000", "--sleep-us", "2000", NULL);
	expect_text_soon(f->daemon->err, "permission granted: ");
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	client = fixture_client(f, USER_BOB, "--no-wait", "--devices", "1", "--metrics", "memory",
				"--", FAKEAPP, "--kernels", "9", NULL);
	expect_exit(client, 0);
	expect_message(client, "9 measured");
	client = fixture_client(f, USER_BOB, "--no-wait", "--metrics", "memory", "--", FAKEAPP,
				NULL); /* both */
	expect_exit(client, 125);
	expect_message(client, "gpu-busy");
	client = fixture_client(f, USER_BOB, "--devices", "7", "--metrics", "memory", "--", FAKEAPP,
				NULL);
	expect_exit(client, 125);
	expect_message(client, "no-gpu");
}

/* --- who --- */

static void who_is_not_allowed_is_told_why(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-groups=1235", NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "not-allowed");
	expect_message(client, "1234");
	expect_message(client, "1235"); /* the group to ask for */
	client = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "5",
				NULL);
	expect_exit(client, 0);
	expect_message(client, "5 measured");
}

/* A token is no use to another user: its program runs, unmeasured, and gets no permission. */
static void a_token_of_another_user_is_refused(void **state)
{
	struct fixture *f = *state;
	struct recorder r;
	struct program *p;
	char token[64];

	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	p = recorder_start(&r, f, FAKEAPP, "--kernels", "5", NULL);
	expect_exit(p, 0);
	snprintf(token, sizeof(token), "%s", recorder_token(&r));
	setenv("GPUCTR_TOKEN", token, 1);
	setenv("CUDA_INJECTION64_PATH", TEST_AGENT, 1);
	p = fixture_run(f, USER_BOB, FAKEAPP, "--kernels", "5", NULL);
	expect_exit(p, 0);
	expect_output(p, "done 5\n");
	p = fixture_run(f, USER_BOB, TEST_ENABLE, NULL);
	expect_exit(p, 0);
	expect_output(p, "enable 35\n");
	p = fixture_run(f, USER_ANN, TEST_ENABLE, NULL); /* its owner may */
	expect_exit(p, 0);
	expect_output(p, "enable 0\n");
	recorder_close(&r);
	p = fixture_run(f, USER_ANN, TEST_ENABLE, NULL); /* until the capture is over */
	expect_exit(p, 0);
	expect_output(p, "enable 35\n");
	assert_int_equal(r.records, 5);
	recorder_disconnect(&r);
}

/* --- leases --- */

/* For longer than two leases of 3 s. */
static void run_for_leases(struct fixture *f, struct recorder *r)
{
	struct program *p;

	recorder_connect(r, f, USER_ANN);
	p = recorder_start(r, f, FAKEAPP, "--kernels", "1000", "--sleep-us", "7000", NULL);
	while (!r->ended && count_text(p->out, "done") == 0) {
		recorder_for(r, 50);
	}
	expect_exit(p, 0);
	recorder_close(r);
	recorder_disconnect(r);
}

/* Who renews it may be held up for longer than it lasts, but not again and again. */
static void a_lease_is_renewed_while_nobody_waits(void **state)
{
	struct fixture *f = *state;
	struct recorder r = { 0 };

	fixture_start_daemon(f, "--set", "lease=3s", "--set", "lease-max=3s", NULL);
	run_for_leases(f, &r);
	if (r.end_code == GPUCTR_E_LEASE_EXPIRED) {
		run_for_leases(f, &r);
	}
	assert_int_equal(r.end_code, 0);
	assert_int_equal(r.totals.measured, 1000);
}

static void a_lease_ends_when_somebody_waits(void **state)
{
	struct fixture *f = *state;
	struct program *first, *second;

	fixture_start_daemon(f, "--set", "lease=1s", "--set", "lease-max=1s", NULL);
	f->violations_expected = true; /* the object is gone under CUPTI's feet */
	first = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
			       "1500", "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	second = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, "--kernels", "7",
				NULL);
	expect_exit(second, 0);
	expect_message(second, "7 measured");
	expect_running(first); /* it has not waited for the end of that program */
	fixture_release(f);
	expect_exit(first, 0); /* which runs on to its own end */
	expect_output(first, "done 1500\n");
	expect_message(first, "lease-expired");
	expect_message(first, "until the capture ended early: what ran after that is not counted");
	expect_no_owner(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(the_second_waits_for_the_first),
		SYSTEM_TEST(whose_turn_it_is_waits_for_nobody),
		SYSTEM_TEST(the_queue_is_in_order),
		SYSTEM_TEST(progress_is_its_owners),
		SYSTEM_TEST(no_wait_is_refused_with_the_holder),
		SYSTEM_TEST(a_timeout_ends_the_wait),
		SYSTEM_TEST(the_queue_has_an_end),
		SYSTEM_TEST(a_user_has_so_many_captures),
		SYSTEM_TEST(gpus_are_leased_one_by_one),
		SYSTEM_TEST(who_is_not_allowed_is_told_why),
		SYSTEM_TEST(a_token_of_another_user_is_refused),
		SYSTEM_TEST(a_lease_is_renewed_while_nobody_waits),
		SYSTEM_TEST(a_lease_ends_when_somebody_waits),
	};

	return SYSTEM_RUN(tests);
}
