/* SPDX-License-Identifier: Apache-2.0 */

/* When nobody knows what a process ran on its GPUs: the times that are noted, of which no kernel is
 * given what was sampled. */

#include "tests/unit/unit.h"

#include "client/cli/unseen.h"

enum { GPUS = 2, NOTED_MOST = 8 };
#define SECOND INT64_C(1000000000)
#define BEGIN (INT64_C(1700000000) * SECOND)

static const struct gpuctr_device devices[GPUS] = { { .index = 0, .uuid = "GPU-0" },
						    { .index = 1, .uuid = "GPU-1" } };

static struct store_unknown noted[NOTED_MOST];
static size_t n_noted;
static int64_t last_ns; /* of the samples */

static void on_unknown(void *user, const struct store_unknown *unknown)
{
	(void)user;
	assert_true(n_noted < NOTED_MOST);
	noted[n_noted++] = *unknown;
}

static int64_t last_sample(void *user, const char *gpu)
{
	(void)user;
	assert_true(strncmp(gpu, "GPU-", 4) == 0);
	return last_ns;
}

static struct unseen u;

/* Two processes on two GPUs, of which nothing has come. */
static int setup(void **state)
{
	(void)state;
	n_noted = 0;
	last_ns = BEGIN;
	u = (struct unseen){ .on_unknown = on_unknown, .last_sample = last_sample };
	for (unsigned i = 1; i <= 2; i++) {
		unseen_process(&u, &(struct gpuctr_process){
					   .process = i, .devices = devices, .n_devices = GPUS });
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unseen_deinit(&u);
	return 0;
}

static void end_process(unsigned process, bool clean, uint64_t lost, int64_t now_ns)
{
	unseen_process_end(&u,
			   &(struct gpuctr_process_end){
				   .process = process, .totals = { .lost = lost }, .clean = clean },
			   now_ns);
}

static void expect(size_t i, const char *gpu, int64_t start_ns, int64_t end_ns)
{
	assert_true(i < n_noted);
	assert_string_equal(noted[i].gpu, gpu);
	assert_int_equal(noted[i].start_ns, start_ns);
	assert_int_equal(noted[i].end_ns, end_ns);
}

#define UNSEEN_TEST(f) TEST_WITH(f, setup, teardown)

UNSEEN_TEST(of_processes_that_told_all_nothing_is_noted)
{
	last_ns = BEGIN + 9 * SECOND;
	end_process(1, true, 0, BEGIN + 5 * SECOND);
	end_process(2, true, 0, BEGIN + 9 * SECOND);
	unseen_finish(&u);
	assert_int_equal(n_noted, 0);
}

/* One that was killed, for as long as a count may be behind. */
UNSEEN_TEST(one_that_was_killed)
{
	unseen_ran(&u, 1, 0, BEGIN + 2 * SECOND);
	unseen_ran(&u, 1, 1, BEGIN + 5 * SECOND - 1);
	end_process(1, false, 0, BEGIN + 5 * SECOND);
	assert_int_equal(n_noted, GPUS);
	expect(0, "GPU-0", BEGIN + 4 * SECOND, BEGIN + 5 * SECOND);
	expect(1, "GPU-1", BEGIN + 5 * SECOND - 1, BEGIN + 5 * SECOND);
	end_process(1, false, 0, BEGIN + 6 * SECOND); /* once */
	assert_int_equal(n_noted, GPUS);
}

UNSEEN_TEST(one_whose_last_count_is_old)
{
	const struct gpuctr_process_end end = { .process = 2,
						.uncounted_ns = 3 * (uint64_t)SECOND };

	unseen_process_end(&u, &end, BEGIN + 7 * SECOND);
	expect(0, "GPU-0", BEGIN + 4 * SECOND, BEGIN + 7 * SECOND);
}

/* Since its last kernel, or since it began where there was none. */
UNSEEN_TEST(one_of_which_kernels_are_lost)
{
	unseen_ran(&u, 2, 1, BEGIN + 2 * SECOND);
	unseen_ran(&u, 2, 1, BEGIN + SECOND); /* another stream's */
	end_process(2, true, 3, BEGIN + 9 * SECOND);
	assert_int_equal(n_noted, GPUS);
	expect(0, "GPU-0", BEGIN, BEGIN + 9 * SECOND);
	expect(1, "GPU-1", BEGIN + 2 * SECOND, BEGIN + 9 * SECOND);
}

/* Nobody has heard of the end of one; more where launches are on their way. */
UNSEEN_TEST(one_without_an_end)
{
	for (unsigned undelivered = 0; undelivered < 2; undelivered++) {
		n_noted = 0;
		last_ns = BEGIN;
		unseen_deinit(&u);
		setup(state);
		last_ns = BEGIN + 9 * SECOND;
		unseen_ran(&u, 2, 0, BEGIN + 2 * SECOND);
		end_process(1, true, 0, last_ns);
		unseen_progress(&u, &(struct gpuctr_totals){ .seen = 10 + undelivered,
							     .measured = 10 });
		unseen_finish(&u);
		assert_int_equal(n_noted, GPUS);
		expect(0, "GPU-0", BEGIN + (undelivered ? 4 : 8) * SECOND, last_ns);
	}
}

/* The last kernel may end behind the last sample: no time is left to be noted. */
UNSEEN_TEST(no_time_without_samples_is_noted)
{
	last_ns = BEGIN + SECOND;
	end_process(1, true, 0, last_ns);
	unseen_ran(&u, 2, 0, last_ns + 1);
	unseen_ran(&u, 2, 1, last_ns - 1);
	unseen_finish(&u);
	assert_int_equal(n_noted, 1);
	expect(0, "GPU-1", last_ns - 1, last_ns);
}
