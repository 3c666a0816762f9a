/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/stat.h>

/* Profilers that are not ours, in programs that know nothing of us: with a permit the driver gives
 * them the counters for as long as the lease lasts, and whatever happens to it, they run on to
 * their own result and status. */

/* The driver's restriction is what a permit is for: start() asks whether it can be tested. */
static int setup(void **state)
{
	int r = fixture_setup(state);

	unsetenv("GPUCTR_FAKE_RESTRICTED");
	return r;
}

static void start(struct fixture *f, const char *more)
{
	static char audit[160];

	fixture_need_perfmon();
	snprintf(audit, sizeof(audit), "audit-file=%s", fixture_path(f, "audit"));
	fixture_start_daemon(f, "--set", audit, more ? "--set" : NULL, more, NULL);
}

/* Under way, with the counters. */
static struct program *start_permitted(struct fixture *f, int uid)
{
	struct program *p = fixture_client(f, uid, "permit", "--", TEST_FAKEPROFILER, NULL);

	expect_text_soon(p->out, "counters\n");
	return p;
}

static void end_program(const struct program *p)
{
	kill(fixture_child(p), SIGTERM);
}

static void expect_audit(struct fixture *f, const char *text, size_t n)
{
	size_t found = count_text(fixture_path(f, "audit"), text);

	if (found != n) {
		fail_msg("the audit log has %s %zu times, not %zu", text, found, n);
	}
}

/* --- what it is for --- */

#define PERMIT_TEST(f) TEST_WITH(f, setup, fixture_teardown)

PERMIT_TEST(without_a_permit_the_driver_refuses)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, NULL);
	p = fixture_run(f, USER_ANN, TEST_FAKEPROFILER, "--rounds", "2", NULL);
	expect_exit(p, 7);
	expect_output(p, "refused\ndone - refused\n");
}

PERMIT_TEST(with_one_it_gives_the_counters)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, NULL);
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, "--rounds", "3", NULL);
	expect_exit(p, 7);
	expect_output(p, "counters\ndone granted -\n");
	expect_message(p, "permit for GPU 0");
	expect_no_message(p, "warning");
	expect_no_owner(f);
	expect_audit(f, "\"event\":\"lease-granted\"", 1);
	expect_audit(f, "\"event\":\"lease-ended\"", 1);
	expect_audit(f, "\"event\":\"permission-granted\"", 3);
	expect_audit(f, "fakeprofiler\",\"capture\"", 5); /* each line says for what program */
	expect_audit(f, "\"program\":\"permit: ", 5);
	expect_audit(f, "\"metrics\":[\"permit\",\"", 1); /* and the first one the command */
	expect_audit(f, "fakeprofiler --rounds 3\"]", 1);
}

/* A shell starts it, which is started by another one, and so on. */
PERMIT_TEST(children_have_it_too)
{
	struct fixture *f = *state;
	char line[512];
	struct program *p;
	struct stat st;

	start(f, NULL);
	snprintf(line, sizeof(line), "sh -c '%s --rounds 1; %s --rounds 1; exit 5'",
		 TEST_FAKEPROFILER, TEST_FAKEPROFILER);
	p = fixture_client(f, USER_ANN, "permit", "-q", "sh", "-c", line, NULL);
	expect_exit(p, 5);
	expect_output(p, "counters\ndone granted -\ncounters\ndone granted -\n");
	assert_int_equal(stat(p->err, &st), 0);
	assert_int_equal(st.st_size, 0);
}

/* Where nothing can be preloaded; a profiler without libcuda is not reached so. */
PERMIT_TEST(by_cudas_injection)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, NULL);
	p = fixture_client(f, USER_ANN, "permit", "--inject", "--", TEST_FAKEPROFILER, "--rounds",
			   "2", NULL);
	expect_exit(p, 7);
	expect_output(p, "counters\ndone granted -\n");
	setenv("CUDA_INJECTION64_PATH", "/nowhere", 1);
	p = fixture_client(f, USER_ANN, "permit", "--inject", "--", TEST_FAKEPROFILER, NULL);
	expect_exit(p, 125);
	expect_message(p, "CUDA_INJECTION64_PATH is set already");
	unsetenv("CUDA_INJECTION64_PATH");
}

/* Which answers as ever: this one gives it to everybody. */
PERMIT_TEST(other_classes_go_to_the_driver)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, "device-users=1234");
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, "--device", "--class",
			   "0xb1cc", "--rounds", "1", NULL);
	expect_exit(p, 7);
	expect_output(p, "counters\ndone granted -\n");
	expect_audit(f, "\"event\":\"permission-", 0);
}

/* --- turns and others --- */

