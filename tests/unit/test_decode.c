/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>

#include "client/lib/decode.h"
#include "proto/wire/limits.h"

/* A batch comes from the measured program, which may be anything: what is well formed must arrive,
 * and every way of being malformed must be refused. The good batch below is changed in one place at
 * a time. */

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

static void sample_init(struct sample *s)
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
	size_t n_strata;
	struct gpuctr_stratum stratum; /* the last one */
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ 0 };
	decoder_memory_init(&f.memory);
	f.decoder = decoder_new(9, &f.memory);
	sample_init(&f.sample);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->decoder = decoder_free(f->decoder);
	return 0;
}

static void on_record(const struct gpuctr_record *r, void *userdata)
{
	struct fixture *f = userdata;

	if (f->n_records < RECORDS) {
		f->records[f->n_records] = *r;
		memcpy(f->values + COLUMNS * f->n_records, r->values, COLUMNS * sizeof(double));
	}
	f->n_records++;
}

static void on_mark(const struct gpuctr_mark *m, void *userdata)
{
	struct fixture *f = userdata;

	f->mark = *m;
	f->n_marks++;
}

static unsigned n_copies;
static struct gpuctr_copy last_copy;

static void on_copy(const struct gpuctr_copy *copy, void *userdata)
{
	(void)userdata;
	n_copies++;
	last_copy = *copy;
}

static void on_stratum(const struct gpuctr_stratum *s, void *userdata)
{
	struct fixture *f = userdata;

	f->stratum = *s;
	f->n_strata++;
}

static bool feed_bytes(struct fixture *f, const uint8_t *data, size_t n)
{
	struct wire_records r = { 1, 9, f->sample.first, f->sample.count, { n, data } };

	return decoder_feed(f->decoder, &r, COLUMNS, on_record, on_mark, on_stratum, on_copy, f);
}

static bool feed(struct fixture *f)
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

static void copies_arrive(void **state)
{
	static const uint32_t kind[] = { GPUCTR_COPY_MEMORY, GPUCTR_COPY_SET }, number[] = { 0, 7 };
	static const uint64_t big[] = { 4096, 1 };
	static const int64_t start[] = { 5, 1795648812314527431 };
	static const uint32_t wrong[] = { 0, GPUCTR_COPY_LOST + 1 };
	struct fixture *f = *state;
	struct wire_record_columns *c = &f->sample.columns;

	n_copies = 0;
	c->copy_kind = (struct wire_u32s){ 2, kind };
	c->copy_device = c->copy_context = c->copy_stream = (struct wire_u32s){ 2, number };
	c->copy_bytes = c->copy_duration_ns = (struct wire_u64s){ 2, big };
	c->copy_start_ns = (struct wire_i64s){ 2, start };
	assert_true(feed(f));
	assert_int_equal(n_copies, 2);
	assert_int_equal(last_copy.kind, GPUCTR_COPY_SET);
	assert_int_equal(last_copy.process, 9);
	assert_int_equal(last_copy.stream, 7);
	assert_int_equal(last_copy.bytes, 1);
	assert_true(last_copy.start_ns == start[1] && last_copy.duration_ns == 1);
	c->copy_bytes.n = 1;
	assert_false(feed(f));
	c->copy_bytes.n = 2;
	c->copy_kind.v = wrong;
	assert_false(feed(f));
}

static void kernels_of_graphs_arrive(void **state)
{
	static const uint32_t graph[] = { 0, 3, 0 };
	static const uint64_t node[] = { 0, UINT64_C(3) << 32 | 7, 0 };
	struct fixture *f = *state;

	f->sample.kind[1] = GPUCTR_LAUNCH_GRAPH_KERNEL;
	f->sample.columns.graph = (struct wire_u32s){ RECORDS, graph };
	f->sample.columns.graph_node = (struct wire_u64s){ RECORDS, node };
	assert_true(feed(f));
	assert_int_equal(f->records[1].kind, GPUCTR_LAUNCH_GRAPH_KERNEL);
	assert_int_equal(f->records[1].graph, 3);
	assert_true(f->records[1].graph_node == node[1]);
	assert_int_equal(f->records[2].graph, 0);
}

