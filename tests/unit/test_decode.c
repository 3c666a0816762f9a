/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_fixture.h"

/* A batch comes from the measured program, which may be anything: what is well formed must arrive,
 * and every way of being malformed must be refused. The good batch below is changed in one place at
 * a time. */

static void define_nothing(struct sample *s)
{
	s->columns.strings.n = s->columns.function_name.n = s->columns.function_static_shared.n = 0;
	s->columns.function_registers.n = s->columns.site_parent.n = s->columns.site_domain.n = 0;
	s->columns.site_name.n = s->columns.site_category.n = s->columns.site_color.n = 0;
	s->columns.site_sizes.n = s->columns.site_kind.n = s->columns.site_numbered.n = 0;
	s->columns.set_size.n = s->columns.set_site.n = 0;
}

FIXTURE_TEST(copies_arrive)
{
	static const uint32_t kind[] = { GPUCTR_COPY_MEMORY, GPUCTR_COPY_SET }, number[] = { 0, 7 };
	static const uint64_t big[] = { 4096, 1 }, huge[] = { 1, INT64_MAX };
	static const int64_t late[] = { 5, INT64_MAX };
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
	c->copy_kind.v = kind;
	define_nothing(&f->sample);
	for (size_t i = 0; i < 3; i++) { /* ends for which int64_t is too small */
		c->copy_start_ns.v = i == 1 ? late : start;
		c->copy_duration_ns.v = i == 2 ? huge : big;
		f->sample.first += RECORDS;
		assert_int_equal(feed(f), i == 0);
	}
}

FIXTURE_TEST(kernels_of_graphs_arrive)
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

FIXTURE_TEST(a_good_batch_arrives_whole)
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

FIXTURE_TEST(sites_keep_their_stack)
{
	struct fixture *f = *state;
	const struct gpuctr_site *site;

	assert_true(feed(f));
	site = f->records[0].site;
	assert_string_equal(site->name, "layer");
	assert_string_equal(site->domain, "");
	assert_string_equal(site->category, "");
	assert_string_equal(site->sizes, "");
	assert_int_equal(site->color, 0xff00ff00);
	assert_int_equal(site->depth, 1);
	assert_int_equal(site->n_numbers, 1);
	assert_string_equal(site->parent->name, "step");
	assert_int_equal(site->parent->kind, GPUCTR_SITE_STEP);
	assert_int_equal(site->parent->numbered, GPUCTR_NUMBER_STEP);
	assert_null(site->parent->parent);
	assert_null(f->records[1].site);
	assert_int_equal(f->records[0].n_active, 1);
	assert_int_equal(f->records[1].n_active, 2);
	assert_ptr_equal(f->records[1].active[0], site->parent);
	assert_int_equal(f->records[2].n_active, 0);
	assert_int_equal(f->n_marks, 1);
	assert_ptr_equal(f->mark.site, site->parent);
	assert_int_equal(f->mark.time_ns, 42);
}

FIXTURE_TEST(occurrences_have_their_own)
{
	static const unsigned opened[RECORDS] = { 1, 0, 1 }; /* no more than there are */
	static const int64_t numbers[RECORDS + 1] = { 12, -7, 68, -1 };
	struct fixture *f = *state;

	assert_true(feed(f));
	for (size_t i = 0; i < RECORDS; i++) {
		assert_int_equal(f->records[i].opened, opened[i]);
	}
	assert_memory_equal(f->numbers, numbers, sizeof(numbers));
	assert_int_equal(f->records[0].at.payload_type, 1);
	assert_int_equal(f->records[0].at.payload, 77);
	assert_int_equal(f->records[1].at.payload_type, 0);
	assert_int_equal(f->mark.at.payload_type, 2);
	assert_int_equal(f->mark.at.payload, 5);
}

/* As of ranges in so many others that their numbers had no room. */
FIXTURE_TEST(numbers_that_were_not_told_are_unknown)
{
	struct fixture *f = *state;

	f->sample.number_bytes[0] = 0;
	f->sample.number_bytes[1] = 2;
	assert_true(feed(f));
	assert_int_equal(f->numbers[0], -1);
	assert_int_equal(f->numbers[2], 68);
}

/* Definitions are sent once; later batches refer to them. */
FIXTURE_TEST(definitions_last_over_batches)
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
	assert_string_equal(f->records[0].site->parent->name, "step");
}

/* A file refuses a record's second coming, and would take nothing more from anybody. */
FIXTURE_TEST(a_record_comes_once)
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

/* 250 bytes that stand for a gigabyte, because each type is twice the one before. */
FIXTURE_TEST(a_name_that_explodes_stays_mangled)
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

FIXTURE_TEST(a_batch_of_definitions_alone_is_fine)
{
	struct fixture *f = *state;

	f->sample.columns = (struct wire_record_columns){ .first_string = 1,
							  .strings = ALL(f->sample.strings) };
	f->sample.count = 0;
	assert_true(feed(f));
	assert_int_equal(f->n_records, 0);
}

/* --- in turns --- */

FIXTURE_TEST(odd_groups_are_malformed)
{
	static const uint32_t groups[RECORDS] = { 0, LIMIT_GROUPS, 0 };
	struct fixture *f = *state;

	f->sample.columns.group = (struct wire_u32s){ RECORDS - 1, groups };
	assert_false(feed(f));
	f->sample.columns.group.n = RECORDS;
	assert_false(feed(f));
}
