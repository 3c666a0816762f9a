/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/on_demand.h"
#include "tests/system/settings.h"

/* What `capture` does when nobody says how: it samples, or says why it does not, and measures every
 * launch. */

static const char sampled[] = "values are SAMPLED", each[] = "every launch is measured";
static const char metric[] = "dram__bytes_read.sum";

static struct program *start(struct fixture *f)
{
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	return p;
}

static struct program *capture_for(struct fixture *f, const struct program *p, const char *seconds,
				   const char *metrics, const char *option, const char *value)
{
	struct program *c =
		fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--duration",
			       seconds, "--metrics", metrics, option, value, NULL);

	expect_exit(c, 0);
	return c;
}

static struct program *capture(struct fixture *f, const struct program *p, const char *metrics,
			       const char *option, const char *value)
{
	return capture_for(f, p, "1", metrics, option, value);
}

/* On a busy machine the program may join when the capture is almost over, so a longer one is tried
 * until it was sampled. */
static struct program *sample(struct fixture *f, const struct program *p, const char *option,
			      const char *value)
{
	static const char *const seconds[] = { "1", "4", "16" };
	struct program *c = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(seconds) && !(c && count_text(c->err, sampled) > 0);
	     i++) {
		c = capture_for(f, p, seconds[i], metric, option, value);
	}
	expect_message(c, sampled);
	return c;
}

static void expect_ranges(struct program *c, const char *why)
{
	char text[400];

	snprintf(text, sizeof(text), "nothing is sampled, because %s", why);
	expect_message(c, text);
	expect_message(c, each);
	expect_no_message(c, sampled);
	assert_int_equal(count_text(c->err, "error["), 0);
	assert_int_equal(count_text(c->err, "warning["), 0);
}

SAMPLING_TEST(a_capture_samples)
{
	struct fixture *f = *state;
	struct program *p = start(f), *c;

	c = sample(f, p, NULL, NULL);
	expect_message(c, "--mode range measures every launch instead");
	c = fixture_client(f, USER_ANN, "capture", "--all", "--duration", "1", NULL);
	expect_exit(c, 0);
	expect_message(c, "sampled each 10.0 us: dram__bytes_read.sum, dram__bytes_write.sum\n");
	c = sample(f, p, "--interval", "50us");
	expect_message(c, "sampled each 50.0 us");
	expect_no_message(c, "instead");
	expect_no_objects(f);
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* What says otherwise: a mode, or a limit to the launches. */
SAMPLING_TEST(others_are_to_be_had)
{
	struct fixture *f = *state;
	struct program *p = start(f), *c;

	c = capture(f, p, metric, "--count", "3");
	expect_message(c, "every launch is measured, because the options limit how many");
	c = capture(f, p, metric, "--mode", "range");
	expect_no_message(c, "because");
	expect_no_message(c, sampled);
	program_kill(p, SIGKILL);
}

/* Whatever refuses it before it has begun. Nothing of it is left in the way of ranges. */
SAMPLING_TEST(what_cannot_be_sampled_has_ranges)
{
	struct fixture *f = *state;
	struct program *p = start(f);

	expect_ranges(capture(f, p, "sm__cycles_active.avg", NULL, NULL),
		      "sm__cycles_active.avg is no sum over time");
	expect_ranges(capture(f, p, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "--wait",
			      "0"),
		      "CUPTI cannot sample smsp__sass");
	fixture_use_sampler(f, "#!/bin/sh\nexit 3\n");
	expect_ranges(capture(f, p, metric, "--wait", "0"), "the sampler of GPU GPU-");
	fixture_use_sampler(
		f, "#!/bin/sh\necho nonsense, and long enough to be no message of a sampler\n");
	expect_ranges(capture(f, p, metric, "--wait", "0"), "the sampler has written nonsense");
	setenv("GPUCTR_SAMPLER", "/nowhere/gpuctr-sampler", 1);
	expect_ranges(capture(f, p, metric, NULL, NULL), "gpuctr-sampler is not there");
	program_kill(p, SIGKILL);
	expect_no_objects(f);
}

/* Without a duration, for three steps of the program, which has eight kernels with 97 grids. */
SAMPLING_TEST(what_cannot_be_sampled_is_measured_for_whole_steps)
{
	struct fixture *f = *state;
	struct program *p = start(f), *c;

	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--metrics",
			   "sm__cycles_active.avg", NULL);
	expect_exit(c, 0);
	expect_message(c, "every launch of 3 whole steps is measured instead; --duration");
	expect_message(c, "a step: 776 launches that recur");
	expect_message(c, "2,328 measured");
	expect_running(p);
	program_kill(p, SIGKILL);
}

SAMPLING_TEST(parts_of_gpus_are_not_sampled)
{
	static const struct {
		const char *fail, *why, *remedy;
	} rows[] = {
		{ "cuptiPmSamplingEnable:0:43",
		  "this GPU is divided by MIG, and samples are of a whole GPU",
		  "switch MIG off (nvidia-smi -mig 0)" },
		{ "cuptiPmSamplingEnable:0:33", "this GPU (GH100) is a virtual one (vGPU)",
		  "enable_profiling" },
		{ "cuptiPmSamplingEnable:0:40", "this GPU (GH100) is a virtual one (vGPU)",
		  "enable_profiling" },
	};
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setenv("GPUCTR_FAKE_FAIL", rows[i].fail, 1);
		c = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", metric, "--",
				   FAKEAPP, NULL);
		expect_exit(c, 125);
		expect_message(c, rows[i].why);
		expect_message(c, rows[i].remedy);
		expect_message(c, "--mode range measures every launch instead");
		p = on_demand_start(f, USER_ANN);
		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		c = capture_for(f, p, "3", metric, NULL, NULL);
		expect_ranges(c, rows[i].why);
		expect_message(c, " kernels seen in 1 process: ");
		expect_running(p);
		program_kill(p, SIGKILL);
		expect_no_objects(f);
	}
}

