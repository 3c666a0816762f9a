/* SPDX-License-Identifier: Apache-2.0 */

/* A table of boards, by CUDA's name of the device: multiprocessors and width of the memory bus.
 * They are from NVIDIA's data sheets and product briefs, those of the B200 from CUDA's device
 * attributes, because its data sheet has no bus width. A bus transfers two bits per wire and memory
 * clock; that gives the bandwidth of each data sheet (tests/unit/test_peaks.c compares them).
 *
 * The whole name must match, because a MIG slice ("NVIDIA H200 MIG 1g.18gb") and a virtual GPU
 * ("NVIDIA A10-8Q") have only a part of the board in their name. The peaks of a device that is not
 * in the table are unknown. */

#include "client/report/peaks.h"

#include <string.h>

/* Floating-point operations per cycle of one multiprocessor's tensor cores, with sums in fp32, from
 * NVIDIA's white papers. 0: not supported, or unknown. The first matching line counts. */
static const struct rate {
	const char *chip; /* beginning of the chip's name */
	unsigned flop[PEAKS_PRECISIONS];
} rates[] = {
	{ "GV100", { 1024 } },
	{ "TU", { 1024 } },
	{ "GA100", { 2048, 1024 } },
	{ "GA10", { 1024, 512 } },
	{ "AD", { 1024, 512, 2048 } },
	{ "GH100", { 4096, 2048, 8192 } },
	{ "GB100", { 8192, 4096, 16384 } },
};

static const struct board {
	const char *name; /* without "NVIDIA " or "Tesla " */
	unsigned multiprocessors, bus_bits;
} boards[] = {
	{ "B200", 148, 7680 },
	{ "GH200 480GB", 132, 6144 },
	{ "GH200 144G HBM3e", 132, 6144 },
	{ "H200", 132, 6144 },
	{ "H200 NVL", 132, 6144 },
	{ "H100 80GB HBM3", 132, 5120 },
	{ "H100 NVL", 132, 6016 },
	{ "H100 PCIe", 114, 5120 },
	{ "L40S", 142, 384 },
	{ "L40", 142, 384 },
	{ "L4", 58, 192 },
	{ "A100-SXM4-80GB", 108, 5120 },
	{ "A100-SXM4-40GB", 108, 5120 },
	{ "A100 80GB PCIe", 108, 5120 },
	{ "A100-PCIE-80GB", 108, 5120 },
	{ "A100-PCIE-40GB", 108, 5120 },
	{ "A30", 56, 3072 },
	{ "A40", 84, 384 },
	{ "A10", 72, 384 },
	{ "A10G", 80, 384 },
	{ "RTX A6000", 84, 384 },
	{ "RTX 6000 Ada Generation", 142, 384 },
	{ "GeForce RTX 4090", 128, 384 },
	{ "GeForce RTX 3090", 82, 384 },
	{ "V100-SXM2-16GB", 80, 4096 },
	{ "V100-SXM2-32GB", 80, 4096 },
	{ "V100-PCIE-16GB", 80, 4096 },
	{ "V100-PCIE-32GB", 80, 4096 },
	{ "T4", 40, 256 },
};

/* Skips "NVIDIA " or "Tesla ", which some drivers leave out. */
static const char *skip_maker(const char *name)
{
	static const char *const makers[] = { "NVIDIA ", "Tesla " };

	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		size_t n = strlen(makers[i]);

		if (strncmp(name, makers[i], n) == 0) {
			return name + n;
		}
	}
	return name;
}

static const struct board *find_board(const char *name)
{
	for (size_t i = 0; name && i < sizeof(boards) / sizeof(boards[0]); i++) {
		if (strcmp(skip_maker(name), boards[i].name) == 0) {
			return &boards[i];
		}
	}
	return NULL;
}

unsigned peaks_multiprocessors(const struct gpuctr_device *device)
{
	const struct board *board = find_board(device->name);

	return board ? board->multiprocessors : 0;
}

double peaks_bytes_a_ns(const struct gpuctr_device *device)
{
	const struct board *board = find_board(device->name);

	return board ? 2.0 * device->clock_mem_mhz * 1e-3 * board->bus_bits / 8 : 0;
}

/* GeForce boards have half the rate of their chips if sums are fp32. */
double peaks_flop_a_ns(const struct gpuctr_device *device, enum peaks_precision precision)
{
	const struct board *board = find_board(device->name);

	if (!board || !device->chip || strncmp(board->name, "GeForce", 7) == 0) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (strncmp(device->chip, rates[i].chip, strlen(rates[i].chip)) == 0) {
			return 1e-3 * device->clock_sm_mhz * board->multiprocessors *
			       rates[i].flop[precision];
		}
	}
	return 0;
}

const char *peaks_precision_name(enum peaks_precision precision)
{
	static const char *const names[PEAKS_PRECISIONS] = {
		[PEAKS_HALF] = "bf16 and fp16", [PEAKS_TF32] = "tf32", [PEAKS_FP8] = "fp8"
	};

	return names[precision];
}
