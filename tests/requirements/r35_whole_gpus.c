/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"
#include "tests/system/settings.h"

/* R35: whole-device counters are for who is alone. Whatever a scheduler states, what an earlier job
 * has left behind, whoever shares a job's GPU, and however the settings change: no object that
 * counts a whole GPU lives while another user computes there, unless users trust each other by the
 * administrator's word. Ann's objects are of two GPUs, and what happens on the one takes none of
 * the other. */

enum { GPUS = 2, REVOKED_MS = 500 };

static const char *const everybody = "allow-users = *\n";
static const char *const entitled = "allow-users = *\nsharing = shared\ndevice-users = 1234\n";
static const char *const trusting = "allow-users = *\nsharing = shared\n";

static struct settings settings;
static struct recorder holders[GPUS];
static struct program *bob;

static void start(struct fixture *f, const char *text)
{
	fixture_need_two_users();
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	settings_start_daemon(&settings, f, text);
	bob = fixture_run(f, USER_BOB, "/bin/sleep", "1000", NULL);
}

static void state_job(struct fixture *f, const char *verb, const char *job, const char *user,
		      const char *gpu)
{
	struct program *p = user ? fixture_client(f, USER_SELF, "job", verb, "--job", job, "--user",
						  user, "--devices", gpu, NULL)
				 : fixture_client(f, USER_SELF, "job", verb, "--job", job, NULL);

	expect_exit(p, 0);
}

/* Ann's permit, or her capture where she is entitled, of this GPU. */
static void ask(struct fixture *f, int gpu, bool permit)
{
	static const char *const gpus[GPUS] = { "0", "1" };
	struct gpuctr_capture_options o = permit ? recorder_permit_options() : recorder_options();

	o.gpus = &gpus[gpu];
	o.n_gpus = 1;
	recorder_connect(&holders[gpu], f, USER_ANN);
	recorder_open(&holders[gpu], &o);
}

/* An object without a target: two zeros. raw_control_device() knows GPU 0 alone, so the other GPU's
 * holder has its lease and no object. */
static void hold(struct fixture *f, int gpu, bool permit)
{
	static uint32_t object = 0x5c200000;
	CLEAN_FD int device = gpu == 0 ? raw_control_device() : -1;
	struct wire_message m;

	ask(f, gpu, permit);
	recorder_until(&holders[gpu], &holders[gpu].ready);
	if (gpu == 0) {
		m = raw_permission(recorder_token(&holders[gpu]), 0xc1d00001, object++);
		m.permission_request.client_target = m.permission_request.context_target = 0;
		assert_true(raw_ask_patiently(f, USER_ANN, &m, device).granted);
		assert_int_equal(fixture_count(f, "objects", " 0xb2cc "), 1);
	}
}

static void expect_refused(struct fixture *f, int gpu, bool permit)
{
	ask(f, gpu, permit);
	recorder_until(&holders[gpu], &holders[gpu].ended);
	assert_false(holders[gpu].ready);
	assert_int_equal(holders[gpu].end_code, GPUCTR_E_GPU_SHARED);
	recorder_disconnect(&holders[gpu]);
}

/* The granter frees it while the client is told. */
static void expect_no_object(struct fixture *f)
{
	wait_until(fixture_count(f, "objects", " 0xb2cc ") == 0);
}

/* The one on GPU 0 is taken back with its object; the other one stays. */
static void expect_taken_back(struct fixture *f)
{
	recorder_until(&holders[0], &holders[0].ended);
	assert_int_equal(holders[0].end_code, GPUCTR_E_REVOKED);
	expect_no_object(f);
	recorder_for(&holders[1], REVOKED_MS);
	assert_false(holders[1].ended);
	for (int i = 0; i < GPUS; i++) {
		recorder_disconnect(&holders[i]);
	}
}

SYSTEM_TEST(who_shares_a_jobs_gpu_ends_them)
{
	struct fixture *f = *state;
	uint64_t begin;

	start(f, everybody);
	state_job(f, "begin", "anns", "1234", "0,1");
	hold(f, 0, true);
	hold(f, 1, true);
	recorder_for(&holders[0], REVOKED_MS);
	assert_false(holders[0].ended);
	begin = now_ms();
	fixture_set_process(f, 0, bob->pid);
	recorder_until(&holders[0], &holders[0].ended);
	requirement_figure("R35", "a permit within a job: taken back %u ms after another's context",
			   (unsigned)(now_ms() - begin));
	expect_taken_back(f);
}

/* With the entitlement, where users trust each other; then they do not, and Bob is there. */
SYSTEM_TEST(settings_end_them)
{
	struct fixture *f = *state;

	start(f, entitled);
	state_job(f, "begin", "anns", "1234", "0,1");
	fixture_set_process(f, 0, bob->pid);
	hold(f, 0, false);
	hold(f, 1, false);
	recorder_for(&holders[0], 2 * REVOKED_MS);
	assert_false(holders[0].ended);
	settings_reload(&settings, "allow-users = *\ndevice-users = 1234\n");
	expect_taken_back(f);
	expect_refused(f, 0, false);
	fixture_set_process(f, 0, 0);
	hold(f, 0, true);
	settings_reload(&settings, trusting);
	recorder_until(&holders[0], &holders[0].ended);
	expect_no_object(f);
	recorder_disconnect(&holders[0]);
}
