/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A made-up capture: one process, one device, N_KERNELS kernels with names as a deep-learning
 * framework has them, an NVTX stack of four, three metrics. Everything follows from the index, so
 * that a test knows what to expect. */

#include <stdio.h>
#include <string.h>

#include <gpuctr/gpuctr.h>

#include "tests/unit/made_site.h"

enum {
	SYNTHETIC_KERNELS = 200,
	SYNTHETIC_STEPS = 64, /* distinct outer ranges */
	SYNTHETIC_DEPTH = 4,
	SYNTHETIC_RANGES = SYNTHETIC_STEPS * SYNTHETIC_DEPTH,
	SYNTHETIC_COLUMNS = 3,
};

struct synthetic {
	char texts[SYNTHETIC_KERNELS][256];
	struct gpuctr_kernel kernels[SYNTHETIC_KERNELS];
	struct made_site sites[SYNTHETIC_RANGES];
	struct gpuctr_column columns[SYNTHETIC_COLUMNS];
	const char *metrics[SYNTHETIC_COLUMNS];
	struct gpuctr_plan plan;
	struct gpuctr_device device;
	struct gpuctr_process process;
	struct gpuctr_record record;
	double values[SYNTHETIC_COLUMNS];
};

static inline void synthetic_init_definitions(struct synthetic *s)
{
	static const char *const levels[SYNTHETIC_DEPTH] = { "step %d", "forward %d",
							     "layer%d.0.conv1",
							     "aten::convolution, seq = %d" };

	for (unsigned i = 0; i < SYNTHETIC_KERNELS; i++) {
		snprintf(
			s->texts[i], sizeof(s->texts[i]),
			"void at::native::vectorized_elementwise_kernel<%u, at::native::FillFunctor"
			"<float>, std::array<char*, 1ul> >(int, float, std::array<char*, 1ul>)",
			i);
		s->kernels[i] = (struct gpuctr_kernel){
			.name = s->texts[i],
			.mangled = "_ZN2at6native29vectorized_elementwise_kernel",
			.static_shared_bytes = 1024,
			.registers = 32,
			.id = i + 1
		};
	}
	for (unsigned i = 0; i < SYNTHETIC_RANGES; i++) {
		unsigned depth = i % SYNTHETIC_DEPTH;
		char text[64];

		snprintf(text, sizeof(text), levels[depth], (int)(i / SYNTHETIC_DEPTH));
		make_site(&s->sites[i], depth ? &s->sites[i - 1] : NULL, i + 1, text);
		s->sites[i].site.category = depth == 3 ? "operator" : "";
		s->sites[i].site.color = depth == 3 ? 0xff76b900 : 0;
	}
}

static inline void synthetic_init(struct synthetic *s)
{
	static const struct gpuctr_column columns[SYNTHETIC_COLUMNS] = {
		{ .name = "dram__bytes_read.sum", .unit = "byte" },
		{ .name = "dram__bytes_write.sum", .unit = "byte" },
		{ .name = "gpu__time_duration.sum", .unit = "ns" },
	};

	memset(s, 0, sizeof(*s));
	synthetic_init_definitions(s);
	for (int i = 0; i < SYNTHETIC_COLUMNS; i++) {
		s->columns[i] = columns[i];
		s->metrics[i] = columns[i].name;
	}
	s->plan = (struct gpuctr_plan){ .chip = "GH100",
					.passes = 1,
					.groups = 1,
					.columns = s->columns,
					.n_columns = SYNTHETIC_COLUMNS,
					.metrics = s->metrics,
					.n_metrics = SYNTHETIC_COLUMNS };
	s->device = (struct gpuctr_device){ .index = 0,
					    .uuid = "GPU-00000000-1111-2222-3333-444444444444",
					    .name = "NVIDIA H200",
					    .chip = "GH100",
					    .clock_sm_mhz = 1980,
					    .clock_mem_mhz = 3201 };
	s->process = (struct gpuctr_process){ .process = 1,
					      .pid = 4711,
					      .program = "python3",
					      .cupti = "2025.3.1",
					      .driver = "580.159.04",
					      .recorded_from = "",
					      .devices = &s->device,
					      .n_devices = 1 };
}

/* Record number index of the process. Lives until the next call. */
static inline const struct gpuctr_record *synthetic_record(struct synthetic *s, uint64_t index)
{
	unsigned step = (unsigned)(index / SYNTHETIC_KERNELS % SYNTHETIC_STEPS);

	s->values[0] = 268435456.0 + (double)(index % 1000) * 32;
	s->values[1] = 134217728.0 + (double)(index % 777) * 32;
	s->values[2] = 5000 + (double)(index % 90000);
	s->record = (struct gpuctr_record){ .process = 1,
					    .index = index,
					    .kind = GPUCTR_LAUNCH_KERNEL,
					    .kernel = &s->kernels[index % SYNTHETIC_KERNELS],
					    .grid = { (uint32_t)(index % 4096) + 1, 2, 1 },
					    .block = { 256, 1, 1 },
					    .dynamic_shared_bytes = 49152,
					    .context = 1,
					    .stream = 7,
					    .correlation = (uint32_t)index + 100,
					    .thread = 4711,
					    .start_ns = INT64_C(1760000000000000000) +
							(int64_t)index * 50000,
					    .duration_ns = (int64_t)s->values[2],
					    .clock = GPUCTR_CLOCK_RANGE,
					    .values = s->values };
	put_into(&s->record, &s->sites[step * SYNTHETIC_DEPTH + 3]);
	return &s->record;
}