static void a_good_batch_arrives_whole(void **state)
{
	struct fixture *f = *state;
	const struct gpuctr_record *r = f->records;

	assert_true(feed(f));
	assert_int_equal(f->n_records, RECORDS);
	for (size_t i = 0; i < RECORDS; i++) {
		assert_int_equal(r[i].process, 9);
		assert_int_equal(r[i].index, 10 + i);
		assert_int_equal(r[i].kind, i);
	}
	assert_string_equal(r[0].kernel->mangled, "_Z2k0Pf");
	assert_string_equal(r[0].kernel->name, "k0(float*)");
	assert_int_equal(r[0].kernel->static_shared_bytes, 512);
	assert_int_equal(r[0].kernel->registers, 32);
	assert_int_equal(r[1].kernel->static_shared_bytes, -1);
	assert_int_equal(r[1].kernel->registers, -1);
	assert_string_equal(r[1].kernel->name, "not mangled");
	assert_ptr_equal(r[0].kernel, r[2].kernel);
	assert_int_equal(r[1].grid[2], 6);
	assert_int_equal(r[1].block[1], 2);
	assert_int_equal(r[1].dynamic_shared_bytes, 1024);
	assert_int_equal(r[1].device, 1);
	assert_int_equal(r[2].stream, UINT64_MAX);
	assert_int_equal(r[2].correlation, 12);
	assert_int_equal(r[1].thread, 101);
	assert_int_equal(r[0].start_ns, INT64_C(1760000000000000000));
	assert_int_equal(r[1].start_ns, INT64_C(1760000000000000500));
	assert_int_equal(r[2].start_ns, INT64_C(1760000000000000300));
	assert_int_equal(r[0].duration_ns, 1002);
	assert_int_equal(r[0].clock, GPUCTR_CLOCK_RANGE);
	assert_int_equal(r[1].duration_ns, -1);
	assert_int_equal(r[1].clock, GPUCTR_CLOCK_NONE);
	assert_int_equal(r[2].duration_ns, 5);
	assert_int_equal(r[2].clock, GPUCTR_CLOCK_GPU);
	assert_true(f->values[2] == 4096 && isnan(f->values[3]));
}

static void ranges_keep_their_stack(void **state)
{
	struct fixture *f = *state;
	const struct gpuctr_range *range;

	assert_true(feed(f));
	range = f->records[0].range;
	assert_string_equal(range->message, "layer");
	assert_string_equal(range->domain, "");
	assert_string_equal(range->category, "");
	assert_int_equal(range->color, 0xff00ff00);
	assert_int_equal(range->payload_type, 1);
	assert_int_equal(range->payload, 77);
	assert_int_equal(range->depth, 1);
	assert_string_equal(range->parent->message, "step");
	assert_null(range->parent->parent);
	assert_null(f->records[1].range);
	assert_int_equal(f->records[0].n_active, 1);
	assert_int_equal(f->records[1].n_active, 2);
	assert_ptr_equal(f->records[1].active[0], range->parent);
	assert_int_equal(f->records[2].n_active, 0);
	assert_int_equal(f->n_marks, 1);
	assert_ptr_equal(f->mark.range, range->parent);
	assert_int_equal(f->mark.time_ns, 42);
}

static void define_nothing(struct sample *s)
{
	s->columns.strings.n = s->columns.function_name.n = s->columns.function_static_shared.n = 0;
	s->columns.function_registers.n = s->columns.node_parent.n = s->columns.node_domain.n = 0;
	s->columns.node_message.n = s->columns.node_category.n = s->columns.node_color.n = 0;
	s->columns.node_payload_type.n = s->columns.node_payload.n = s->columns.set_size.n =
		s->columns.set_node.n = 0;
}

/* Definitions are sent once; later batches refer to them. */
static void definitions_last_over_batches(void **state)
{
	struct fixture *f = *state;
	struct sample *s = &f->sample;
	const struct gpuctr_kernel *kernel;

	assert_true(feed(f));
	kernel = f->records[0].kernel;
	f->n_records = 0;
	define_nothing(s);
	s->first += RECORDS;
	assert_true(feed(f));
	assert_int_equal(f->n_records, RECORDS);
	assert_ptr_equal(f->records[0].kernel, kernel);
	assert_string_equal(f->records[0].range->parent->message, "step");
}

