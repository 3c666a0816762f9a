/* SPDX-License-Identifier: Apache-2.0 */

/* What is recorded of samples and copies. Nothing is written: the first block is never full. */

#include "tests/unit/unit.h"

#include "client/cli/kept.h"
#include "proto/base/clock.h"

static const double value = 1;

static int add(struct kept *k, const char *gpu, int64_t start_ns, int64_t end_ns)
{
	return kept_sample(k, NULL, &(struct kept_sample){ gpu, 10000, start_ns, end_ns, &value });
}

TEST(samples_end_at_their_bound)
{
	struct kept k = { .n_metrics = 1, .numbers = KEPT_NUMBERS_MAX - 2 };

	assert_int_equal(add(&k, "GPU-0", 100, 200), 0);
	assert_int_equal(add(&k, "GPU-0", 200, 300), 0);
	assert_int_equal(kept_copy(&k, NULL,
				   &(struct gpuctr_copy){
					   .process = 1, .start_ns = 100, .duration_ns = 50 }),
			 0);
	assert_int_equal(k.gpus[0].block.n, 1);
	assert_int_equal(k.n_copies, 1);
	assert_int_equal(k.unkept, 1);
	kept_deinit(&k);
}

/* A block holds times of one GPU in their order, and no others. */
TEST(samples_of_no_time_are_counted)
{
	struct kept k = { .n_metrics = 1 };

	add(&k, "GPU-0", 1000, 2000);
	add(&k, "GPU-0", 1999, 3000); /* of which others are */
	add(&k, "GPU-1", 500, 1500);
	add(&k, "GPU-0", 2000, 2000);
	add(&k, "GPU-0", -5, 5000);
	add(&k, "GPU-0", 3000, CLOCK_NS_MOST + 1);
	add(&k, "GPU-0", 2000, 3000);
	assert_int_equal(k.gpus[0].block.n, 2);
	assert_int_equal(k.gpus[1].block.n, 1);
	assert_int_equal(k.bad, 4);
	assert_int_equal(k.unkept, 0);
	kept_deinit(&k);
}
