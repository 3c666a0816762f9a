/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <unistd.h>

#include "tests/system/recorder.h"
#include "tests/system/settings.h"

/* Who may measure, and when: policy, the queue, leases. */

/* Ann's client holds the GPU with a program that runs until it is killed. */
static struct program *hold(struct fixture *f)
{
	struct program *p = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP,
					   "--kernels", "1000000", "--sleep-us", "2000", NULL);

	expect_text_soon(f->daemon->err, "permission granted: ");
	return p;
}

SYSTEM_TEST(the_second_waits_for_the_first)
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
SYSTEM_TEST(whose_turn_it_is_waits_for_nobody)
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

SYSTEM_TEST(the_queue_is_in_order)
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
SYSTEM_TEST(progress_is_its_owners)
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

SYSTEM_TEST(no_wait_is_refused_with_the_holder)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	hold(f);
	client = fixture_client(f, USER_BOB, "--wait", "0", "--metrics", "memory", "--", FAKEAPP,
				NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "gpu-busy");
	expect_message(client, fixture_user(USER_ANN, " (fakeapp, pid "));
}

SYSTEM_TEST(a_timeout_ends_the_wait)
{
	struct fixture *f = *state;
	struct program *client;
	uint64_t begin;

	fixture_start_daemon(f, NULL);
	hold(f);
	begin = now_ms();
	client = fixture_client(f, USER_BOB, "--wait", "0.5", "--metrics", "memory", "--", FAKEAPP,
				NULL);
	expect_exit(client, 125);
	assert_in_range(now_ms() - begin, 450, fixture_time(1500));
	expect_output(client, "");
	expect_message(client, "error[timeout]");
}

SYSTEM_TEST(the_queue_has_an_end)
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

SYSTEM_TEST(a_user_has_so_many_captures)
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

SYSTEM_TEST(gpus_are_leased_one_by_one)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_ANN, "--devices", "0", "--metrics", "memory", "--", FAKEAPP,
		       "--kernels", "1000000", "--sleep-us", "2000", NULL);
	expect_text_soon(f->daemon->err, "permission granted: ");
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	client = fixture_client(f, USER_BOB, "--wait", "0", "--devices", "1", "--metrics", "memory",
				"--", FAKEAPP, "--kernels", "9", NULL);
	expect_exit(client, 0);
	expect_message(client, "9 measured");
	client = fixture_client(f, USER_BOB, "--wait", "0", "--metrics", "memory", "--", FAKEAPP,
				"--kernels", "9", NULL); /* what it can see */
	expect_exit(client, 0);
	expect_message(client, "9 measured");
	unsetenv("CUDA_VISIBLE_DEVICES");
	client = fixture_client(f, USER_BOB, "--wait", "0", "--metrics", "memory", "--", FAKEAPP,
				NULL); /* both */
	expect_exit(client, 125);
	expect_message(client, "gpu-busy");
	client = fixture_client(f, USER_BOB, "--devices", "7", "--metrics", "memory", "--", FAKEAPP,
				NULL);
	expect_exit(client, 125);
	expect_message(client, "no-gpu");
}

/* What is leased without --devices. */
static void expect_leased(struct fixture *f, const char *visible, const char *gpus)
{
	static const char *const verbs[] = { "run", "permit" };

	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		struct program *client =
			fixture_client(f, USER_ANN, verbs[i], "--", "/bin/true", NULL);

		expect_exit(client, 0);
		expect_message(client, gpus);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
}

#define GPU_3 "GPU-faebd8c9-beaf-9c8d-7263-504136271406"

/* As CUDA reads the variable (tests/unit/test_visible.c has all of it), of those that the user may
 * measure. Where a cgroup hides some, numbers are of the others. */
SYSTEM_TEST(what_a_program_cannot_see_is_not_leased)
{
	struct fixture *f = *state;
	struct settings s;

	setenv("GPUCTR_FAKE_GPUS", "4", 1);
	settings_start_daemon(&s, f, "allow-users = *\n");
	expect_leased(f, "0,1,2,3", "GPU 0, 1, 2, 3");
	expect_leased(f, "2,0", "GPU 0, 2");
	expect_leased(f, "1,7,2", "GPU 1");
	expect_leased(f, GPU_3, "GPU 3");
	expect_leased(f, "", "CUDA_VISIBLE_DEVICES leaves no GPU: all are leased");
	expect_leased(f, "-1", "GPU 0, 1, 2, 3");
	setenv("GPUCTR_FAKE_HIDDEN", "1", 1);
	expect_leased(f, "0", "GPU 0, 1, 2, 3");
	expect_leased(f, GPU_3, "GPU 3");
	unsetenv("GPUCTR_FAKE_HIDDEN");
	if (geteuid() != 0) { /* else a group of ann's own */
		return;
	}
	settings_reload(&s, "group-gpus = 1234 1, 2\n");
	expect_leased(f, "0,1", "GPU 1");
	expect_leased(f, "1,2,3", "GPU 1, 2");
}