/* A file refuses a record's second coming, and would take nothing more from anybody. */
static void a_record_comes_once(void **state)
{
	struct fixture *f = *state;
	struct sample *s = &f->sample;

	assert_true(feed(f));
	f->n_records = 0;
	define_nothing(s);
	assert_false(feed(f));
	s->first += RECORDS - 1;
	assert_false(feed(f));
	s->first = UINT64_MAX - 1;
	assert_false(feed(f));
	s->first = UINT64_MAX - RECORDS + 1; /* the next one would be the first again */
	assert_false(feed(f));
	assert_int_equal(f->n_records, 0);
	s->first = 100; /* a batch was left out */
	assert_true(feed(f));
}

static void what_is_no_duration_is_none(void **state)
{
	static const struct {
		uint32_t clock;
		uint64_t duration_ns;
	} none[] = {
		{ GPUCTR_CLOCK_NONE, 5 },
		{ GPUCTR_CLOCK_GPU + 1, 5 },
		{ UINT32_MAX, 5 },
		{ GPUCTR_CLOCK_GPU, UINT64_C(1) << 63 },
		{ GPUCTR_CLOCK_RANGE, UINT64_MAX },
	};
	struct fixture *f = *state;
	struct sample *s = &f->sample;

	assert_true(feed(f));
	define_nothing(s);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		s->clock[0] = none[i].clock;
		s->duration_ns[0] = none[i].duration_ns;
		s->first += RECORDS;
		f->n_records = 0;
		assert_true(feed(f));
		assert_int_equal(f->records[0].duration_ns, -1);
		assert_int_equal(f->records[0].clock, GPUCTR_CLOCK_NONE);
	}
}

/* As a program sends them that uses NVTX's extended payloads. */
static void unknown_payloads_are_none(void **state)
{
	struct fixture *f = *state;
	const struct gpuctr_range *range;

	f->sample.node_payload_type[1] = 0xdfbd0009;
	assert_true(feed(f));
	range = f->records[0].range;
	assert_int_equal(range->payload_type, 0);
	assert_int_equal(range->payload, 0);
}

/* 250 bytes that stand for a gigabyte, because each type is twice the one before. */
static void a_name_that_explodes_stays_mangled(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMN";
	struct fixture *f = *state;
	char name[512] = "_Z1f1AIiiE";

	for (size_t i = 0; i < sizeof(digits) - 1; i++) {
		size_t n = strlen(name);

		snprintf(name + n, sizeof(name) - n, "S_IS%c_S%c_E", digits[i], digits[i]);
	}
	f->sample.strings[1] = name;
	assert_true(feed(f));
	assert_string_equal(f->records[0].kernel->name, name);
	assert_string_equal(f->records[0].kernel->mangled, name);
}

static void a_batch_of_definitions_alone_is_fine(void **state)
{
	struct fixture *f = *state;

	f->sample.columns = (struct wire_record_columns){ .first_string = 1,
							  .strings = ALL(f->sample.strings) };
	f->sample.count = 0;
	assert_true(feed(f));
	assert_int_equal(f->n_records, 0);
}

/* --- with a budget --- */

static const uint32_t stratum_of_record[RECORDS] = { 1, 2, 1 };
static const double chances[RECORDS] = { 1, 0.25, 1e-9 };
static const uint32_t stratum_ids[] = { 1, 2 }, stratum_functions[] = { 0, 2 },
		      stratum_nodes[] = { 0, 1 }, stratum_grids[] = { 0, 0, 0, 4, 5, 6 },
		      stratum_blocks[] = { 0, 0, 0, 7, 8, 9 }, stratum_shared[] = { 0, 10 },
		      stratum_devices[] = { 0, 1 }, stratum_merged[] = { 1, 0 };
static const uint64_t stratum_seen[] = { 3, UINT64_MAX };

static void add_budget(struct sample *s)
{
	struct wire_record_columns *c = &s->columns;

	c->stratum = (struct wire_u32s){ RECORDS, stratum_of_record };
	c->chance = (struct wire_doubles){ RECORDS, chances };
	c->stratum_id = (struct wire_u32s){ 2, stratum_ids };
	c->stratum_function = (struct wire_u32s){ 2, stratum_functions };
	c->stratum_node = (struct wire_u32s){ 2, stratum_nodes };
	c->stratum_grid = (struct wire_u32s){ 6, stratum_grids };
	c->stratum_block = (struct wire_u32s){ 6, stratum_blocks };
	c->stratum_shared = (struct wire_u32s){ 2, stratum_shared };
	c->stratum_device = (struct wire_u32s){ 2, stratum_devices };
	c->stratum_merged = (struct wire_u32s){ 2, stratum_merged };
	c->stratum_seen = (struct wire_u64s){ 2, stratum_seen };
}

