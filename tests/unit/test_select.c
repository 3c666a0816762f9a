/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stddef.h>
#include <stdio.h>

#include "client/cli/select.h"

/* Which registered processes a command line means: each selector from both sides. */

static const char *const of_slurm[] = { "SLURM_JOB_ID=1234", "SLURM_STEP_ID=0", "SLURM_PROCID=3" };
static const char *const of_array[] = { "SLURM_JOB_ID=77", "SLURM_ARRAY_JOB_ID=70",
					"SLURM_ARRAY_TASK_ID=7" };
static const char *const of_pbs[] = { "PBS_JOBID=9.head" };

static const struct gpuctr_registered_process slurm = { .process = 1,
							.pid = 4711,
							.uid = 1001,
							.user = "ann",
							.program = "python3",
							.claims = of_slurm,
							.n_claims = ARRAY_SIZE(of_slurm) },
					      array = { .process = 2,
							.pid = 4712,
							.uid = 1001,
							.user = "ann",
							.program = "python3.11",
							.claims = of_array,
							.n_claims = ARRAY_SIZE(of_array) },
					      pbs = { .process = 3,
						      .pid = 471,
						      .uid = 1002,
						      .user = "bob",
						      .program = "a.out",
						      .claims = of_pbs,
						      .n_claims = ARRAY_SIZE(of_pbs) },
					      none = { .process = 4,
						       .pid = 1,
						       .uid = 1001,
						       .user = "ann",
						       .program = "init" };

/* Which of the four match, as a mask. */
static unsigned matching(const struct selector *s)
{
	return (unsigned)selector_matches(s, &slurm) | (unsigned)selector_matches(s, &array) << 1 |
	       (unsigned)selector_matches(s, &pbs) << 2 | (unsigned)selector_matches(s, &none) << 3;
}

static void expect_list(size_t offset, const char *list, unsigned expected)
{
	struct selector s = { 0 };

	assert_true(strings_add_list((struct strings *)((char *)&s + offset), list));
	assert_false(selector_is_empty(&s));
	if (matching(&s) != expected) {
		fail_msg("%s matches %u, not %u", list, matching(&s), expected);
	}
	selector_deinit(&s);
}

TEST(jobs_are_what_a_process_says)
{
	size_t jobs = offsetof(struct selector, jobs);

	expect_list(jobs, "1234", 1);
	expect_list(jobs, "1234.0", 1);
	expect_list(jobs, "1234.1", 0);
	expect_list(jobs, "123", 0);
	expect_list(jobs, "77", 2);
	expect_list(jobs, "70", 2);
	expect_list(jobs, "70_7", 2);
	expect_list(jobs, "70_8", 0);
	expect_list(jobs, "70_", 0);
	expect_list(jobs, "9.head", 4);
	expect_list(jobs, "1234,9.head", 5);
}

TEST(programs_are_globs)
{
	size_t programs = offsetof(struct selector, programs);

	expect_list(programs, "python3", 1);
	expect_list(programs, "python3*", 3);
	expect_list(programs, "ython3", 0);
}

TEST(all_is_everything_and_nothing_is_empty)
{
	const struct selector all = { .all = true }, empty = { .all = false };

	assert_true(selector_is_empty(&empty));
	assert_false(selector_is_empty(&all));
	assert_int_equal(matching(&all), 15);
}

/* Another user's process is meant by who names it, and by root. */
TEST(everything_is_of_ones_own)
{
	struct gpuctr_registered_process bobs = pbs;
	struct selector all = { .all = true }, roots = { .all = true, .everybodys = true },
			pid = { .all = true };

	bobs.foreign = true;
	assert_true(strings_add_list(&pid.pids, "471"));
	assert_false(selector_matches(&all, &bobs));
	assert_true(selector_matches(&roots, &bobs));
	assert_true(selector_matches(&pid, &bobs));
	selector_deinit(&pid);
}

TEST(a_job_is_shown_as_it_is_asked_for)
{
	char text[64];

	selector_job(&slurm, text, sizeof(text));
	assert_string_equal(text, "1234.0");
	selector_job(&pbs, text, sizeof(text));
	assert_string_equal(text, "9.head");
	selector_job(&none, text, sizeof(text));
	assert_string_equal(text, "");
}

