/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What test_decode.c and test_decode_malformed.c share. */

#include "tests/unit/unit.h"

#include <math.h>

#include "client/lib/decode.h"
#include "proto/wire/limits.h"

enum { COLUMNS = 2, RECORDS = 3 };

/* Storage of a batch; columns points into it. */
struct sample {
	const char *strings[5];
	uint32_t function_name[2], function_static_shared[2], function_registers[2];
	uint32_t node_parent[3], node_domain[3], node_message[3], node_category[3], node_color[3],
		node_payload_type[3];
	uint64_t node_payload[3];
	uint32_t set_size[2], set_node[3];
	uint32_t kind[RECORDS], function[RECORDS], grid[3 * RECORDS], block[3 * RECORDS],
		dynamic_shared[RECORDS];
	uint32_t device[RECORDS], context[RECORDS];
	uint64_t stream[RECORDS];
	uint32_t correlation[RECORDS], thread[RECORDS];
	int64_t start_ns[RECORDS];
	uint32_t clock[RECORDS];
	uint64_t duration_ns[RECORDS];
	uint32_t node[RECORDS], range_set[RECORDS];
	double values[COLUMNS * RECORDS];
	uint32_t mark_node[1], mark_thread[1];
	int64_t mark_ns[1];
	struct wire_record_columns columns;
	uint32_t count;
	uint64_t first;
};

#define ALL(a)                   \
	{                        \
		ARRAY_SIZE(a), a \
	}

static inline void sample_init(struct sample *s)
{
	*s = (struct sample){
		.strings = { "", "_Z2k0Pf", "step", "layer", "not mangled" },
		.function_name = { 2, 5 },
		.function_static_shared = { 512, WIRE_UNKNOWN_ATTRIBUTE },
		.function_registers = { 32, WIRE_UNKNOWN_ATTRIBUTE },
		.node_parent = { 0, 1, 0 },
		.node_domain = { 1, 1, 1 },
		.node_message = { 3, 4, 3 },
		.node_color = { 0, 0xff00ff00, 0 },
		.node_payload_type = { 0, 1, 0 },
		.node_payload = { 0, 77, 0 },
		.set_size = { 1, 2 },
		.set_node = { 3, 1, 3 },
		.kind = { 0, 1, 2 },
		.function = { 1, 2, 1 },
		.grid = { 1, 2, 3, 4, 5, 6, 7, 8, 9 },
		.block = { 128, 1, 1, 64, 2, 1, 32, 1, 1 },
		.dynamic_shared = { 0, 1024, 0 },
		.device = { 0, 1, 0 },
		.context = { 1, 2, 1 },
		.stream = { 7, 8, UINT64_MAX },
		.correlation = { 10, 11, 12 },
		.thread = { 100, 101, 100 },
		.start_ns = { INT64_C(1760000000000000000), 500, -200 },
		.clock = { GPUCTR_CLOCK_RANGE, GPUCTR_CLOCK_NONE, GPUCTR_CLOCK_GPU },
		.duration_ns = { 1002, 0, 5 },
		.node = { 2, 0, 1 },
		.range_set = { 1, 2, 0 },
		.values = { 2048, 1002, 4096, NAN, 0, 5.75 },
		.mark_node = { 1 },
		.mark_thread = { 100 },
		.mark_ns = { 42 },
		.count = RECORDS,
		.first = 10,
	};
	s->columns = (struct wire_record_columns){
		.first_string = 1,
		.strings = ALL(s->strings),
		.first_function = 1,
		.function_name = ALL(s->function_name),
		.function_static_shared = ALL(s->function_static_shared),
		.function_registers = ALL(s->function_registers),
		.first_node = 1,
		.node_parent = ALL(s->node_parent),
		.node_domain = ALL(s->node_domain),
		.node_message = ALL(s->node_message),
		.node_category = ALL(s->node_category),
		.node_color = ALL(s->node_color),
		.node_payload_type = ALL(s->node_payload_type),
		.node_payload = ALL(s->node_payload),
		.first_set = 1,
		.set_size = ALL(s->set_size),
		.set_node = ALL(s->set_node),
		.kind = ALL(s->kind),
		.function = ALL(s->function),
		.grid = ALL(s->grid),
		.block = ALL(s->block),
		.dynamic_shared = ALL(s->dynamic_shared),
		.device = ALL(s->device),
		.context = ALL(s->context),
		.stream = ALL(s->stream),
		.correlation = ALL(s->correlation),
		.thread = ALL(s->thread),
		.start_ns = ALL(s->start_ns),
		.clock = ALL(s->clock),
		.duration_ns = ALL(s->duration_ns),
		.node = ALL(s->node),
		.range_set = ALL(s->range_set),
		.values = ALL(s->values),
		.mark_node = ALL(s->mark_node),
		.mark_thread = ALL(s->mark_thread),
		.mark_ns = ALL(s->mark_ns),
	};
}

struct fixture {
	struct decoder_memory memory;
	struct decoder *decoder;
	struct sample sample;
	struct gpuctr_record records[RECORDS];
	double values[COLUMNS * RECORDS];
	size_t n_records, n_marks;
	struct gpuctr_mark mark;
};

static inline int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ 0 };
	decoder_memory_init(&f.memory);
	f.decoder = decoder_new(9, &f.memory);
	sample_init(&f.sample);
	*state = &f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	f->decoder = decoder_free(f->decoder);
	return 0;
}

static inline void on_record(const struct gpuctr_record *r, void *userdata)
{
	struct fixture *f = userdata;

	if (f->n_records < RECORDS) {
		f->records[f->n_records] = *r;
		memcpy(f->values + COLUMNS * f->n_records, r->values, COLUMNS * sizeof(double));
	}
	f->n_records++;
}

static inline void on_mark(const struct gpuctr_mark *m, void *userdata)
{
	struct fixture *f = userdata;

	f->mark = *m;
	f->n_marks++;
}

static unsigned n_copies;

static struct gpuctr_copy last_copy;

static inline void on_copy(const struct gpuctr_copy *copy, void *userdata)
{
	(void)userdata;
	n_copies++;
	last_copy = *copy;
}

static inline bool feed_bytes(struct fixture *f, const uint8_t *data, size_t n)
{
	struct wire_records r = { 1, 9, f->sample.first, f->sample.count, { n, data } };

	return decoder_feed(f->decoder, &r, COLUMNS, on_record, on_mark, on_copy, f);
}

static inline bool feed(struct fixture *f)
{
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS,
				  .record_columns = f->sample.columns };
	struct buffer b = { 0 };
	struct arena scratch;
	bool good;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode_payload(&scratch, &b, &m), 0);
	good = feed_bytes(f, b.data + b.start, buffer_length(&b));
	arena_deinit(&scratch);
	buffer_deinit(&b);
	return good;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)