static void strata_and_chances_arrive(void **state)
{
	struct fixture *f = *state;

	add_budget(&f->sample);
	assert_true(feed(f));
	assert_int_equal(f->n_records, RECORDS);
	for (size_t i = 0; i < RECORDS; i++) {
		assert_int_equal(f->records[i].stratum, stratum_of_record[i]);
		assert_true(f->records[i].chance == chances[i]);
	}
	assert_int_equal(f->n_strata, 2);
	assert_int_equal(f->stratum.process, 9);
	assert_int_equal(f->stratum.id, 2);
	assert_int_equal(f->stratum.kernel->id, 2);
	assert_int_equal(f->stratum.range->id, 1);
	assert_memory_equal(f->stratum.grid, stratum_grids + 3, sizeof(f->stratum.grid));
	assert_memory_equal(f->stratum.block, stratum_blocks + 3, sizeof(f->stratum.block));
	assert_int_equal(f->stratum.dynamic_shared_bytes, 10);
	assert_int_equal(f->stratum.device, 1);
	assert_false(f->stratum.merged);
	assert_true(f->stratum.seen == UINT64_MAX);
}

static void the_last_number_of_a_stratum_is_one(void **state)
{
	static const uint32_t last[] = { 1, LIMIT_STRATA };
	struct fixture *f = *state;

	add_budget(&f->sample);
	f->sample.columns.stratum_id.v = last;
	assert_true(feed(f));
	assert_int_equal(f->stratum.id, LIMIT_STRATA);
}

static void groups_arrive(void **state)
{
	static const uint32_t groups[RECORDS] = { 2, LIMIT_GROUPS - 1, 0 };
	struct fixture *f = *state;

	add_budget(&f->sample);
	f->sample.columns.group = (struct wire_u32s){ RECORDS, groups };
	assert_true(feed(f));
	for (size_t i = 0; i < RECORDS; i++) {
		assert_int_equal(f->records[i].group, groups[i]);
	}
}

static void odd_groups_are_malformed(void **state)
{
	static const uint32_t groups[RECORDS] = { 0, LIMIT_GROUPS, 0 };
	struct fixture *f = *state;

	f->sample.columns.group = (struct wire_u32s){ RECORDS - 1, groups };
	assert_false(feed(f));
	f->sample.columns.group.n = RECORDS;
	assert_false(feed(f));
}

static void without_a_budget_every_launch_was_sure(void **state)
{
	struct fixture *f = *state;

	assert_true(feed(f));
	assert_int_equal(f->records[0].stratum, 0);
	assert_true(f->records[0].chance == 1);
	assert_int_equal(f->records[0].group, 0);
	assert_int_equal(f->n_strata, 0);
}

/* A chance that is none would make an estimate endless, or less than what was measured. */
static void odd_chances_and_strata_are_malformed(void **state)
{
	static const double odd[] = { 0, -0.5, 1.0001, (double)INFINITY, (double)NAN };
	static const uint32_t zero[RECORDS] = { 0 }, beyond[] = { 3, 9 },
			      far[] = { LIMIT_STRATA + 1, 1 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		double v[RECORDS] = { 1, 1, odd[i] };

		teardown(state);
		setup(state);
		add_budget(&f->sample);
		f->sample.columns.chance.v = v;
		assert_false(feed(f));
	}
	for (size_t i = 0; i < 16; i++) {
		struct wire_record_columns *c = &f->sample.columns;

		teardown(state);
		setup(state);
		add_budget(&f->sample);
		*(i == 0    ? &c->stratum.n
		  : i == 1  ? &c->chance.n
		  : i == 2  ? &c->stratum_id.n
		  : i == 3  ? &c->stratum_function.n
		  : i == 4  ? &c->stratum_node.n
		  : i == 5  ? &c->stratum_grid.n
		  : i == 6  ? &c->stratum_block.n
		  : i == 7  ? &c->stratum_shared.n
		  : i == 8  ? &c->stratum_device.n
		  : i == 9  ? &c->stratum_merged.n
		  : i == 10 ? &c->stratum_seen.n
			    : &c->kind.n) -= i <= 10;
		c->stratum.v = i == 11 ? zero : c->stratum.v;
		c->stratum_id.v = i == 12 ? zero : i == 13 ? far : c->stratum_id.v;
		c->stratum_function.v = i == 14 ? beyond : c->stratum_function.v;
		c->stratum_node.v = i == 15 ? beyond : c->stratum_node.v;
		assert_false(feed(f));
	}
}