PERMIT_TEST(it_waits_its_turn_and_others_wait_for_it)
{
	struct fixture *f = *state;
	struct program *ann, *bob, *status;

	fixture_need_two_users();
	start(f, NULL);
	ann = start_permitted(f, USER_ANN);
	bob = fixture_client(f, USER_BOB, "permit", "--", TEST_FAKEPROFILER, "--rounds", "1", NULL);
	expect_text_soon(bob->err, "waiting, number 1 in the queue");
	expect_message(bob, fixture_user(USER_ANN, " (permit: "));
	expect_output(bob, ""); /* its program has not begun */
	status = fixture_client(f, USER_BOB, "status", NULL);
	expect_exit(status, 0);
	assert_true(count_text(status->out, "permit: ") > 0);
	expect_exit(fixture_client(f, USER_BOB, "permit", "--wait", "0", "true", NULL), 125);
	expect_exit(fixture_client(f, USER_BOB, "permit", "--wait", "0.2", "true", NULL), 125);
	end_program(ann);
	expect_exit(ann, 7);
	expect_exit(bob, 7);
	expect_output(bob, "counters\ndone granted -\n");
}

PERMIT_TEST(a_stranger_ends_it)
{
	struct fixture *f = *state;
	struct program *ann, *bob;

	fixture_need_two_users();
	start(f, NULL);
	bob = fixture_run(f, USER_BOB, "/bin/sleep", "1000", NULL);
	ann = start_permitted(f, USER_ANN);
	fixture_set_process(f, 0, bob->pid);
	expect_text_soon(ann->out, "refused\n");
	expect_text_soon(ann->err, "error[revoked]");
	expect_message(ann, "the permit is over: the command runs on");
	expect_running(ann);
	end_program(ann);
	expect_exit(ann, 7);
	expect_output(ann, "counters\nrefused\ndone granted refused\n");
	expect_no_objects(f);
}

/* --- commands that make it hard --- */

PERMIT_TEST(who_leaves_children_behind_is_told)
{
	struct fixture *f = *state;
	char line[512], *said;
	struct program *p;

	start(f, NULL);
	snprintf(line, sizeof(line),
		 "%s & until grep -q counters /proc/$$/fd/1; do sleep 0.1; done; echo $! >&2; "
		 "exit 5",
		 TEST_FAKEPROFILER);
	p = fixture_client(f, USER_ANN, "permit", "sh", "-c", line, NULL);
	expect_exit(p, 5);
	expect_message(p, "what it started and left running is refused from now on");
	expect_text_soon(p->out, "refused\n"); /* it had them before */
	assert_int_equal(count_text(p->out, "counters\nrefused\n"), 1);
	said = read_file(p->err);
	kill((pid_t)strtol(said + strlen("gpuctr: permit for GPU 0\n"), NULL, 10), SIGTERM);
	free(said);
	expect_text_soon(p->out, "done granted refused\n");
}

PERMIT_TEST(who_closes_descriptors_loses_nothing)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, "device-users=1234");
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, "--device", "--closes",
			   "--rounds", "5", NULL);
	expect_exit(p, 7);
	expect_output(p, "counters\ndone granted -\n");
}

/* It would be killed if it asked. */
PERMIT_TEST(who_has_shut_itself_in_is_left_alone)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, NULL);
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_FAKEPROFILER, "--shut-in", "--rounds",
			   "2", NULL);
	expect_exit(p, 7);
	expect_output(p, "refused\ndone - refused\n");
	expect_message(p, "or shut in by a seccomp filter");
}

PERMIT_TEST(who_asks_for_nothing_is_told)
{
	struct fixture *f = *state;
	struct program *p;

	start(f, NULL);
	p = fixture_client(f, USER_ANN, "permit", "true", NULL);
	expect_exit(p, 0);
	expect_message(p, "no process was given the counters: none asked for them");
}

PERMIT_TEST(wrong_command_lines)
{
	struct fixture *f = *state;

	start(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "permit", NULL), 125);
	expect_exit(fixture_client(f, USER_ANN, "permit", "no-such-program", NULL), 127);
	expect_exit(fixture_client(f, USER_ANN, "permit", "/etc/passwd", NULL), 126);
	expect_exit(fixture_client(f, USER_ANN, "permit", "--wait", "soon", "true", NULL), 125);
	expect_exit(fixture_client(f, USER_ANN, "permit", "--metrics", "memory", "true", NULL),
		    125);
	expect_exit(fixture_client(f, USER_ANN, "permit", "--devices", "7", "true", NULL), 125);
	setenv("GPUCTR_AGENT", "/nowhere/libgpuctr-agent.so", 1);
	expect_exit(fixture_client(f, USER_ANN, "permit", "true", NULL), 125);
	setenv("GPUCTR_AGENT", TEST_AGENT, 1);
}
