/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/raw.h"
#include "tests/system/settings.h"

/* What an administrator and a scheduler decide: which GPUs, how often, for whose job; and that
 * every decision stands in the audit log. */

/* Of two GPUs; the next fixture_setup() forgets it. */
static void start_daemon(struct fixture *f, const char *setting)
{
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, "--set", setting, NULL);
}

/* A measured program of so many kernels on this GPU. */
static struct program *measure(struct fixture *f, int uid, const char *devices, const char *kernels)
{
	return fixture_client(f, uid, "--metrics", "memory", "--devices", devices, "--", FAKEAPP,
			      "--devices", "2", "--kernels", kernels, NULL);
}

static struct program *begin_job(struct fixture *f, int uid, const char *job, const char *user,
				 const char *devices)
{
	return fixture_client(f, uid, "job", "begin", "--job", job, "--user", user, "--devices",
			      devices, NULL);
}

static struct program *end_job(struct fixture *f, const char *job)
{
	return fixture_client(f, USER_SELF, "job", "end", "--job", job, NULL);
}

static void expect_refused(struct program *client, const char *code)
{
	expect_exit(client, 125);
	expect_output(client, ""); /* its program has not begun */
	expect_message(client, code);
}

/* --- GPUs of groups --- */

SYSTEM_TEST(a_group_has_its_gpus)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_strict_daemon(f, "--set", "group-gpus=1234 1", "--set", "sharing=shared",
				    NULL);
	client = measure(f, USER_ANN, "0", "5");
	expect_refused(client, "not-allowed");
	expect_message(client, "GPU 0");
	expect_exit(measure(f, USER_ANN, "1", "5"), 0);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--devices", "2",
				"--contexts", "2", "--kernels", "8", NULL);
	expect_exit(client, 0); /* without --devices: those that are hers */
	expect_message(client, "4 measured");
	expect_refused(measure(f, USER_BOB, "1", "5"), "not-allowed");
}

/* --- jobs --- */

SYSTEM_TEST(a_gpu_of_a_job_is_its_owners)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "sharing=shared");
	expect_exit(begin_job(f, USER_SELF, "4711", "1235", "0"), 0);
	client = measure(f, USER_ANN, "0", "5");
	expect_refused(client, "not-allowed");
	expect_message(client, "GPU 0 belongs to job 4711 of uid 1235");
	expect_exit(measure(f, USER_ANN, "1", "5"), 0);
	expect_exit(measure(f, USER_BOB, "0", "5"), 0);
	client = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(client, 0);
	expect_text_soon(client->out, "of job 4711 of uid 1235");
	expect_exit(end_job(f, "4711"), 0);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	client = end_job(f, "4711");
	expect_exit(client, 1);
	expect_message(client, "no job of this name");
}

SYSTEM_TEST(only_root_of_this_machine_states_jobs)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "sharing=exclusive");
	client = begin_job(f, USER_ANN, "1", "1234", "0");
	expect_exit(client, 1);
	expect_message(client, "not-allowed");
	expect_exit(end_job(f, "1"), 1);
}

SYSTEM_TEST(root_of_a_container_states_no_job)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	if (system("unshare --pid --fork true 2>/dev/null") != 0) {
		fixture_skip("needs a pid namespace of its own");
	}
	start_daemon(f, "sharing=exclusive");
	fixture_check_leaks(false);
	client = fixture_run(f, USER_SELF, "/usr/bin/unshare", "--pid", "--fork", CLIENT, "job",
			     "begin", "--job", "1", "--user", "1234", "--devices", "0", NULL);
	expect_exit(client, 1);
	expect_message(client, "not-allowed");
}

SYSTEM_TEST(root_of_a_container_has_no_part_in_jobs)
{
	struct fixture *f = *state;

	fixture_need_root();
	if (system("unshare --pid --fork true 2>/dev/null") != 0) {
		fixture_skip("needs a pid namespace of its own");
	}
	start_daemon(f, "sharing=shared");
	expect_exit(begin_job(f, USER_SELF, "4711", "1235", "0"), 0);
	expect_exit(measure(f, USER_SELF, "0", "5"), 0);
	fixture_check_leaks(false);
	expect_refused(fixture_run(f, USER_SELF, "/usr/bin/unshare", "--pid", "--fork", CLIENT,
				   "--metrics", "memory", "--devices", "0", "--", FAKEAPP,
				   "--kernels", "5", NULL),
		       "not-allowed");
}

