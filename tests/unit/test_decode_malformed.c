/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/decode_fixture.h"

/* Batches that no agent of ours would send. */

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

FIXTURE_TEST(every_malformed_batch_is_refused)
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
