/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/limits.h"

enum { KERNELS = 64 };

const char *const sample_metrics[SAMPLE_METRICS] = { "dram__bytes_read.sum",
						     "dram__bytes_write.sum",
						     "gpu__time_duration.sum" };

struct sample {
	char names[KERNELS][64];
	const char *strings[KERNELS];
	uint32_t function_name[KERNELS], zero[SAMPLE_RECORDS_MAX], function[SAMPLE_RECORDS_MAX],
		shape[3 * SAMPLE_RECORDS_MAX], number[SAMPLE_RECORDS_MAX];
	uint64_t stream[SAMPLE_RECORDS_MAX];
	int64_t start_ns[SAMPLE_RECORDS_MAX];
	double values[SAMPLE_METRICS * SAMPLE_RECORDS_MAX];
};

static void sample_init(struct sample *s)
{
	for (uint32_t i = 0; i < KERNELS; i++) {
		snprintf(s->names[i], sizeof(s->names[i]),
			 "_ZN2at6native27unrolled_elementwise_kernelILi%uEEEvPf", i);
		s->strings[i] = s->names[i];
		s->function_name[i] = i + 1;
	}
	for (uint32_t i = 0; i < SAMPLE_RECORDS_MAX; i++) {
		s->function[i] = i % KERNELS + 1;
		s->number[i] = 1000 + i;
		s->stream[i] = 7;
		s->start_ns[i] = 48000 + i;
		s->shape[3 * i] = 1024 + i % 77;
		s->shape[3 * i + 1] = s->shape[3 * i + 2] = 1;
		for (int k = 0; k < SAMPLE_METRICS; k++) {
			s->values[SAMPLE_METRICS * i + (uint32_t)k] = 268435456.0 + i * 32.0 + k;
		}
	}
}

static struct sample *sample(void)
{
	static struct sample s;

	if (!s.strings[0]) {
		sample_init(&s);
	}
	return &s;
}

static void put(struct buffer *out, uint32_t capture, uint32_t process,
		const struct wire_record_columns *c, uint64_t first, uint32_t count)
{
	struct wire_message inner = { .type = WIRE_RECORD_COLUMNS, .record_columns = *c },
			    m = { .type = WIRE_RECORDS };
	struct buffer payload = { 0 };
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (wire_encode_payload(&a, &payload, &inner) < 0) {
		abort();
	}
	m.records = (struct wire_records){
		capture, process, first, count, { buffer_length(&payload), payload.data }
	};
	if (wire_encode(&a, out, &m) < 0) {
		abort();
	}
	buffer_deinit(&payload);
	arena_deinit(&a);
}

void sample_put_definitions(struct buffer *out, uint32_t capture, uint32_t process)
{
	const struct sample *s = sample();
	const struct wire_record_columns c = {
		.first_string = 1,
		.strings = { KERNELS, s->strings },
		.first_function = 1,
		.function_name = { KERNELS, s->function_name },
		.function_static_shared = { KERNELS, s->zero },
		.function_registers = { KERNELS, s->zero },
	};

	put(out, capture, process, &c, 0, 0);
}

void sample_put_records(struct buffer *out, uint32_t capture, uint32_t process, uint64_t first,
			size_t n, int64_t start_ns)
{
	struct sample *s = sample();
	const struct wire_record_columns c = {
		.kind = { n, s->zero },
		.function = { n, s->function },
		.grid = { 3 * n, s->shape },
		.block = { 3 * n, s->shape },
		.dynamic_shared = { n, s->zero },
		.device = { n, s->zero },
		.context = { n, s->zero },
		.stream = { n, s->stream },
		.correlation = { n, s->number },
		.thread = { n, s->number },
		.start_ns = { n, s->start_ns },
		.site = { n, s->zero },
		.opened = { n, s->zero },
		.payload_type = { n, s->zero },
		.payload = { n, s->stream },
		.number_bytes = { n, s->zero },
		.range_set = { n, s->zero },
		.values = { SAMPLE_METRICS * n, s->values },
		.clock = { n, s->zero },
		.duration_ns = { n, s->stream },
	};

	s->start_ns[0] = start_ns;
	put(out, capture, process, &c, first, (uint32_t)n);
}
