/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_fixture.h"

/* Batches that no agent of ours would send. */

/* --- malformed --- */

/* One number of a batch is another one, or more or less than it was. */
#define SET(member, to) SPOIL(member, to, " = ", false)
#define ADD(member, by) SPOIL(member, by, " + ", true)
#define SPOIL(member, by, how, adds)                                                \
	{                                                                           \
#member how #by, offsetof(struct sample, member),                   \
			sizeof(((const struct sample *)NULL)->member), (by), (adds) \
	}

static const struct spoiler {
	const char *name;
	size_t offset, bytes; /* of the number: 1, 4 or 8 */
	int64_t by;
	bool adds;
} spoilers[] = {
	ADD(count, 1),
	ADD(count, -1),
	ADD(columns.kind.n, -1),
	ADD(columns.function.n, -1),
	SET(columns.grid.n, RECORDS),
	ADD(columns.block.n, -1),
	ADD(columns.dynamic_shared.n, -1),
	ADD(columns.device.n, -1),
	SET(columns.context.n, 0),
	ADD(columns.stream.n, -1),
	ADD(columns.correlation.n, -1),
	ADD(columns.thread.n, -1),
	ADD(columns.start_ns.n, -1),
	ADD(columns.site.n, -1),
	ADD(columns.range_set.n, -1),
	ADD(columns.values.n, -1),
	SET(columns.values.n, 0),
	SET(columns.mark_thread.n, 0),
	SET(columns.mark_ns.n, 0),
	SET(mark_site[0], 4),
	SET(mark_site[0], 0),
	SET(columns.first_string, 2),
	SET(columns.first_string, 0),
	SET(columns.first_function, 3),
	SET(columns.first_site, UINT32_MAX),
	SET(columns.first_set, 2),
	SET(function_name[0], 6),
	SET(function_name[0], 0),
	SET(columns.function_static_shared.n, 1),
	SET(columns.function_registers.n, 1),
	ADD(columns.clock.n, -1),
	SET(columns.duration_ns.n, 0),
	SET(function[1], 3),
	SET(function[1], 0),
	SET(site[1], 4),
	SET(site[1], UINT32_MAX),
	SET(range_set[1], 3),
	SET(site_parent[1], 2),
	SET(site_parent[0], 2),
	SET(columns.site_domain.n, 2),
	SET(columns.site_name.n, 2),
	SET(columns.site_category.n, 2),
	SET(columns.site_color.n, 2),
	SET(columns.site_kind.n, 2),
	SET(columns.site_sizes.n, 2),
	SET(columns.site_parent.n, 2),
	SET(columns.site_numbered.n, 2),
	SET(site_kind[1], GPUCTR_SITE_ENGINE + 1),
	SET(site_numbered[1], GPUCTR_NUMBER_SEQ + 1),
	ADD(columns.opened.n, -1),
	ADD(columns.payload_type.n, -1),
	ADD(columns.payload.n, -1),
	ADD(columns.number_bytes.n, -1),
	ADD(number_bytes[2], 1),
	SET(numbers[3], 0x81), /* a number that goes on */
	SET(columns.mark_payload.n, 0),
	SET(columns.mark_payload_type.n, 0),
	SET(columns.mark_number_bytes.n, 0),
	SET(mark_number_bytes[0], 2),
	SET(set_site[0], 4),
	SET(set_site[0], 0),
	SET(set_size[1], 3),
	SET(set_size[0], UINT32_MAX),
};

static void spoil(struct sample *s, const struct spoiler *p)
{
	uint64_t value = 0;

	memcpy(&value, (char *)s + p->offset, p->bytes); /* little-endian, as all that we run on */
	value = p->adds ? value + (uint64_t)p->by : (uint64_t)p->by;
	memcpy((char *)s + p->offset, &value, p->bytes);
}

static bool is_taken(struct fixture *f)
{
	bool taken = feed(f);

	assert_true(f->n_records <= RECORDS);
	return taken;
}

static void begin_anew(struct fixture *f)
{
	decoder_free(f->decoder);
	f->decoder = decoder_new(9, &f->memory);
	f->n_records = 0;
	sample_init(&f->sample);
}

FIXTURE_TEST(every_malformed_batch_is_refused)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(spoilers); i++) {
		begin_anew(f);
		spoil(&f->sample, &spoilers[i]);
		if (is_taken(f)) {
			fail_msg("%s was taken", spoilers[i].name);
		}
	}
}

/* Each record has a graph and a node of one, or none has. */
FIXTURE_TEST(graphs_come_with_their_nodes)
{
	struct fixture *f = *state;

	for (int with_nodes = 0; with_nodes < 2; with_nodes++) {
		struct sample *s = &f->sample;

		begin_anew(f);
		s->columns.graph = (struct wire_u32s)ALL(s->clock);
		if (with_nodes) {
			s->columns.graph.n--;
			s->columns.graph_node =
				(struct wire_u64s){ s->columns.graph.n, s->duration_ns };
		}
		assert_false(is_taken(f));
	}
}

FIXTURE_TEST(numbers_may_not_be_defined_twice)
{
	struct fixture *f = *state;

	assert_true(feed(f));
	assert_false(feed(f)); /* the same definitions again, under the same numbers */
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

FIXTURE_TEST(an_image_comes_in_pieces)
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

FIXTURE_TEST(a_broken_image_is_refused)
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
