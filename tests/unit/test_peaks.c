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

static void boards_have_the_peaks_of_their_data_sheets(void **state)
{
	(void)state;
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

/* A part of a board has neither its memory nor its multiprocessors. */
static void parts_of_boards_and_others_have_none(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct gpuctr_device d = { .name = names[i], .clock_mem_mhz = 3201 };

		assert_true(peaks_bytes_a_ns(&d) == 0);
		assert_int_equal(peaks_multiprocessors(&d), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boards_have_the_peaks_of_their_data_sheets),
		cmocka_unit_test(parts_of_boards_and_others_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
