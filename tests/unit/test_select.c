/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

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
						      .container = "0123abcd",
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
	struct selector s = { .user = NULL };

	assert_true(strings_add_list((struct strings *)((char *)&s + offset), list));
	assert_false(selector_is_empty(&s));
	if (matching(&s) != expected) {
		fail_msg("%s matches %u, not %u", list, matching(&s), expected);
	}
	selector_deinit(&s);
}

static void pids_are_whole_numbers(void **state)
{
	size_t pids = offsetof(struct selector, pids);

	(void)state;
	expect_list(pids, "4711", 1);
	expect_list(pids, "471", 4);
	expect_list(pids, "4711,4712", 3);
	expect_list(pids, "47", 0);
}

static void jobs_are_what_a_process_says(void **state)
{
	size_t jobs = offsetof(struct selector, jobs);

	(void)state;
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

static void programs_are_globs(void **state)
{
	size_t programs = offsetof(struct selector, programs);

	(void)state;
	expect_list(programs, "python3", 1);
	expect_list(programs, "python3*", 3);
	expect_list(programs, "ython3", 0);
}

static void containers_are_known_by_how_their_ids_begin(void **state)
{
	size_t containers = offsetof(struct selector, containers);

	(void)state;
	expect_list(containers, "0123", 4);
	expect_list(containers, "0123abcd", 4);
	expect_list(containers, "0123abcde", 0);
	expect_list(containers, "123", 0);
	expect_list(containers, "ff,01", 4);
}

static void users_have_names_and_numbers(void **state)
{
	const struct selector ann = { .user = "ann" }, number = { .user = "1002" },
			      nobody = { .user = "100" };

	(void)state;
	assert_int_equal(matching(&ann), 1 | 2 | 8);
	assert_int_equal(matching(&number), 4);
	assert_int_equal(matching(&nobody), 0);
}

static void selectors_are_joined_by_and(void **state)
{
	struct selector s = { .user = "ann" };

	(void)state;
	assert_true(strings_add_list(&s.programs, "python3*"));
	assert_true(strings_add_list(&s.jobs, "77"));
	assert_int_equal(matching(&s), 2);
	selector_deinit(&s);
}

static void all_is_everything_and_nothing_is_empty(void **state)
{
	const struct selector all = { .all = true }, empty = { .all = false };

	(void)state;
	assert_true(selector_is_empty(&empty));
	assert_false(selector_is_empty(&all));
	assert_int_equal(matching(&all), 15);
}

/* Another user's process is meant by who names it, or its user. */
static void everything_is_of_ones_own(void **state)
{
	struct gpuctr_registered_process bobs = pbs;
	struct selector all = { .all = true }, of_user = { .all = true, .user = "bob" },
			pid = { .all = true }, tree = { .all = true };

	(void)state;
	bobs.foreign = true;
	assert_true(strings_add_list(&pid.pids, "471"));
	assert_true(strings_add_list(&tree.trees, "471"));
	assert_false(selector_matches(&all, &bobs));
	assert_true(selector_matches(&of_user, &bobs));
	assert_true(selector_matches(&pid, &bobs));
	assert_true(selector_matches(&tree, &bobs));
	selector_deinit(&pid);
	selector_deinit(&tree);
}

/* A child of a child is of the tree, its parents' other children are not. */
static void a_tree_is_a_process_and_what_comes_from_it(void **state)
{
	struct gpuctr_registered_process p = { .pid = (uint32_t)getpid(),
					       .user = "",
					       .program = "" };
	struct selector of_us = { .user = NULL }, of_child = { .user = NULL };
	char text[32];
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		pause();
		_exit(0);
	}
	snprintf(text, sizeof(text), "%d", getpid());
	assert_true(strings_add_list(&of_us.trees, text));
	snprintf(text, sizeof(text), "%d", child);
	assert_true(strings_add_list(&of_child.trees, text));
	assert_true(selector_matches(&of_us, &p));
	assert_false(selector_matches(&of_child, &p));
	p.pid = (uint32_t)child;
	assert_true(selector_matches(&of_us, &p));
	assert_true(selector_matches(&of_child, &p));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	selector_deinit(&of_us);
	selector_deinit(&of_child);
}

static void a_job_is_shown_as_it_is_asked_for(void **state)
{
	char text[64];

	(void)state;
	selector_job(&slurm, text, sizeof(text));
	assert_string_equal(text, "1234.0");
	selector_job(&pbs, text, sizeof(text));
	assert_string_equal(text, "9.head");
	selector_job(&none, text, sizeof(text));
	assert_string_equal(text, "");
}

/* What a process says of its number counts among those of its own container. */
static void a_pid_is_what_the_user_sees(void **state)
{
	static const char *const of_container[] = { "PID=7", "PID_NAMESPACE=4026532000" };
	static const char *const of_liar[] = { "PID=4711", "PID_NAMESPACE=4026531836" };
	struct gpuctr_registered_process p = { .pid = 52007,
					       .claims = of_container,
					       .n_claims = 2 };

	(void)state;
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
static void an_exact_job_is_no_array(void **state)
{
	static const char *const first[] = { "SLURM_JOB_ID=70", "SLURM_ARRAY_JOB_ID=70",
					     "SLURM_ARRAY_TASK_ID=8" };
	static const char *const part[] = { "SLURM_JOB_ID=91", "SLURM_HET_JOB_ID=90" };
	const struct gpuctr_registered_process last = { .claims = first, .n_claims = 3 },
					       component = { .claims = part, .n_claims = 2 };
	struct selector s = { .user = NULL };

	(void)state;
	assert_true(strings_add_list(&s.jobs, "70"));
	assert_true(selector_matches(&s, &array));
	assert_true(selector_matches(&s, &last));
	s.exact = true;
	assert_false(selector_matches(&s, &array));
	assert_true(selector_matches(&s, &last));
	selector_deinit(&s);
	s = (struct selector){ .user = NULL };
	assert_true(strings_add_list(&s.jobs, "90"));
	assert_true(selector_matches(&s, &component));
	s.exact = true;
	assert_false(selector_matches(&s, &component));
	selector_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exact_job_is_no_array),
		cmocka_unit_test(pids_are_whole_numbers),
		cmocka_unit_test(jobs_are_what_a_process_says),
		cmocka_unit_test(programs_are_globs),
		cmocka_unit_test(containers_are_known_by_how_their_ids_begin),
		cmocka_unit_test(users_have_names_and_numbers),
		cmocka_unit_test(selectors_are_joined_by_and),
		cmocka_unit_test(all_is_everything_and_nothing_is_empty),
		cmocka_unit_test(everything_is_of_ones_own),
		cmocka_unit_test(a_tree_is_a_process_and_what_comes_from_it),
		cmocka_unit_test(a_job_is_shown_as_it_is_asked_for),
		cmocka_unit_test(a_pid_is_what_the_user_sees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
