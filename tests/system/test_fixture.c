/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/fixture.h"

/* What the tests themselves stand on: where their programs lie, and that
 * nothing is left of them. */

/* Through a link in a folder of mode 0700, which root alone can follow. */
static const char *close_build(const struct fixture *f)
{
	const char *folder = fixture_path(f, "closed"), *build = fixture_path(f, "closed/build");

	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(symlink(TEST_BUILD, build), 0);
	return build;
}

SYSTEM_TEST(a_closed_clone_is_tested_as_well)
{
	struct fixture *f = *state;
	struct program *client;
	const char *build;
	char path[256];

	fixture_need_root();
	build = close_build(f);
	snprintf(path, sizeof(path), "%s/tests/fake/fakeapp", build);
	expect_exit(fixture_run(f, USER_ANN, path, NULL), 122); /* else the test shows nothing */
	built_close();
	assert_int_equal(built_open(build), 0);
	setenv("GPUCTR_AGENT", TEST_AGENT, 1);
	setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels", "5",
				NULL);
	expect_exit(client, 0);
	expect_message(client, "5 measured");
}

SYSTEM_TEST(copies_go_with_the_tests)
{
	struct fixture *f = *state;
	char copy[256];

	fixture_need_root();
	built_close();
	assert_int_equal(built_open(close_build(f)), 0);
	snprintf(copy, sizeof(copy), "%s", TEST_DAEMON);
	assert_int_equal(access(copy, X_OK), 0);
	built_close();
	assert_int_equal(access(copy, F_OK), -1);
	assert_int_equal(access(TEST_BUILD "/daemon/gpucountd", F_OK), 0);
	assert_int_equal(built_open(TEST_BUILD), 0);
}

/* In a test of its own, which says when it stands. */
static void stop_daemon_and_wait(int told)
{
	struct fixture *f;

	if (fixture_setup((void **)&f) < 0) {
		_exit(1);
	}
	fixture_start_daemon(f, NULL);
	kill(fixture_worker(f, "front"), SIGSTOP);
	kill(fixture_worker(f, "granter"), SIGSTOP);
	kill(f->daemon->pid, SIGSTOP);
	if (write(told, f->folder, sizeof(f->folder)) < 0) {
		_exit(1);
	}
	for (;;) {
		pause();
	}
}

/* What is left of a test that has ended comes to us, who adopt, its keeper as well. True: nothing
 * is, within a while. */
static bool is_all_gone(void)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (process_children(getpid()) > 0 && now_ms() < by) {
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
		sleep_ms(5);
	}
	return process_children(getpid()) == 0;
}

SYSTEM_TEST(an_interrupted_test_leaves_no_stopped_daemon)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		char folder[sizeof(((struct fixture *)NULL)->folder)];
		int ends[2], status;
		pid_t pid;

		assert_int_equal(pipe(ends), 0);
		pid = fork();
		if (pid == 0) {
			stop_daemon_and_wait(ends[1]);
		}
		close(ends[1]);
		assert_int_equal(read(ends[0], folder, sizeof(folder)), sizeof(folder));
		close(ends[0]);
		kill(pid, signals[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
		assert_true(is_all_gone());
		assert_int_equal(access(folder, F_OK), -1);
	}
}

/* Whom nobody asks cannot tidy up: its keeper does. */
SYSTEM_TEST(a_killed_test_leaves_nothing)
{
	char folder[sizeof(((struct fixture *)NULL)->folder)];
	int ends[2];
	pid_t pid;

	fixture_need_root(); /* an ordinary user's daemon ends with its test without a keeper */
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		stop_daemon_and_wait(ends[1]);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], folder, sizeof(folder)), sizeof(folder));
	close(ends[0]);
	assert_int_equal(access(folder, F_OK), 0);
	kill(pid, SIGKILL);
	assert_true(is_all_gone());
	assert_int_equal(access(folder, F_OK), -1);
}