SYSTEM_TEST(a_job_ends_the_leases_of_others)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "sharing=exclusive");
	f->violations_expected = true; /* the object is gone under CUPTI's feet */
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--devices", "0", "--", FAKEAPP,
				"--kernels", "800", "--sleep-us", "1000", "--hold", "middle",
				"--exit", "7", NULL);
	fixture_wait_held(f, 1);
	expect_text_soon(f->daemon->err, "permission granted: ");
	expect_exit(begin_job(f, USER_SELF, "4712", "1235", "0"), 0);
	expect_no_owner(f);
	fixture_release(f);
	expect_exit(client, 7);
	expect_output(client, "done 800\n");
	expect_message(client, "error[revoked]");
	expect_message(client, "job 4712");
}

static struct program *trace(struct fixture *f, const char *option, const char *value)
{
	return fixture_client(f, USER_ANN, option, value, "--devices", "0", "--no-summary", "--",
			      FAKEAPP, "--kernels", "1000", "--sleep-us", "1000", "--hold",
			      "middle", "--exit", "7", NULL);
}

/* It leases nothing, but tells what runs there; nor does the sampler's permit outlive it. */
SYSTEM_TEST(a_job_ends_the_traces_of_others)
{
	static const char *const options[][2] = { { "--metrics", "none" }, { "--mode", "sample" } };
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	f->violations_expected = true; /* the object is gone under the sampler's feet */
	setenv("GPUCTR_SAMPLER", TEST_SAMPLER, 1);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		start_daemon(f, "sharing=exclusive");
		client = trace(f, options[i][0], options[i][1]);
		fixture_wait_held(f, 1);
		expect_exit(begin_job(f, USER_SELF, "4712", "1235", "0"), 0);
		expect_text_soon(f->daemon->err, "trace ended: ");
		expect_text_soon(client->err, "no longer measured");
		fixture_release(f);
		expect_exit(client, 7);
		expect_output(client, "done 1000\n");
		expect_message(client, "error[revoked]");
		expect_message(client, "job 4712");
		expect_no_owner(f);
		expect_no_objects(f);
		fixture_stop_daemon(f);
	}
}

SYSTEM_TEST(a_trace_that_only_a_job_allowed_ends_with_it)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "job-owners=yes", NULL);
	expect_exit(begin_job(f, USER_SELF, "4714", "1234", "0"), 0);
	client = trace(f, "--metrics", "none");
	fixture_wait_held(f, 1);
	expect_exit(end_job(f, "4714"), 0);
	expect_text_soon(client->err, "no longer measured");
	fixture_release(f);
	expect_exit(client, 7);
	expect_message(client,
		       "error[revoked]: the trace was ended: the job that had GPU 0 is over");
	assert_int_equal(count_text(f->daemon->err, "trace ended: "), 1);
}

/* The scheduler answers for what else runs there. */
SYSTEM_TEST(a_jobs_owner_need_not_be_alone)
{
	struct fixture *f = *state;
	struct program *bob;

	fixture_need_root();
	start_daemon(f, "sharing=exclusive");
	expect_exit(fixture_run(f, USER_SELF, TEST_FAKECTL, "set", "nvml_auto", "1", NULL), 0);
	bob = fixture_run(f, USER_BOB, FAKEAPP, "--hold", "context", NULL);
	fixture_wait_held(f, 1);
	expect_refused(measure(f, USER_ANN, "0", "5"), "gpu-shared");
	expect_exit(begin_job(f, USER_SELF, "4713", "1234", "0"), 0);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	program_kill(bob, SIGKILL);
}

SYSTEM_TEST(a_job_admits_its_owner_if_the_settings_say_so)
{
	struct fixture *f = *state;

	fixture_need_root();
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_strict_daemon(f, "--set", "job-owners=yes", NULL);
	expect_refused(measure(f, USER_ANN, "0", "5"), "not-allowed");
	expect_exit(begin_job(f, USER_SELF, "4714", "1234", "0"), 0);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	expect_refused(measure(f, USER_ANN, "1", "5"), "not-allowed");
	expect_exit(end_job(f, "4714"), 0);
	expect_refused(measure(f, USER_ANN, "0", "5"), "not-allowed");
}