/* --- malformed --- */

static void spoil_count_more(struct sample *s)
{
	s->count++;
}
static void spoil_count_less(struct sample *s)
{
	s->count--;
}
static void spoil_kind(struct sample *s)
{
	s->columns.kind.n--;
}
static void spoil_function(struct sample *s)
{
	s->columns.function.n--;
}
static void spoil_grid(struct sample *s)
{
	s->columns.grid.n = RECORDS;
}
static void spoil_block(struct sample *s)
{
	s->columns.block.n--;
}
static void spoil_clock(struct sample *s)
{
	s->columns.clock.n--;
}
static void spoil_graph(struct sample *s)
{
	s->columns.graph = (struct wire_u32s)ALL(s->clock);
}
static void spoil_graph_node(struct sample *s)
{
	spoil_graph(s);
	s->columns.graph.n--;
	s->columns.graph_node = (struct wire_u64s){ s->columns.graph.n, s->duration_ns };
}
static void spoil_duration(struct sample *s)
{
	s->columns.duration_ns.n = 0;
}
static void spoil_dynamic(struct sample *s)
{
	s->columns.dynamic_shared.n--;
}
static void spoil_device(struct sample *s)
{
	s->columns.device.n--;
}
static void spoil_context(struct sample *s)
{
	s->columns.context.n = 0;
}
static void spoil_stream(struct sample *s)
{
	s->columns.stream.n--;
}
static void spoil_correlation(struct sample *s)
{
	s->columns.correlation.n--;
}
static void spoil_thread(struct sample *s)
{
	s->columns.thread.n--;
}
static void spoil_start(struct sample *s)
{
	s->columns.start_ns.n--;
}
static void spoil_node(struct sample *s)
{
	s->columns.node.n--;
}
static void spoil_range_set(struct sample *s)
{
	s->columns.range_set.n--;
}
static void spoil_values_less(struct sample *s)
{
	s->columns.values.n--;
}
static void spoil_values_none(struct sample *s)
{
	s->columns.values.n = 0;
}
static void spoil_mark_thread(struct sample *s)
{
	s->columns.mark_thread.n = 0;
}
static void spoil_mark_ns(struct sample *s)
{
	s->columns.mark_ns.n = 0;
}
static void spoil_mark_node(struct sample *s)
{
	s->mark_node[0] = 4;
}
static void spoil_mark_none(struct sample *s)
{
	s->mark_node[0] = 0;
}
static void spoil_first_string(struct sample *s)
{
	s->columns.first_string = 2;
}
static void spoil_first_string_zero(struct sample *s)
{
	s->columns.first_string = 0;
}
static void spoil_first_function(struct sample *s)
{
	s->columns.first_function = 3;
}
static void spoil_first_node(struct sample *s)
{
	s->columns.first_node = UINT32_MAX;
}
static void spoil_first_set(struct sample *s)
{
	s->columns.first_set = 2;
}
static void spoil_function_name(struct sample *s)
{
	s->function_name[0] = 6;
}
static void spoil_function_unnamed(struct sample *s)
{
	s->function_name[0] = 0;
}
static void spoil_function_shared(struct sample *s)
{
	s->columns.function_static_shared.n = 1;
}
static void spoil_function_registers(struct sample *s)
{
	s->columns.function_registers.n = 1;
}
static void spoil_record_function(struct sample *s)
{
	s->function[1] = 3;
}
static void spoil_record_no_function(struct sample *s)
{
	s->function[1] = 0;
}
static void spoil_record_node(struct sample *s)
{
	s->node[1] = 4;
}
static void spoil_record_node_max(struct sample *s)
{
	s->node[1] = UINT32_MAX;
}
static void spoil_record_set(struct sample *s)
{
	s->range_set[1] = 3;
}
static void spoil_node_parent_itself(struct sample *s)
{
	s->node_parent[1] = 2;
}
static void spoil_node_parent_later(struct sample *s)
{
	s->node_parent[0] = 2;
}
static void spoil_node_domain(struct sample *s)
{
	s->columns.node_domain.n = 2;
}
static void spoil_node_message(struct sample *s)
{
	s->columns.node_message.n = 2;
}
static void spoil_node_category(struct sample *s)
{
	s->columns.node_category.n = 2;
}
static void spoil_node_color(struct sample *s)
{
	s->columns.node_color.n = 2;
}
static void spoil_node_payload_type(struct sample *s)
{
	s->columns.node_payload_type.n = 2;
}
static void spoil_node_payload(struct sample *s)
{
	s->columns.node_payload.n = 2;
}
static void spoil_node_extra(struct sample *s)
{
	s->columns.node_parent.n = 2;
}
static void spoil_set_node(struct sample *s)
{
	s->set_node[0] = 4;
}
static void spoil_set_node_none(struct sample *s)
{
	s->set_node[0] = 0;
}
static void spoil_set_size(struct sample *s)
{
	s->set_size[1] = 3;
}
static void spoil_set_size_huge(struct sample *s)
{
	s->set_size[0] = UINT32_MAX;
}

