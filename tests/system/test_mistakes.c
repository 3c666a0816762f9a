/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <sys/stat.h>
#include <unistd.h>

/* What a newcomer does wrong in the first hour. Each is answered with the cause, and with the
 * remedy in the same line or in the next one. */

/* The cause is found in a line of what the client said, and the remedy in that line or the next. */
static void expect_told(struct program *client, const char *cause, const char *remedy)
{
	CLEAN_FREE char *text = read_file(client->err);
	char *at, *end;

	expect_message(client, cause);
	at = strstr(text, cause);
	end = strchrnul(at, '\n');
	end = *end ? strchrnul(end + 1, '\n') : end;
	*end = '\0';
	if (!strstr(at, remedy)) {
		fail_msg("the remedy '%s' is not in '%s'", remedy, at);
	}
}

/* And nothing else is said: the program was not started. */
static void expect_refused_in_two_lines(struct program *client, int status, const char *cause,
					const char *remedy)
{
	expect_exit(client, status);
	expect_output(client, "");
	expect_told(client, cause, remedy);
	assert_true(count_text(client->err, "\n") <= 2);
}

SYSTEM_TEST(no_daemon)
{
	struct fixture *f = *state;

	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "--socket", "/nonexistent/socket",
						   "--", FAKEAPP, NULL),
				    125, "error[no-daemon]", "systemctl");
}

SYSTEM_TEST(not_in_the_group)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	assert_int_equal(chmod(f->socket, 0), 0);
	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "--", FAKEAPP, NULL), 125,
				    "error[not-allowed]: uid ", "ask the administrator");
}

SYSTEM_TEST(a_wrong_metric)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "--metrics", "dram_bytes_read.sum",
						   "--", FAKEAPP, NULL),
				    125, "error[metric-unknown]", "dram__bytes_read.sum");
}

SYSTEM_TEST(no_cuda_in_the_program)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--", "/bin/true", NULL);
	expect_exit(client, 0);
	expect_told(client, "No process of the program used CUDA", "finds a GPU");
}

SYSTEM_TEST(no_python_before_a_script)
{
	struct fixture *f = *state;

	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "net.py", NULL), 127,
				    "net.py is a script", "gpuctr-client python3 net.py");
}

SYSTEM_TEST(a_file_in_place_of_a_program)
{
	struct fixture *f = *state;

	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "run.gpuctr", NULL), 127,
				    "run.gpuctr is a capture file and no program",
				    "gpuctr-client report run.gpuctr");
}

/* The client sees a shell, and not that it plays a recording, on a machine without a GPU. */
SYSTEM_TEST(a_recording_without_recorded)
{
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_GPUS", "0", 1);
	fixture_start_daemon(f, NULL);
	expect_refused_in_two_lines(fixture_client(f, USER_SELF, "--", "/bin/sh", "-c",
						   "gpuctr-replay run.gpuctr", NULL),
				    125, "error[no-gpu]",
				    "A recording needs no GPU: add --recorded");
}

SYSTEM_TEST(a_full_disk)
{
	struct fixture *f = *state;
	char command[768];
	struct program *client;

	fixture_start_daemon(f, NULL);
	snprintf(command, sizeof(command),
		 "ulimit -Sf 300; exec %s -o %s -- /bin/bash -c "
		 "'ulimit -Sf unlimited; exec %s --kernels 60000'",
		 CLIENT, fixture_path(f, "run.gpuctr"), FAKEAPP);
	client = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
	expect_exit(client, 0);
	expect_output(client, "done 60000\n");
	expect_told(client, "warning[store-full]", "ulimit -f");
}

SYSTEM_TEST(another_users_lease)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_BOB, "--", FAKEAPP, "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "--wait", "0", "--", FAKEAPP, NULL),
				    125, "error[gpu-busy]", "--wait");
}

SYSTEM_TEST(too_many_passes)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_refused_in_two_lines(fixture_client(f, USER_ANN, "--raw", "-o",
						   fixture_path(f, "run.gpuctr"), "--metrics",
						   "dram__*.sum,lts__t_*.sum", "--", FAKEAPP, NULL),
				    125, "error[too-many-passes]", "remedy: ");
}