SYSTEM_TEST(what_only_a_job_allowed_ends_with_it)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	f->violations_expected = true; /* the object is gone under CUPTI's feet */
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_strict_daemon(f, "--set", "job-owners=yes", NULL);
	expect_exit(begin_job(f, USER_SELF, "4717", "1234", "0"), 0);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels",
				"800", "--sleep-us", "1000", "--hold", "middle", "--exit", "7",
				NULL);
	fixture_wait_held(f, 1);
	expect_text_soon(f->daemon->err, "permission granted: ");
	expect_exit(end_job(f, "4717"), 0);
	expect_no_owner(f);
	fixture_release(f);
	expect_exit(client, 7);
	expect_output(client, "done 800\n");
	expect_message(client, "the job that had GPU 0 is over");
}

SYSTEM_TEST(a_job_outlives_the_front)
{
	struct fixture *f = *state;

	fixture_need_root();
	start_daemon(f, "sharing=exclusive");
	expect_exit(begin_job(f, USER_SELF, "4715", "1235", "0"), 0);
	kill(fixture_worker(f, "front"), SIGKILL);
	expect_text_soon(f->daemon->err, "replaced");
	expect_refused(measure(f, USER_ANN, "0", "5"), "not-allowed");
	expect_exit(measure(f, USER_BOB, "0", "5"), 0);
}

/* --- the machine --- */

/* Counters that would tell of others what no setting here can know stay closed. */
SYSTEM_TEST(machines_that_keep_secrets_are_not_measured)
{
	static const char *const machines[][3] = {
		{ "GPUCTR_FAKE_DRIVER", "550.54.14", "550.54.14" },
		{ "GPUCTR_FAKE_DRIVER", "565.56", "565.56" },
		{ "GPUCTR_FAKE_CONFIDENTIAL", "1", "confidential computing is on" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "3", "serves virtual machines" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "4", "serves virtual machines" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "0,4", "GPU 1 serves virtual machines" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		struct program *client;

		setenv(machines[i][0], machines[i][1], 1);
		start_daemon(f, "sharing=shared");
		client = fixture_client(f, USER_ANN, "status", NULL);
		expect_exit(client, 0);
		expect_text_soon(client->out, machines[i][2]);
		client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, NULL);
		expect_refused(client, machines[i][2]);
		assert_int_equal(fixture_counter(f, "profiler_granted"), 0);
		fixture_stop_daemon(f);
		unsetenv(machines[i][0]);
	}
}

/* A GPU that is passed through, or a virtual one, is a guest's own. */
SYSTEM_TEST(their_neighbours_are_measured)
{
	static const char *const machines[][2] = {
		{ "GPUCTR_FAKE_DRIVER", "565.57" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "1" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "2" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		setenv(machines[i][0], machines[i][1], 1);
		start_daemon(f, "sharing=shared");
		expect_exit(measure(f, USER_ANN, "1", "3"), 0);
		fixture_stop_daemon(f);
		unsetenv(machines[i][0]);
	}
}

/* --- rates --- */

SYSTEM_TEST(captures_have_a_rate)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "captures-per-minute=3");
	for (int i = 0; i < 3; i++) {
		expect_exit(measure(f, USER_ANN, "0", "1"), 0);
	}
	client = measure(f, USER_ANN, "0", "1");
	expect_refused(client, "quota");
	expect_message(client, "more than 3 captures within a minute");
	expect_exit(measure(f, USER_BOB, "0", "1"), 0);
}

SYSTEM_TEST(questions_have_a_rate)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "questions-per-minute=3");
	for (int i = 0; i < 3; i++) {
		expect_exit(fixture_client(f, USER_ANN, "metrics", "--fit", "memory", NULL), 0);
	}
	client = fixture_client(f, USER_ANN, "metrics", NULL);
	expect_exit(client, 1);
	expect_message(client, "more than 3 lists of metrics and plans within a minute");
	expect_exit(fixture_client(f, USER_BOB, "metrics", "--fit", "memory", NULL), 0);
}

SYSTEM_TEST(permissions_have_a_rate)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "permissions-per-minute=1");
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	client = measure(f, USER_ANN, "0", "5");
	expect_exit(client, 0); /* the program runs on, unmeasured */
	expect_output(client, "done 5\n");
	expect_message(client, "within a minute");
}