/* What a process says of its number counts among those of its own container. */
TEST(a_pid_is_what_the_user_sees)
{
	static const char *const of_container[] = { "PID=7", "PID_NAMESPACE=4026532000" };
	static const char *const of_liar[] = { "PID=4711", "PID_NAMESPACE=4026531836" };
	struct gpuctr_registered_process p = { .pid = 52007,
					       .claims = of_container,
					       .n_claims = 2 };

	assert_int_equal(selector_pid_in(&p, 4026532000), 7);
	assert_int_equal(selector_pid_in(&p, 4026532001), 52007); /* another container's */
	assert_int_equal(selector_pid_in(&p, 4026531836), 52007); /* outside */
	assert_int_equal(selector_pid_in(&p, 0), 52007);
	p.claims = of_liar;
	assert_int_equal(selector_pid_in(&p, 4026531836), 52007);
	p.n_claims = 0; /* of an older agent */
	assert_int_equal(selector_pid_in(&p, 4026532000), 52007);
}

/* As the client on a node is told: the other jobs of the array have clients of their own. */
TEST(an_exact_job_is_no_array)
{
	static const char *const first[] = { "SLURM_JOB_ID=70", "SLURM_ARRAY_JOB_ID=70",
					     "SLURM_ARRAY_TASK_ID=8" };
	static const char *const part[] = { "SLURM_JOB_ID=91", "SLURM_HET_JOB_ID=90" };
	const struct gpuctr_registered_process last = { .claims = first, .n_claims = 3 },
					       component = { .claims = part, .n_claims = 2 };
	struct selector s = { 0 };

	assert_true(strings_add_list(&s.jobs, "70"));
	assert_true(selector_matches(&s, &array));
	assert_true(selector_matches(&s, &last));
	s.exact = true;
	assert_false(selector_matches(&s, &array));
	assert_true(selector_matches(&s, &last));
	selector_deinit(&s);
	s = (struct selector){ 0 };
	assert_true(strings_add_list(&s.jobs, "90"));
	assert_true(selector_matches(&s, &component));
	s.exact = true;
	assert_false(selector_matches(&s, &component));
	selector_deinit(&s);
}

struct named {
	const char *claims[3];
	const char *shown;    /* by status, and as --job takes it */
	const char *names[4]; /* of --job that mean it too */
	const char *others[4];
};

static void expect_named(const struct named *n, const char *name, bool expected)
{
	const struct gpuctr_registered_process p = { .claims = n->claims,
						     .n_claims = n->claims[1] ? 2 : 1 };
	struct selector s = { 0 };

	assert_true(strings_add_list(&s.jobs, name));
	if (selector_matches(&s, &p) != expected) {
		fail_msg("--job %s: %s", name, n->shown);
	}
	selector_deinit(&s);
}

/* Each process by every name that its schedulers and we give it, and by none of another's. */
TEST(a_job_has_the_names_that_it_is_shown_by)
{
	static const struct named all[] = {
		{ { "SLURM_JOB_ID=78" }, "78.batch", { "78" }, { "78.0", "7", "78.", "78.b" } },
		{ { "SLURM_JOB_ID=78", "SLURM_STEP_ID=4294967291" },
		  "78.batch",
		  { "78", "78.4294967291" },
		  { "78.interactive", "78.0" } },
		{ { "SLURM_JOB_ID=78", "SLURM_STEP_ID=4294967290" },
		  "78.interactive",
		  { "78", "78.4294967290" },
		  { "78.batch", "78.0" } },
		{ { "SLURM_JOB_ID=78", "SLURM_STEP_ID=4294967292" },
		  "78.extern",
		  { "78" },
		  { "78.batch" } },
		{ { "SLURM_JOB_ID=78", "SLURM_STEP_ID=1" },
		  "78.1",
		  { "78" },
		  { "78.batch", "78.11" } },
		{ { "LSB_JOBID=78", "LSB_JOBINDEX=4" },
		  "78[4]",
		  { "78" },
		  { "78[5]", "78[4", "78[44]", "78.batch" } },
		{ { "LSB_JOBID=78", "LSB_JOBINDEX=0" }, "78", { "78" }, { "78[0]" } },
		{ { "PBS_JOBID=78[4].head", "LSB_JOBINDEX=9" }, "78[4].head", { NULL }, { "78" } },
		{ { "GPUCTR_JOB=train" }, "train", { NULL }, { "train.batch", "train[4]" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct named *n = &all[i];
		const struct gpuctr_registered_process p = { .claims = n->claims,
							     .n_claims = n->claims[1] ? 2 : 1 };
		char text[64];

		selector_job(&p, text, sizeof(text));
		assert_string_equal(text, n->shown);
		expect_named(n, n->shown, true);
		for (size_t k = 0; k < ARRAY_SIZE(n->names) && n->names[k]; k++) {
			expect_named(n, n->names[k], true);
		}
		for (size_t k = 0; k < ARRAY_SIZE(n->others) && n->others[k]; k++) {
			expect_named(n, n->others[k], false);
		}
	}
}