#define SPOIL(f)      \
	{             \
#f, f \
	}

static const struct {
	const char *name;
	void (*spoil)(struct sample *s);
} spoilers[] = {
	SPOIL(spoil_count_more),
	SPOIL(spoil_count_less),
	SPOIL(spoil_kind),
	SPOIL(spoil_function),
	SPOIL(spoil_grid),
	SPOIL(spoil_block),
	SPOIL(spoil_dynamic),
	SPOIL(spoil_device),
	SPOIL(spoil_context),
	SPOIL(spoil_stream),
	SPOIL(spoil_correlation),
	SPOIL(spoil_thread),
	SPOIL(spoil_start),
	SPOIL(spoil_node),
	SPOIL(spoil_range_set),
	SPOIL(spoil_values_less),
	SPOIL(spoil_values_none),
	SPOIL(spoil_mark_thread),
	SPOIL(spoil_mark_ns),
	SPOIL(spoil_mark_node),
	SPOIL(spoil_mark_none),
	SPOIL(spoil_first_string),
	SPOIL(spoil_first_string_zero),
	SPOIL(spoil_first_function),
	SPOIL(spoil_first_node),
	SPOIL(spoil_first_set),
	SPOIL(spoil_function_name),
	SPOIL(spoil_function_unnamed),
	SPOIL(spoil_function_shared),
	SPOIL(spoil_function_registers),
	SPOIL(spoil_graph),
	SPOIL(spoil_graph_node),
	SPOIL(spoil_clock),
	SPOIL(spoil_duration),
	SPOIL(spoil_record_function),
	SPOIL(spoil_record_no_function),
	SPOIL(spoil_record_node),
	SPOIL(spoil_record_node_max),
	SPOIL(spoil_record_set),
	SPOIL(spoil_node_parent_itself),
	SPOIL(spoil_node_parent_later),
	SPOIL(spoil_node_domain),
	SPOIL(spoil_node_message),
	SPOIL(spoil_node_category),
	SPOIL(spoil_node_color),
	SPOIL(spoil_node_payload_type),
	SPOIL(spoil_node_payload),
	SPOIL(spoil_node_extra),
	SPOIL(spoil_set_node),
	SPOIL(spoil_set_node_none),
	SPOIL(spoil_set_size),
	SPOIL(spoil_set_size_huge),
};

static void every_malformed_batch_is_refused(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(spoilers); i++) {
		decoder_free(f->decoder);
		f->decoder = decoder_new(9, &f->memory);
		f->n_records = 0;
		sample_init(&f->sample);
		spoilers[i].spoil(&f->sample);
		if (feed(f)) {
			fail_msg("%s was taken", spoilers[i].name);
		}
		assert_true(f->n_records <= RECORDS);
	}
}

static void an_unknown_kind_is_a_kernel(void **state)
{
	struct fixture *f = *state;

	f->sample.kind[1] = 200;
	assert_true(feed(f));
	assert_int_equal(f->records[1].kind, GPUCTR_LAUNCH_KERNEL);
}

static void numbers_may_not_be_defined_twice(void **state)
{
	struct fixture *f = *state;

	assert_true(feed(f));
	assert_false(feed(f)); /* the same definitions again, under the same numbers */
}

