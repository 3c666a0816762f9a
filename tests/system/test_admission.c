/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <unistd.h>

/* What an administrator, a scheduler and the machine decide. tests/unit/test_front_policy.c has the
 * decisions one by one. */

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

/* --- jobs --- */

SYSTEM_TEST(jobs_are_stated_and_shown)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_root();
	start_daemon(f, "sharing=shared");
	expect_exit(begin_job(f, USER_SELF, "4711", "1235", "0"), 0);
	client = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(client, 0);
	expect_text_soon(client->out, "of job 4711 of uid 1235");
	client = begin_job(f, USER_ANN, "1", "1234", "0");
	expect_exit(client, 1);
	expect_message(client, "not-allowed");
	expect_exit(end_job(f, "4711"), 0);
	client = end_job(f, "4711");
	expect_exit(client, 1);
	expect_message(client, "no job of this name");
}

static struct program *trace(struct fixture *f, const char *option, const char *value)
{
	return fixture_client(f, USER_ANN, option, value, "--devices", "0", "--quiet", "--",
			      FAKEAPP, "--kernels", "1000", "--sleep-us", "1000", "--hold",
			      "middle", "--exit", "7", NULL);
}

/* Their leases, and their traces, which lease nothing, but tell what runs there. */
SYSTEM_TEST(a_job_ends_the_captures_of_others)
{
	static const char *const options[][2] = { { "--mode", "trace" },
						  { "--metrics", "memory" },
						  { "--mode", "sample" } };
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
		expect_text_soon(f->daemon->err, i == 1 ? "lease revoked: " : "trace ended: ");
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

/* Counters that would tell of others what no setting here can know stay closed. A GPU that is
 * passed through, or a virtual one, is a guest's own. */
SYSTEM_TEST(machines_that_keep_secrets_are_not_measured)
{
	static const struct {
		const char *variable, *value, *why; /* NULL: it is measured */
	} machines[] = {
		{ "GPUCTR_FAKE_DRIVER", "550.54.14", "550.54.14" },
		{ "GPUCTR_FAKE_DRIVER", "565.56.99", "565.56.99" },
		{ "GPUCTR_FAKE_DRIVER", "565.57", NULL },
		{ "GPUCTR_FAKE_DRIVER", "566.03", NULL },
		{ "GPUCTR_FAKE_DRIVER", "1000.1", NULL },
		{ "GPUCTR_FAKE_CONFIDENTIAL", "1", "confidential computing is on" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "1", NULL },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "2", NULL },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "3", "serves virtual machines" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "4", "serves virtual machines" },
		{ "GPUCTR_FAKE_VIRTUALIZATION", "0,4", "GPU 1 serves virtual machines" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		uint64_t granted = fixture_counter(f, "profiler_granted");
		struct program *client;

		setenv(machines[i].variable, machines[i].value, 1);
		start_daemon(f, "sharing=shared");
		client = measure(f, USER_ANN, "1", "3");
		if (!machines[i].why) {
			expect_exit(client, 0);
		} else {
			expect_refused(client, machines[i].why);
			client = fixture_client(f, USER_ANN, "status", NULL);
			expect_exit(client, 0);
			expect_text_soon(client->out, machines[i].why);
			assert_int_equal(fixture_counter(f, "profiler_granted"), granted);
		}
		fixture_stop_daemon(f);
		unsetenv(machines[i].variable);
	}
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

	fixture_need_two_users();
	hold_as_ann(f, "1234:ann-of-the-directory");
	wait_until(status_has(f, "ann-of-the-directory"));
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