/* --- the audit log --- */

SYSTEM_TEST(every_decision_is_in_the_audit_file)
{
	struct fixture *f = *state;
	char setting[160];
	const char *path = fixture_path(f, "audit");

	fixture_need_root();
	snprintf(setting, sizeof(setting), "audit-file=%s", path);
	start_daemon(f, setting);
	for (int i = 0; i < 3; i++) {
		expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	}
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "nothing__like_it.sum", "--", FAKEAPP,
				   NULL),
		    125);
	expect_exit(begin_job(f, USER_SELF, "4716", "1235", "0"), 0);
	expect_refused(measure(f, USER_ANN, "0", "5"), "not-allowed");
	expect_exit(end_job(f, "4716"), 0);
	expect_no_owner(f);

	assert_int_equal(count_text(path, "\"event\":\"lease-granted\""), 3);
	assert_int_equal(count_text(path, "\"event\":\"lease-ended\""), 3);
	assert_true(fixture_counter(f, "profiler_granted") >= 3);
	assert_int_equal(count_text(path, "\"event\":\"permission-granted\""),
			 fixture_counter(f, "profiler_granted"));
	assert_int_equal(count_text(path, "\"event\":\"refused\""), 2);
	assert_int_equal(count_text(path, "\"status\":\"metric-unknown\""), 1);
	assert_int_equal(count_text(path, "\"status\":\"not-allowed\""), 1);
	assert_int_equal(count_text(path, "\"event\":\"job-begun\""), 1);
	assert_int_equal(count_text(path, "\"event\":\"job-ended\""), 1);
	assert_int_equal(count_text(path, "\"job\":\"4716\""), 2);
}

/* Everybody may connect to this socket, and strangers have as many uids as they like. */
SYSTEM_TEST(strangers_hide_no_refusal_of_users)
{
	enum { STRANGERS = 15, EACH = 60 };
	struct fixture *f = *state;
	CLEAN_FREE char *text = NULL;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-users=1234 1235", NULL);
	for (int i = 0; i < STRANGERS * EACH; i++) {
		raw_expect_refused(raw_connect(f, 5000 + i / EACH), GPUCTR_E_NOT_ALLOWED);
	}
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "nosuch", "--", "true", NULL), 125);
	text = read_file(f->daemon->err);
	assert_non_null(text);
	assert_null(strstr(text, "(uid 5014,"));
	assert_non_null(strstr(text, "(uid 1234,"));
}

SYSTEM_TEST(without_an_audit_file_nothing_is_granted)
{
	struct fixture *f = *state;
	struct program *client;
	char setting[192], folder[96];
	struct settings s;

	fixture_need_root();
	snprintf(folder, sizeof(folder), "%s", fixture_path(f, "log"));
	snprintf(setting, sizeof(setting), "allow-users = *\naudit-file = %s/audit\n", folder);
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	settings_start_daemon(&s, f, setting);
	client = measure(f, USER_ANN, "0", "5");
	expect_refused(client, "error[audit]");
	client = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(client, 0);
	expect_text_soon(client->out, "audit log cannot be written");

	assert_int_equal(mkdir(folder, 0777), 0);
	assert_int_equal(chmod(folder, 0777), 0);
	settings_reload(&s, setting);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	expect_text_soon(f->daemon->err, "the audit log can be written again");
}

/* --- settings that change --- */

/* Its program waits in its middle. */
static struct program *measure_for_long(struct fixture *f, int uid, const char *devices)
{
	return fixture_client(f, uid, "--metrics", "memory", "--devices", devices, "--", FAKEAPP,
			      "--devices", "2", "--kernels", "1000", "--sleep-us", "1000", "--hold",
			      "middle", NULL);
}

/* The settings of that test; returns text. */
static const char *allowing(struct fixture *f, char text[256], const char *who)
{
	snprintf(text, 256, "%s\nsharing = shared\naudit-file = %s\n", who,
		 fixture_path(f, "audit"));
	return text;
}