static void bytes_that_are_no_message_are_refused(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 5;
	uint8_t noise[200];

	assert_false(feed_bytes(f, (const uint8_t *)"\xff\xff\xff", 3));
	assert_false(feed_bytes(f, NULL, 0)); /* three records were announced */
	for (int round = 0; round < 20000; round++) {
		for (size_t i = 0; i < sizeof(noise); i++) {
			noise[i] = (uint8_t)unit_random(&random);
		}
		assert_false(feed_bytes(f, noise, unit_random(&random) % sizeof(noise)));
	}
	assert_int_equal(f->n_records, 0);
}

/* Every byte of a good batch damaged in turn: refused or taken, never a crash or a wild pointer. */
static void damage_is_survived(void **state)
{
	struct fixture *f = *state;
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS,
				  .record_columns = f->sample.columns };
	struct buffer b = { 0 };
	struct arena scratch;
	unsigned refused = 0;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode_payload(&scratch, &b, &m), 0);
	for (size_t i = 0; i < 8 * buffer_length(&b); i++) {
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
		decoder_free(f->decoder);
		f->decoder = decoder_new(9, &f->memory);
		f->n_records = 0;
		refused += !feed_bytes(f, b.data, buffer_length(&b));
		assert_true(f->n_records <= RECORDS);
		b.data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_true(refused > 100);
	arena_deinit(&scratch);
	buffer_deinit(&b);
}

/* --- images --- */

static bool feed_piece(struct fixture *f, uint64_t first, uint64_t offset, uint64_t size, size_t n,
		       struct gpuctr_image *ret)
{
	static const uint8_t data[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	const struct wire_raw_image piece = {
		1, 9, first, 4, offset, size, { n, data + offset % 10 }
	};

	return decoder_feed_image(f->decoder, &piece, ret);
}

static void an_image_comes_in_pieces(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_image image;

	for (int round = 0; round < 3; round++) {
		assert_true(feed_piece(f, 64, 0, 16, 6, &image));
		assert_null(image.data);
		assert_true(feed_piece(f, 64, 6, 16, 10, &image));
		assert_non_null(image.data);
		assert_int_equal(image.size, 16);
		assert_int_equal(image.process, 9);
		assert_int_equal(image.first, 64);
		assert_int_equal(image.count, 4);
		assert_memory_equal(image.data, "0123456789abcdef", 16);
	}
}

static void a_broken_image_is_refused(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_image image;

	assert_false(feed_piece(f, 0, 6, 16, 6, &image)); /* begins in the middle */
	assert_true(feed_piece(f, 0, 0, 16, 6, &image));
	assert_false(feed_piece(f, 0, 8, 16, 6, &image)); /* a gap */
	assert_true(feed_piece(f, 0, 0, 16, 6, &image));
	assert_false(feed_piece(f, 1, 6, 16, 6, &image)); /* of another batch */
	assert_true(feed_piece(f, 0, 0, 16, 6, &image));
	assert_false(feed_piece(f, 0, 6, 16, 11, &image)); /* longer than announced */
	assert_true(feed_piece(f, 0, 0, 16, 6, &image));
	assert_false(feed_piece(f, 0, 6, 5, 1, &image)); /* the size shrinks below what is there */
	assert_false(feed_piece(f, 0, 0, (uint64_t)LIMIT_IMAGE_BYTES + 1, 6, &image));
	assert_false(feed_piece(f, 0, 0, UINT64_MAX, 6, &image));
	assert_null(image.data);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_good_batch_arrives_whole),
		TEST(copies_arrive),
		TEST(kernels_of_graphs_arrive),
		TEST(ranges_keep_their_stack),
		TEST(definitions_last_over_batches),
		TEST(a_record_comes_once),
		TEST(a_name_that_explodes_stays_mangled),
		TEST(what_is_no_duration_is_none),
		TEST(unknown_payloads_are_none),
		TEST(a_batch_of_definitions_alone_is_fine),
		TEST(every_malformed_batch_is_refused),
		TEST(strata_and_chances_arrive),
		TEST(the_last_number_of_a_stratum_is_one),
		TEST(groups_arrive),
		TEST(odd_groups_are_malformed),
		TEST(without_a_budget_every_launch_was_sure),
		TEST(odd_chances_and_strata_are_malformed),
		TEST(an_unknown_kind_is_a_kernel),
		TEST(numbers_may_not_be_defined_twice),
		TEST(bytes_that_are_no_message_are_refused),
		TEST(damage_is_survived),
		TEST(an_image_comes_in_pieces),
		TEST(a_broken_image_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