/* Nobody knows who else runs there, so nothing but a trace is to be had, and that is told once. */
SAMPLING_TEST(parts_of_gpus_are_nobodys_own)
{
	static const char *const sharing[] = { "sharing=exclusive", "sharing=shared" };
	struct fixture *f = *state;
	struct program *p, *c;

	setenv("GPUCTR_FAKE_MIG", "1", 1);
	for (size_t i = 0; i < ARRAY_SIZE(sharing); i++) {
		fixture_start_daemon(f, "--set", sharing[i], NULL);
		p = on_demand_start(f, USER_ANN);
		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--duration",
				   "1", NULL);
		expect_exit(c, 125);
		assert_int_equal(count_text(c->err, "error[gpu-shared]: GPU 0 is divided by MIG "
						    "(Fake H200 MIG 1g.18gb)"),
				 1);
		expect_message(c, "switch MIG off (nvidia-smi -mig 0)");
		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					   "--duration", "1", "--mode", "trace", NULL),
			    0);
		expect_running(p);
		program_kill(p, SIGKILL);
		fixture_stop_daemon(f);
	}
	c = fixture_run(f, USER_ANN, TEST_SAMPLER, "--metrics", metric, NULL);
	expect_exit(c, 12);
	expect_message(c,
		       "Fake H200 MIG 1g.18gb is divided by MIG, and samples are of a whole GPU");
}

/* Whoever uses the other one is not refused. */
SAMPLING_TEST(another_gpu_may_be_divided)
{
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	setenv("GPUCTR_FAKE_MIG", "2", 1);
	fixture_start_daemon(f, NULL);
	p = on_demand_start_listed(f, USER_ANN);
	sample(f, p, "--devices", "0");
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* A policy that gives whole GPUs to nobody. */
SAMPLING_TEST(who_may_not_sample_has_ranges)
{
	struct fixture *f = *state;
	struct settings s;
	struct program *p;

	fixture_need_perfmon();
	unsetenv("GPUCTR_FAKE_RESTRICTED");
	settings_start_daemon(&s, f, "allow-users = *\nsharing = shared\n");
	p = on_demand_start_listed(f, USER_ANN);
	expect_ranges(capture(f, p, metric, NULL, NULL), "process ");
	program_kill(p, SIGKILL);
	expect_no_objects(f);
}

/* The program is a stranger's to samples of a whole GPU that are another's. */
SAMPLING_TEST(an_operator_has_ranges)
{
	struct fixture *f = *state;
	struct settings s;
	struct program *p, *c;

	fixture_need_root();
	settings_start_daemon(&s, f, "allow-users = *\noperator-captures = yes\n");
	p = on_demand_start_listed(f, USER_ANN);
	fixture_set_process(f, 0, p->pid);
	c = fixture_client(f, USER_SELF, "capture", "--pid", on_demand_pid(p), "--duration", "1",
			   NULL);
	expect_exit(c, 0);
	expect_ranges(c, "uid 1234 (pid ");
	program_kill(p, SIGKILL);
}

/* What refuses ranges as well is told once, and a wrong name is no reason for them. */
SAMPLING_TEST(what_nothing_can_measure_is_refused_once)
{
	struct fixture *f = *state;
	struct program *p = start(f), *holder, *c;

	holder = fixture_client(f, USER_ANN, "--metrics", metric, "--", FAKEAPP, "--hold", "middle",
				NULL);
	fixture_wait_held(f, 1);
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--wait", "0", NULL);
	expect_exit(c, 125);
	assert_int_equal(count_text(c->err, "error[gpu-busy]"), 1);
	fixture_release(f);
	expect_exit(holder, 0);
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--metrics",
			   "no__such.sum", NULL);
	expect_exit(c, 125);
	assert_int_equal(count_text(c->err, "error[metric-unknown]"), 1);
	expect_no_message(c, each);
	program_kill(p, SIGKILL);
}

/* The GPU that the program uses, and not the other one, whose counters somebody holds. */
SAMPLING_TEST(the_gpus_that_programs_use_are_sampled)
{
	struct fixture *f = *state;
	struct program *p, *holder, *c;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	p = start(f);
	fixture_set_process(f, 0, p->pid);
	holder = fixture_client(f, USER_ANN, "--devices", "1", "--metrics", metric, "--", FAKEAPP,
				"--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	c = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--mode", "sample",
			   "--duration", "1", "--wait", "0", NULL);
	expect_exit(c, 0);
	expect_message(c, "GPU 0, sampled each 10.0 us");
	expect_no_message(c, "on GPUs without samples");
	fixture_release(f);
	expect_exit(holder, 0);
	program_kill(p, SIGKILL);
}