/* --- one launcher --- */

#define BESIDE "the holder is another rank of the same job"

/* Ann's client with this rank, which shall wait; of this job when not NULL, started by a shell. */
static struct program *start_rank(struct fixture *f, const char *rank, const char *job)
{
	struct program *p;

	setenv(job ? "SLURM_PROCID" : "OMPI_COMM_WORLD_RANK", rank, 1);
	if (!job) {
		p = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				   "1000000", "--sleep-us", "2000", NULL);
		unsetenv("OMPI_COMM_WORLD_RANK");
		return p;
	}
	setenv("SLURM_JOB_ID", job, 1);
	p = fixture_run(f, USER_ANN, "/bin/sh", "-c", "\"$0\" \"$@\"; exit $?", CLIENT, "--metrics",
			"memory", "--", FAKEAPP, "--kernels", "1000000", "--sleep-us", "2000",
			NULL);
	unsetenv("SLURM_JOB_ID");
	unsetenv("SLURM_PROCID");
	return p;
}

static void expect_told(struct program *p, bool told, const char *remedy)
{
	expect_text_soon(p->err, "waiting, number ");
	sleep_ms(200); /* it follows at once */
	assert_int_equal(count_text(p->err, BESIDE), told);
	assert_int_equal(count_text(p->err, remedy), told);
	program_kill(p, SIGKILL);
	program_wait(p);
}

SYSTEM_TEST(one_client_measures_ranks_that_wait_for_each_other)
{
	static const char launcher[] =
		"for r in 0 1; do (export OMPI_COMM_WORLD_RANK=$r; touch rank$r; "
		"until [ -e rank0 ] && [ -e rank1 ]; do sleep 0.02; done; exec \"$0\" --kernels 8) "
		"& "
		"done; wait";
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	assert_int_equal(chdir(f->folder), 0);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "-o", "%r.gpuctr", "--",
				"/bin/sh", "-c", launcher, FAKEAPP, NULL);
	expect_exit(client, 0);
	/* CUPTI measures one of them at a time: kernels of the other are not ready meanwhile. */
	expect_message(client, "16 kernels seen in 2 processes: ");
	expect_no_message(client, ": 0 measured");
	assert_int_equal(access("0.gpuctr", F_OK) | access("1.gpuctr", F_OK), 0);
	assert_int_equal(chdir("/"), 0);
}

/* Two clients that mpirun or srun has started want one GPU: their programs may wait for each other
 * for ever. */
SYSTEM_TEST(ranks_of_one_launcher_are_told_what_to_do)
{
	struct fixture *f = *state;
	struct program *first;

	fixture_start_daemon(f, NULL);
	first = start_rank(f, "0", NULL);
	expect_text_soon(f->daemon->err, "permission granted: ");
	expect_told(start_rank(f, "1", NULL), true, "gpuctr-client ... -- mpirun -n N PROGRAM");
	expect_told(fixture_client(f, USER_ANN, "--", FAKEAPP, NULL), false, "mpirun");
	expect_told(start_rank(f, "1", "78"), false, "srun"); /* another's child, and no such job */
	program_kill(first, SIGTERM);
	program_wait(first);
	fixture_stop_daemon(f);
	fixture_start_daemon(f, NULL);
	start_rank(f, "0", "78");
	expect_text_soon(f->daemon->err, "permission granted: ");
	expect_told(start_rank(f, "1", "78"), true, "srun --gpuctr");
	expect_told(start_rank(f, "1", "79"), false, "srun");
}

/* --- who --- */

SYSTEM_TEST(who_is_not_allowed_is_told_why)
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
SYSTEM_TEST(a_token_of_another_user_is_refused)
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

/* For longer than lease-max. */
SYSTEM_TEST(a_lease_has_no_end_while_nobody_waits)
{
	struct recorder r = { 0 };
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, "--set", "lease-max=1s", NULL);
	recorder_connect(&r, f, USER_ANN);
	p = recorder_start(&r, f, FAKEAPP, "--kernels", "500", "--sleep-us", "5000", NULL);
	while (!r.ended && count_text(p->out, "done") == 0) {
		recorder_for(&r, 50);
	}
	expect_exit(p, 0);
	recorder_close(&r);
	recorder_disconnect(&r);
	assert_int_equal(r.end_code, 0);
	assert_int_equal(r.totals.measured, 500);
}

SYSTEM_TEST(a_lease_ends_when_somebody_waits)
{
	struct fixture *f = *state;
	struct program *first, *second;

	fixture_start_daemon(f, "--set", "lease-max=1s", NULL);
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
