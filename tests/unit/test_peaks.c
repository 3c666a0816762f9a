/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/report/peaks.h"

/* Bandwidths in GB/s as the data sheets round them, and the memory clocks that CUDA tells. */
static const struct {
	const char *name;
	unsigned clock_mem_mhz, multiprocessors;
	double gb_per_second;
} known[] = {
	{ "NVIDIA B200", 3996, 148, 7700 },
	{ "NVIDIA GH200 480GB", 2619, 132, 4000 },
	{ "NVIDIA GH200 144G HBM3e", 3201, 132, 4900 },
	{ "NVIDIA H200", 3201, 132, 4900 },
	{ "NVIDIA H100 80GB HBM3", 2619, 132, 3350 },
	{ "NVIDIA H100 NVL", 2619, 132, 3938 },
	{ "NVIDIA H100 PCIe", 1593, 114, 2039 },
	{ "NVIDIA L40S", 9001, 142, 864 },
	{ "NVIDIA L4", 6251, 58, 300 },
	{ "NVIDIA A100-SXM4-80GB", 1593, 108, 2039 },
	{ "A100-SXM4-40GB", 1215, 108, 1555 },
	{ "NVIDIA A100 80GB PCIe", 1512, 108, 1935 },
	{ "NVIDIA A30", 1215, 56, 933 },
	{ "NVIDIA A40", 7251, 84, 696 },
	{ "NVIDIA A10", 6251, 72, 600 },
	{ "NVIDIA RTX A6000", 8001, 84, 768 },
	{ "NVIDIA GeForce RTX 4090", 10501, 128, 1008 },
	{ "Tesla V100-SXM2-32GB", 877, 80, 900 },
	{ "Tesla T4", 5001, 40, 320 },
};

TEST(boards_have_the_peaks_of_their_data_sheets)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct gpuctr_device d = { .name = known[i].name,
					   .clock_mem_mhz = known[i].clock_mem_mhz };
		double want = known[i].gb_per_second, got = peaks_bytes_a_ns(&d);

		if (got < want * 0.98 || got > want * 1.02) {
			fail_msg("%s: %g GB/s, not %g", known[i].name, got, want);
		}
		assert_int_equal(peaks_multiprocessors(&d), known[i].multiprocessors);
	}
}

/* Dense TFLOP/s of the data sheets, at the clocks for which they hold. */
TEST(tensor_cores_have_the_peaks_of_their_data_sheets)
{
	static const struct {
		struct gpuctr_device device;
		double half, tf32, fp8;
	} chips[] = {
		{ { .name = "NVIDIA H200", .chip = "GH100", .clock_sm_mhz = 1830 },
		  989,
		  495,
		  1979 },
		{ { .name = "NVIDIA H100 PCIe", .chip = "GH100", .clock_sm_mhz = 1620 },
		  756,
		  378,
		  1513 },
		{ { .name = "NVIDIA A100-SXM4-80GB", .chip = "GA100", .clock_sm_mhz = 1410 },
		  312,
		  156,
		  0 },
		{ { .name = "NVIDIA A10", .chip = "GA102", .clock_sm_mhz = 1695 }, 125, 62.5, 0 },
		{ { .name = "NVIDIA L4", .chip = "AD104", .clock_sm_mhz = 2040 }, 121, 60, 242 },
		{ { .name = "Tesla V100-SXM2-16GB", .chip = "GV100", .clock_sm_mhz = 1530 },
		  125,
		  0,
		  0 },
		{ { .name = "Tesla T4", .chip = "TU104", .clock_sm_mhz = 1590 }, 65, 0, 0 },
		{ { .name = "NVIDIA GeForce RTX 4090", .chip = "AD102", .clock_sm_mhz = 2520 },
		  0,
		  0,
		  0 },
		{ { .name = "NVIDIA H200 MIG 1g.18gb", .chip = "GH100", .clock_sm_mhz = 1980 },
		  0,
		  0,
		  0 },
	};

	for (size_t i = 0; i < sizeof(chips) / sizeof(chips[0]); i++) {
		const double want[] = { chips[i].half, chips[i].tf32, chips[i].fp8 };

		for (int k = 0; k < PEAKS_PRECISIONS; k++) {
			double got =
				peaks_flop_a_ns(&chips[i].device, (enum peaks_precision)k) / 1e3;

			if (got < want[k] * 0.98 || got > want[k] * 1.02) {
				fail_msg("%s, %d: %g TFLOP/s, not %g", chips[i].device.name, k, got,
					 want[k]);
			}
		}
	}
}

/* A part of a board has neither its memory nor its multiprocessors. */
TEST(parts_of_boards_and_others_have_none)
{
	static const char *const names[] = { "NVIDIA H200 MIG 1g.18gb",
					     "NVIDIA A100-SXM4-80GB MIG 7g.80gb",
					     "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
					     "NVIDIA A10-8Q",
					     "GRID T4-16C",
					     "NVIDIA H200X",
					     "NVIDIA",
					     "",
					     "something new" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct gpuctr_device d = { .name = names[i], .clock_mem_mhz = 3201 };

		assert_true(peaks_bytes_a_ns(&d) == 0);
		assert_int_equal(peaks_multiprocessors(&d), 0);
	}
}
