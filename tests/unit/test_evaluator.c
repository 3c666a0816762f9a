/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>

#include "client/replay/evaluator.h"

/* The child that evaluates, for whose CUPTI the test stands. */

enum { SMALL = 1000, LARGE = 3 << 20, VALUE = 7 };

static uint8_t image[LARGE];

static CUptiResult give_value(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
	p->pMetricValues[0] = VALUE + p->pCounterDataImage[p->counterDataImageSize - 1];
	return CUPTI_SUCCESS;
}

static CUptiResult count_one(CUpti_RangeProfiler_GetCounterDataInfo_Params *p)
{
	p->numTotalRanges = 1;
	return CUPTI_SUCCESS;
}

static CUptiResult name_nothing(CUpti_Profiler_Host_GetRangeName_Params *p)
{
	(void)p;
	return CUPTI_ERROR_INVALID_PARAMETER;
}

static const struct vendor_host cupti = {
	.cuptiProfilerHostEvaluateToGpuValues = give_value,
	.cuptiProfilerHostGetRangeName = name_nothing,
	.cuptiRangeProfilerGetCounterDataInfo = count_one,
};
static const struct host host = { .v = &cupti };
static const char *const metrics[] = { "metric" };
static const uint32_t first = 0;
static const double one = 1;
static const struct wire_column column = { .metric = { 1, &first }, .weight = { 1, &one } };
static const struct wire_plan plan = { .metrics = { 1, metrics }, .columns = { 1, &column } };

static void expect_the_value(struct evaluator *e, size_t size)
{
	const struct batch b = { .n = 1, .image = image, .image_size = size };
	double value = 0;
	bool measured;
	size_t n;

	assert_int_equal(evaluator_batch(e, &b, &value, &measured, &n), 0);
	assert_true(value == VALUE + image[size - 1]);
	assert_true(measured && n == 1);
}

/* As a child that hangs in CUPTI: it does not hear that nobody asks it any more. */
TEST(a_child_that_hears_nothing_is_ended)
{
	struct evaluator e;
	pid_t child;

	image[SMALL - 1] = 1;
	image[LARGE - 1] = 2;
	evaluator_init(&e, &host, &plan);
	expect_the_value(&e, SMALL);
	child = e.child;
	assert_true(child > 0);
	assert_int_equal(kill(child, SIGSTOP), 0);
	expect_the_value(&e, LARGE); /* another one, which knows the larger memory */
	assert_true(e.child > 0 && e.child != child);
	assert_true(kill(child, 0) < 0 && errno == ESRCH);
	child = e.child;
	assert_int_equal(kill(child, SIGSTOP), 0);
	evaluator_deinit(&e);
	assert_true(kill(child, 0) < 0 && errno == ESRCH);
}
