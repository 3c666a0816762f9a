/* SPDX-License-Identifier: Apache-2.0 */

/* What a capture file keeps of samples and copies, up to its bounds. Nothing is written: the first
 * block is never full. */

#include "tests/unit/unit.h"

#include "client/cli/kept.h"

static const double value = 1;
static const struct kept_sample sample = { "GPU-0", 10000, 100, 200, &value };
static const struct gpuctr_copy copy = { .process = 1, .start_ns = 100, .duration_ns = 50 };

static void samples_end_at_their_bound(void **state)
{
	struct kept k = { .n_metrics = 1, .numbers = KEPT_NUMBERS_MAX - 2 };

	(void)state;
	assert_int_equal(kept_sample(&k, NULL, &sample), 0);
	assert_int_equal(kept_sample(&k, NULL, &sample), 0);
	assert_int_equal(kept_copy(&k, NULL, &copy), 0);
	assert_int_equal(k.gpus[0].block.n, 1);
	assert_int_equal(k.n_copies, 1);
	assert_int_equal(k.unkept, 1);
	kept_deinit(&k);
}

/* Samples without the copies that ran in them would be divided among kernels alone. */
static void samples_end_with_copies(void **state)
{
	struct kept k = { .n_metrics = 1, .all_copies = KEPT_COPIES_MAX - 1 };

	(void)state;
	assert_int_equal(kept_copy(&k, NULL, &copy), 0);
	assert_int_equal(kept_sample(&k, NULL, &sample), 0);
	assert_int_equal(k.unkept, 0);
	assert_int_equal(kept_copy(&k, NULL, &copy), 0);
	assert_int_equal(kept_sample(&k, NULL, &sample), 0);
	assert_int_equal(k.n_copies, 1);
	assert_int_equal(k.gpus[0].block.n, 1);
	assert_int_equal(k.unkept, 2);
	kept_deinit(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_end_at_their_bound),
		cmocka_unit_test(samples_end_with_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
