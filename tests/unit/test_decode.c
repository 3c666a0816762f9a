/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_fixture.h"

/* A batch comes from the measured program, which may be anything: what is well formed must arrive,
 * and every way of being malformed must be refused. The good batch below is changed in one place at
 * a time. */

static void define_nothing(struct sample *s)
{
	s->columns.strings.n = s->columns.function_name.n = s->columns.function_static_shared.n = 0;
	s->columns.function_registers.n = s->columns.node_parent.n = s->columns.node_domain.n = 0;
	s->columns.node_message.n = s->columns.node_category.n = s->columns.node_color.n = 0;
	s->columns.node_payload_type.n = s->columns.node_payload.n = s->columns.set_size.n =
		s->columns.set_node.n = 0;
}

static void copies_arrive(void **state)
{
	static const uint32_t kind[] = { GPUCTR_COPY_MEMORY, GPUCTR_COPY_SET }, number[] = { 0, 7 };
	static const uint64_t big[] = { 4096, 1 }, huge[] = { 1, INT64_MAX };
	static const int64_t late[] = { 5, INT64_MAX };
	static const int64_t start[] = { 5, 1795648812314527431 };
	static const uint32_t wrong[] = { 0, GPUCTR_COPY_UNTRACED + 1 };
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
	c->copy_kind.v = kind;
	define_nothing(&f->sample);
	for (size_t i = 0; i < 3; i++) { /* ends for which int64_t is too small */
		c->copy_start_ns.v = i == 1 ? late : start;
		c->copy_duration_ns.v = i == 2 ? huge : big;
		f->sample.first += RECORDS;
		assert_int_equal(feed(f), i == 0);
	}
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
		{ GPUCTR_CLOCK_GPU, UINT64_C(1) << 62 }, /* ends after 2^62 */
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
		TEST(strata_and_chances_arrive),
		TEST(the_last_number_of_a_stratum_is_one),
		TEST(groups_arrive),
		TEST(odd_groups_are_malformed),
		TEST(without_a_budget_every_launch_was_sure),
		TEST(odd_chances_and_strata_are_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
