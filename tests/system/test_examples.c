/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <stdlib.h>

#include "tests/system/on_demand.h"

/* The examples of the library do what they say. */

#define EXAMPLE(name) built_path("tests/system/" name)

/* Steps 2 and 3 of five, 30 kernels each. */
SYSTEM_TEST(a_training_measures_two_of_its_steps)
{
	struct fixture *f = *state;
	struct program *p;
	CLEAN_FREE char *out = NULL;
	unsigned long kernels = 0;
	double bytes = 0;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", EXAMPLE("example_training"), NULL);
	expect_exit(p, 0);
	out = read_file(p->out);
	if (sscanf(out, "%lu kernels, %lf bytes", &kernels, &bytes) != 2) {
		fail_msg("%s", out);
	}
	assert_int_equal(kernels, 60);
	assert_true(bytes > 0);
}

SYSTEM_TEST(a_job_manager_captures_a_job)
{
	struct fixture *f = *state;
	struct program *p, *m;
	CLEAN_FREE char *out = NULL;
	unsigned long kernels = 0, processes = 0;

	fixture_start_daemon(f, NULL);
	setenv("SLURM_JOB_ID", "1234", 1);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "400000",
			   "--sleep-us", "500", NULL);
	unsetenv("SLURM_JOB_ID");
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	m = fixture_run(f, USER_ANN, EXAMPLE("example_job_manager"), "1234", NULL);
	expect_exit(m, 0);
	out = read_file(m->out);
	if (sscanf(out, "%lu processes, %lu kernels", &processes, &kernels) != 2) {
		fail_msg("%s", out);
	}
	assert_int_equal(processes, 1);
	assert_true(kernels > 0);
	expect_running(p);
	program_kill(p, SIGKILL);
	m = fixture_run(f, USER_ANN, EXAMPLE("example_job_manager"), "4321", NULL);
	expect_exit(m, 1);
}

static void expect_line(struct program *p, const char *line)
{
	CLEAN_FREE char *out = read_file(p->out);

	if (!strstr(out, line)) {
		fail_msg("'%s' is not in: %s", line, out);
	}
}

/* It has its own status and output; and the capture ends with it, whether a process joined or not.
 */
SYSTEM_TEST(a_program_is_started_within_a_capture)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_run(f, USER_ANN, EXAMPLE("example_run_program"), FAKEAPP, "--kernels", "40",
			"--exit", "3", NULL);
	expect_exit(p, 3);
	expect_line(p, "done 40");
	expect_line(p, "40 kernels read ");
	p = fixture_run(f, USER_ANN, EXAMPLE("example_run_program"), FAKEAPP, "--no-cuda", NULL);
	expect_exit(p, 0);
	expect_line(p, "it never used CUDA");
	p = fixture_run(f, USER_ANN, EXAMPLE("example_run_program"), "/nonexistent", NULL);
	expect_exit(p, 127);
	expect_service(f, PATIENCE_MS);
	fixture_stop_daemon(f);
	p = fixture_run(f, USER_ANN, EXAMPLE("example_run_program"), FAKEAPP, NULL);
	expect_exit(p, 125);
	expect_output(p, "");
	expect_message(p, "no gpucountd answers");
}
