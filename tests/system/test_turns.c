/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <unistd.h>

#include "tests/system/settings.h"

/* Who may measure, and when: policy, the queue, leases. */

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

static void wait_asleep(const struct program *p)
{
	pid_t client = process_child(p->pid, NULL); /* of a shell, or none */

	wait_until(process_is_asleep(client > 0 ? client : p->pid));
}

static void expect_told(struct program *p, bool told, const char *remedy)
{
	expect_text_soon(p->err, "waiting, number ");
	if (told) {
		expect_text_soon(p->err, BESIDE);
		expect_text_soon(p->err, remedy);
	} else { /* it follows before the client waits for the daemon again */
		wait_asleep(p);
		expect_no_message(p, BESIDE);
		expect_no_message(p, remedy);
	}
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
