/* SPDX-License-Identifier: Apache-2.0 */
#define __CUDA_API_VERSION_INTERNAL

#include "tests/unit/unit.h"

#include "client/agent/arguments.h"

#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

#include <gpuctr/gpuctr.h>

/* What is read of a call's arguments. */

#define STREAM ((CUstream)0x1230)

static void expect_stream(CUpti_CallbackId id, const void *params, bool per_thread)
{
	CUstream stream = NULL;
	bool own = !per_thread;

	assert_true(arguments_read_stream(id, params, &stream, &own));
	assert_ptr_equal(stream, STREAM);
	assert_true(own == per_thread);
}

TEST(the_stream_of_a_copy_or_fill)
{
	const cuMemcpyHtoDAsync_v2_params up = { 1, NULL, 64, STREAM };
	const cuMemcpyDtoHAsync_v2_ptsz_params down = { NULL, 1, 64, STREAM };
	const cuMemsetD8Async_params fill = { 1, 7, 64, STREAM };
	const cuMemsetD32Async_ptsz_params wide = { 1, 7, 64, STREAM };

	expect_stream(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, &up, false);
	expect_stream(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz, &down, true);
	expect_stream(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, &fill, false);
	expect_stream(CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz, &wide, true);
}

/* A call that waits for the host, or for a value, is another matter. */
TEST(other_calls_have_no_known_stream)
{
	const cuStreamWaitValue32_v2_params wait = { .stream = STREAM };
	CUstream stream;
	bool own;

	assert_false(arguments_read_stream(CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32_v2, &wait,
					   &stream, &own));
}

static uint8_t kind_with(CUlaunchAttributeID id, int value)
{
	CUlaunchAttribute attributes[] = {
		{ .id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1 },
		{ .id = id, .value.cooperative = value },
	};
	const CUlaunchConfig config = { .attrs = attributes, .numAttrs = ARRAY_SIZE(attributes) };
	const cuLaunchKernelEx_params params = { .config = &config };
	struct arguments a;

	assert_true(arguments_read(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &params, &a));
	return a.kind;
}

TEST(a_launch_may_be_cooperative_by_an_attribute)
{
	assert_int_equal(kind_with(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1), GPUCTR_LAUNCH_COOPERATIVE);
	assert_int_equal(kind_with(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0), GPUCTR_LAUNCH_KERNEL);
	assert_int_equal(kind_with(CU_LAUNCH_ATTRIBUTE_PRIORITY, 1), GPUCTR_LAUNCH_KERNEL);
}
