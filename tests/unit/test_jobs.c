/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>

#include "daemon/broker/jobs.h"

enum { ANN = 1234, BOB = 1235 };

static void begin(struct jobs *j, const char *name, uid_t uid, uint64_t gpus, uint64_t until_ns)
{
	struct job job = { .uid = uid, .gpus = gpus, .until_ns = until_ns };

	snprintf(job.name, sizeof(job.name), "%s", name);
	assert_int_equal(jobs_begin(j, &job), 0);
}

TEST(gpus_have_one_owner)
{
	struct jobs j = { 0 };

	assert_null(jobs_owner(&j, 0));
	begin(&j, "one", ANN, 3, 0);
	begin(&j, "two", BOB, 4, 0);
	assert_int_equal(jobs_owner(&j, 0)->uid, ANN);
	assert_string_equal(jobs_owner(&j, 2)->name, "two");
	assert_null(jobs_owner(&j, 3));
	assert_null(jobs_owner(&j, 64));
	assert_int_equal(jobs_gpus_of(&j, ANN), 3);
	assert_int_equal(jobs_gpus_of_others(&j, ANN), 4);
	assert_int_equal(jobs_gpus_of_others(&j, 0), 7);
}

TEST(the_last_statement_counts)
{
	struct jobs j = { 0 };

	begin(&j, "one", ANN, 3, 0);
	begin(&j, "two", BOB, 2, 0); /* takes one of its GPUs */
	assert_int_equal(jobs_gpus_of(&j, ANN), 1);
	begin(&j, "two", BOB, 8, 0); /* moves */
	assert_int_equal(jobs_gpus_of(&j, BOB), 8);
	assert_null(jobs_owner(&j, 1));
	begin(&j, "three", BOB, 1, 0); /* takes all that "one" has left */
	assert_false(jobs_end(&j, "one"));
	assert_true(jobs_end(&j, "two"));
	assert_int_equal(jobs_gpus_of(&j, BOB), 1);
}

TEST(time_ends_a_job)
{
	struct jobs j = { 0 };

	begin(&j, "one", ANN, 1, 1000);
	begin(&j, "two", ANN, 2, 0);
	begin(&j, "three", BOB, 4, 999);
	assert_false(jobs_expire(&j, 998));
	assert_true(jobs_expire(&j, 1000)); /* both */
	assert_null(jobs_find(&j, "one"));
	assert_int_equal(jobs_gpus_of(&j, BOB), 0);
	assert_false(jobs_expire(&j, UINT64_MAX));
	assert_int_equal(jobs_gpus_of(&j, ANN), 2);
}

TEST(there_is_an_end_to_it)
{
	struct jobs j = { 0 };
	struct job job = { .name = "more", .uid = ANN };

	for (int i = 0; i < JOBS_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		begin(&j, name, ANN, UINT64_C(1) << i, 0);
	}
	assert_int_equal(jobs_begin(&j, &job), -ENOSPC);
	assert_int_equal(jobs_gpus_of(&j, ANN), UINT64_MAX);
}