/* Of two GPUs; Bob keeps the second one a while longer than the first. */
SYSTEM_TEST(who_is_not_allowed_any_more_is_ended)
{
	struct fixture *f = *state;
	struct program *ann, *bob, *waiting;
	char text[256];
	struct settings s;

	fixture_need_root();
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	settings_start_daemon(&s, f, allowing(f, text, "allow-users = 1234, 1235"));
	f->violations_expected = true; /* the object is gone under CUPTI's feet */
	ann = measure_for_long(f, USER_ANN, "0");
	expect_text_soon(f->daemon->err, "permission granted: ");
	waiting = measure_for_long(f, USER_BOB, "0");
	expect_text_soon(waiting->err, "waiting, number 1 in the queue");
	bob = measure_for_long(f, USER_BOB, "1");
	expect_text_soon(f->daemon->err, "of uid 1235 (uid 1235, fakeapp");
	settings_reload(&s, text); /* nothing has changed for them */
	expect_running(ann);
	expect_running(bob);
	expect_running(waiting);

	settings_reload(&s, allowing(f, text, "allow-users = 1234\ngroup-gpus = 1235 1"));
	expect_exit(waiting, 125);
	expect_message(waiting, "error[not-allowed]");
	expect_message(waiting, "uid 1235 may not measure GPU 0");
	expect_running(bob);

	settings_reload(&s, allowing(f, text, "allow-users = 1235"));
	expect_text_soon(ann->err, "no longer measured");
	fixture_wait_held(f, 2);
	fixture_release(f);
	expect_exit(ann, 0);
	expect_output(ann, "done 1000\n");
	expect_message(ann, "error[revoked]");
	expect_message(ann, "uid 1234 may not measure on this machine");
	expect_exit(bob, 0);
	expect_message(bob, "500 measured"); /* the half that runs there */
	expect_no_message(bob, "error[");
	assert_int_equal(count_text(fixture_path(f, "audit"), "\"event\":\"lease-revoked\""), 1);
	assert_int_equal(count_text(fixture_path(f, "audit"), "\"event\":\"refused\""), 1);
}

/* As logrotate does it. */
SYSTEM_TEST(a_rotated_audit_file_is_opened_anew)
{
	struct fixture *f = *state;
	char setting[192], path[96], rotated[112];
	struct settings s;

	fixture_need_root();
	snprintf(path, sizeof(path), "%s", fixture_path(f, "audit"));
	snprintf(rotated, sizeof(rotated), "%s.1", path);
	snprintf(setting, sizeof(setting), "allow-users = *\naudit-file = %s\n", path);
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	settings_start_daemon(&s, f, setting);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	assert_int_equal(rename(path, rotated), 0);
	settings_reload(&s, setting);
	expect_exit(measure(f, USER_ANN, "0", "5"), 0);
	expect_no_owner(f);
	assert_int_equal(count_text(rotated, "\"event\":\"lease-granted\""), 1);
	assert_int_equal(count_text(path, "\"event\":\"lease-granted\""), 1);
}

/* --- names --- */

/* What root's status says of Ann, who has a lease and whose name /etc/passwd does not have. */
static bool status_has(struct fixture *f, const char *text)
{
	struct program *p = fixture_client(f, USER_SELF, "status", NULL);
	CLEAN_FREE char *out = NULL;

	expect_exit(p, 0);
	out = read_file(p->out);
	return out && strstr(out, text);
}

static void hold_as_ann(struct fixture *f, const char *users)
{
	setenv("GPUCTR_FAKE_USER", users, 1);
	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels", "100",
		       "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
}

/* LDAP, say. */
SYSTEM_TEST(a_user_whom_a_name_service_has_has_a_name)
{
	struct fixture *f = *state;
	uint64_t by = now_ms() + PATIENCE_MS;

	fixture_need_two_users();
	hold_as_ann(f, "1234:ann-of-the-directory");
	while (!status_has(f, "ann-of-the-directory")) {
		assert_true(now_ms() < by);
	}
	fixture_release(f);
}

/* What asks it has no more to do with the daemon than that it is its child. */
SYSTEM_TEST(a_name_service_that_hangs_holds_up_nobody)
{
	struct fixture *f = *state;

	fixture_need_two_users();
	hold_as_ann(f, "hang");
	assert_true(status_has(f, "uid 1234"));
	fixture_release(f);
	expect_service_soon(f, PATIENCE_MS);
	assert_true(process_children(f->daemon->pid) <= 5);
	fixture_stop_daemon(f);
}
