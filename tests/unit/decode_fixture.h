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
	uint32_t site_parent[3], site_domain[3], site_name[3], site_category[3], site_color[3],
		site_sizes[3], site_kind[3], site_numbered[3];
	uint32_t set_size[2], set_site[3];
	uint32_t kind[RECORDS], function[RECORDS], grid[3 * RECORDS], block[3 * RECORDS],
		dynamic_shared[RECORDS];
	uint32_t device[RECORDS], context[RECORDS];
	uint64_t stream[RECORDS];
	uint32_t correlation[RECORDS], thread[RECORDS];
	int64_t start_ns[RECORDS];
	uint32_t clock[RECORDS];
	uint64_t duration_ns[RECORDS];
	uint32_t site[RECORDS], range_set[RECORDS], opened[RECORDS], payload_type[RECORDS],
		number_bytes[RECORDS];
	uint64_t payload[RECORDS];
	uint8_t numbers[4];
	double values[COLUMNS * RECORDS];
	uint32_t mark_site[1], mark_thread[1], mark_payload_type[1], mark_number_bytes[1];
	int64_t mark_ns[1];
	uint64_t mark_payload[1];
	uint8_t mark_numbers[1];
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
		.site_parent = { 0, 1, 0 },
		.site_domain = { 1, 1, 1 },
		.site_name = { 3, 4, 3 },
		.site_color = { 0, 0xff00ff00, 0 },
		.site_kind = { GPUCTR_SITE_STEP, GPUCTR_SITE_LABEL, GPUCTR_SITE_LABEL },
		.site_numbered = { GPUCTR_NUMBER_STEP, 0, 0 },
		.set_size = { 1, 2 },
		.set_site = { 3, 1, 3 },
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
		.site = { 2, 0, 1 },
		.opened = { 1, 7, UINT32_MAX },
		.payload_type = { 1, 0, 0 },
		.payload = { 77, 0, 0 },
		.number_bytes = { 1, 1, 2 },
		.numbers = { 2 * 12, 0, 0x80 | 8, 1 }, /* 12; one of no site; 68 */
		.range_set = { 1, 2, 0 },
		.values = { 2048, 1002, 4096, NAN, 0, 5.75 },
		.mark_site = { 1 },
		.mark_payload_type = { 2 },
		.mark_payload = { 5 },
		.mark_number_bytes = { 1 },
		.mark_numbers = { 1 }, /* -1 */
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
		.first_site = 1,
		.site_parent = ALL(s->site_parent),
		.site_domain = ALL(s->site_domain),
		.site_name = ALL(s->site_name),
		.site_category = ALL(s->site_category),
		.site_color = ALL(s->site_color),
		.site_sizes = ALL(s->site_sizes),
		.site_kind = ALL(s->site_kind),
		.site_numbered = ALL(s->site_numbered),
		.first_set = 1,
		.set_size = ALL(s->set_size),
		.set_site = ALL(s->set_site),
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
		.site = ALL(s->site),
		.opened = ALL(s->opened),
		.payload_type = ALL(s->payload_type),
		.payload = ALL(s->payload),
		.number_bytes = ALL(s->number_bytes),
		.numbers = ALL(s->numbers),
		.range_set = ALL(s->range_set),
		.values = ALL(s->values),
		.mark_site = ALL(s->mark_site),
		.mark_payload_type = ALL(s->mark_payload_type),
		.mark_payload = ALL(s->mark_payload),
		.mark_number_bytes = ALL(s->mark_number_bytes),
		.mark_numbers = ALL(s->mark_numbers),
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
	int64_t numbers[RECORDS + 1]; /* the first one of each record, and of the mark */
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

static inline void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r,
			     void *userdata)
{
	struct fixture *f = userdata;

	if (f->n_records < RECORDS) {
		f->records[f->n_records] = *r;
		memcpy(f->values + COLUMNS * f->n_records, r->values, COLUMNS * sizeof(double));
		f->numbers[f->n_records] = r->site && r->site->n_numbers ? r->at.numbers[0] : -7;
	}
	f->n_records++;
}

static inline void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *m, void *userdata)
{
	struct fixture *f = userdata;

	f->mark = *m;
	f->numbers[RECORDS] = m->at.numbers[0];
	f->n_marks++;
}

static unsigned n_copies;

static struct gpuctr_copy last_copy;

static inline void on_copy(struct gpuctr_capture *c, const struct gpuctr_copy *copy, void *userdata)
{
	(void)userdata;
	n_copies++;
	last_copy = *copy;
}

static const struct gpuctr_capture_handler handler = {
	.on_record = on_record,
	.on_mark = on_mark,
	.on_copy = on_copy,
};

static inline bool feed_bytes(struct fixture *f, const uint8_t *data, size_t n)
{
	struct wire_records r = { 1, 9, f->sample.first, f->sample.count, { n, data } };

	return decoder_feed(f->decoder, &r, COLUMNS, &handler, NULL, f);
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
