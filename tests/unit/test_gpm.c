/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "daemon/gpu/activity.h"
#include "proto/base/clock.h"

/* An NVML whose samples are numbers that count up, and whose metrics are made of them and their
 * ids. The second GPU has none. */

static int next_sample, failing_sample, failing_metrics, n_allocated;
static unsigned unknown_id;

static int find(const char *uuid, void **ret)
{
	static int gpus[2];

	*ret = &gpus[uuid[4] - '0'];
	gpus[1] = 1;
	return 0;
}

static int support(void *device, struct vendor_nvml_gpm_support *ret)
{
	assert_int_equal(ret->version, 1);
	ret->supported = *(int *)device == 0;
	return 0;
}

static int alloc_sample(void **ret)
{
	static int samples[8];

	*ret = &samples[n_allocated++];
	return 0;
}

static int sample(void *device, void *ret)
{
	*(int *)ret = ++next_sample;
	return failing_sample;
}

static int metrics(struct vendor_nvml_gpm_metrics *m)
{
	assert_int_equal(m->version, 1);
	assert_int_equal(*(int *)m->now, *(int *)m->before + 1);
	for (unsigned i = 0; i < m->n; i++) {
		m->metrics[i].value = m->metrics[i].id * 100 + *(int *)m->now;
		m->metrics[i].result = m->metrics[i].id == unknown_id ? 3 : 0;
	}
	return failing_metrics;
}

static const char *error_string(int result)
{
	return result == 15 ? "GPU is lost" : "Unknown Error";
}

static struct device_list list = {
	.nvml = { .device_by_uuid = find,
		  .error_string = error_string,
		  .gpm_support = support,
		  .gpm_alloc = alloc_sample,
		  .gpm_sample = sample,
		  .gpm_metrics = metrics },
	.devices = { { .uuid = "GPU-0" }, { .uuid = "GPU-1" } },
	.n = 2,
};

static struct activity *take(uint64_t at_s)
{
	static struct activity a;

	if (at_s == 0) {
		a = (struct activity){ 0 };
		next_sample = failing_sample = failing_metrics = n_allocated = 0;
		unknown_id = 0;
	}
	activity_take(&a, &list, (100 + at_s) * CLOCK_NS_PER_S);
	return &a;
}

TEST(values_are_of_the_last_two_samples)
{
	struct activity *a = take(0);

	assert_string_equal(a->gpus[0].why, "the first seconds are not over");
	unknown_id = 61;
	for (int i = 1; i < 4; i++) {
		a = take((uint64_t)i * 5);
		assert_string_equal(a->gpus[0].why, "");
		assert_int_equal(a->gpus[0].value.over_ns, 5 * CLOCK_NS_PER_S);
		assert_true(a->gpus[0].value.sm_pct == 201 + i);
		assert_true(a->gpus[0].value.tensor_pct == 501 + i);
		assert_true(a->gpus[0].value.dram_pct == 1001 + i);
		assert_true(a->gpus[0].value.pcie_sent == (2001 + i) * 1048576.0);
		assert_true(a->gpus[0].value.pcie_received == (2101 + i) * 1048576.0);
		assert_true(isnan(a->gpus[0].value.nvlink_sent));
		assert_true(a->gpus[0].value.nvlink_received == (6001 + i) * 1048576.0);
	}
	assert_int_equal(n_allocated, 2);
	assert_string_equal(a->gpus[1].why, "NVML samples GPUs of Hopper and newer alone");
}

TEST(a_question_that_comes_soon_takes_no_sample)
{
	take(0);
	take(5);
	take(5);
	assert_int_equal(next_sample, 2);
}

TEST(what_fails_is_said_and_tried_again_with_a_new_pair)
{
	struct activity *a;

	take(0);
	failing_metrics = 15;
	a = take(5);
	assert_string_equal(a->gpus[0].why, "nvmlGpmMetricsGet: GPU is lost (15)");
	failing_metrics = 0;
	failing_sample = 999;
	a = take(10);
	assert_string_equal(a->gpus[0].why, "nvmlGpmSampleGet: Unknown Error (999)");
	failing_sample = 0;
	a = take(15);
	assert_string_equal(a->gpus[0].why, "the first seconds are not over");
	a = take(20);
	assert_string_equal(a->gpus[0].why, "");
	assert_int_equal(a->gpus[0].value.over_ns, 5 * CLOCK_NS_PER_S);
}

TEST(an_older_nvml_has_none_of_it)
{
	static struct device_list old = { .nvml = { .device_by_uuid = find },
					  .devices = { { .uuid = "GPU-0" } },
					  .n = 1 };
	struct activity a = { 0 };

	activity_take(&a, &old, 1);
	assert_string_equal(a.gpus[0].why, "this driver's NVML does not sample GPUs");
}
