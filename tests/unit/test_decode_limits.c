/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/lib/decode.h"
#include "proto/wire/limits.h"

/* What a program may make its client hold: ranges within ranges, names that never end, images. The
 * records go on. */

enum { NEW = 1000, TEXT_BYTES = 200, PROCESS = 9, SMALL = 1 << 20 };

struct fixture {
	struct decoder_memory memory;
	struct decoder *decoder;
	uint64_t n_records, n_marks;
	struct gpuctr_record last; /* what it points to lives as long as the decoder */
};

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	struct fixture *f = userdata;

	f->last = *r;
	f->n_records++;
}

static void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *m, void *userdata)
{
	struct fixture *f = userdata;

	assert_non_null(m->site);
	f->n_marks++;
}

static const struct gpuctr_capture_handler handler = {
	.on_record = on_record,
	.on_mark = on_mark,
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ 0 };
	decoder_memory_init(&f.memory);
	f.decoder = decoder_new(PROCESS, &f.memory);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	decoder_free(f->decoder);
	assert_int_equal(f->memory.objects.used, 0);
	assert_int_equal(f->memory.tables.used, 0);
	assert_int_equal(f->memory.images.used, 0);
	return 0;
}

/* The number-th batch: NEW strings, ranges each within the one before, one kernel, one set; and a
 * launch of all that in the innermost range, with a mark. */
static bool feed(struct fixture *f, uint32_t number)
{
	static char texts[NEW][TEXT_BYTES];
	static const char *strings[NEW];
	static uint32_t parents[NEW], names[NEW], none[NEW];
	uint32_t first = number * NEW + 1, kernel = first, kernel_id = number + 1, set_size = 2;
	uint32_t sites[2] = { first, first + NEW - 1 }, zero = 0, ones[3] = { 1, 1, 1 };
	uint64_t wide = 0;
	int64_t time = 0;
	double value = 1;
	const struct wire_record_columns c = {
		.first_string = first,
		.strings = { NEW, strings },
		.first_function = kernel_id,
		.function_name = { 1, &kernel },
		.function_static_shared = { 1, &zero },
		.function_registers = { 1, &zero },
		.first_site = first,
		.site_parent = { NEW, parents },
		.site_domain = { NEW, none },
		.site_name = { NEW, names },
		.site_category = { NEW, none },
		.site_color = { NEW, none },
		.site_sizes = { NEW, none },
		.site_kind = { NEW, none },
		.site_numbered = { NEW, none },
		.first_set = kernel_id,
		.set_size = { 1, &set_size },
		.set_site = { 2, sites },
		.kind = { 1, &zero },
		.function = { 1, &kernel_id },
		.grid = { 3, ones },
		.block = { 3, ones },
		.dynamic_shared = { 1, &zero },
		.device = { 1, &zero },
		.context = { 1, &zero },
		.stream = { 1, &wide },
		.correlation = { 1, &zero },
		.thread = { 1, &zero },
		.start_ns = { 1, &time },
		.site = { 1, &sites[1] },
		.opened = { 1, &zero },
		.payload_type = { 1, &zero },
		.payload = { 1, &wide },
		.number_bytes = { 1, &zero },
		.range_set = { 1, &kernel_id },
		.values = { 1, &value },
		.clock = { 1, &zero },
		.duration_ns = { 1, &wide },
		.mark_site = { 1, &sites[1] },
		.mark_payload_type = { 1, &zero },
		.mark_payload = { 1, &wide },
		.mark_number_bytes = { 1, &zero },
		.mark_thread = { 1, &zero },
		.mark_ns = { 1, &time },
	};
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS, .record_columns = c };
	struct wire_records r = { 1, PROCESS, number, 1, { 0 } };
	struct buffer b = { 0 };
	struct arena scratch;
	bool good;

	for (uint32_t i = 0; i < NEW; i++) {
		memset(texts[i], 'x', TEXT_BYTES - 1);
		snprintf(texts[i], 16, "%u", first + i);
		texts[i][strlen(texts[i])] = 'x';
		strings[i] = texts[i];
		parents[i] = first + i - 1;
		names[i] = first + i;
	}
	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode_payload(&scratch, &b, &m), 0);
	r.columns.n = buffer_length(&b);
	r.columns.v = b.data + b.start;
	good = decoder_feed(f->decoder, &r, 1, &handler, NULL, f);
	arena_deinit(&scratch);
	buffer_deinit(&b);
	return good;
}

static unsigned count_around(const struct gpuctr_site *range)
{
	unsigned n = 0;

	for (; range; range = range->parent) {
		n++;
	}
	return n;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(ranges_are_nested_so_deep_and_no_deeper)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 10; i++) {
		unsigned wanted = (i + 1) * NEW;

		assert_true(feed(f, i));
		wanted = wanted < DECODER_DEPTH_MAX ? wanted : DECODER_DEPTH_MAX;
		assert_int_equal(count_around(f->last.site), wanted);
		assert_int_equal(f->last.site->depth, wanted - 1);
		assert_int_equal(f->decoder->is_deep, (i + 1) * NEW > DECODER_DEPTH_MAX);
		assert_int_equal(f->last.n_active, 2);
	}
	assert_int_equal(f->n_records, 10);
	assert_int_equal(f->n_marks, 10);
	assert_false(f->decoder->is_full);
}

FIXTURE_TEST(records_go_on_without_what_is_not_kept)
{
	struct fixture *f = *state;

	f->memory.objects.max = SMALL;
	for (uint32_t i = 0; i < 100; i++) {
		bool was_full = f->decoder->is_full, kept;

		assert_true(feed(f, i));
		assert_int_equal(f->n_records, i + 1);
		assert_true(f->memory.objects.used <= SMALL);
		kept = strcmp(f->last.kernel->name, "(not kept)") != 0;
		assert_true(kept ? !was_full : f->decoder->is_full);
	}
	assert_true(f->decoder->is_full);
	assert_true(f->last.kernel->id > 1);
	/* In the innermost of those that are kept. */
	assert_true(count_around(f->last.site) < 6000);
	assert_int_equal(f->n_marks, 100);
}

/* Each record of another user's program lets it be told 4 KiB more. */
FIXTURE_TEST(what_another_user_has_kept_is_in_proportion_to_records)
{
	struct fixture *f = *state;
	size_t least;

	decoder_memory_bound(&f->memory);
	least = f->memory.objects.max;
	assert_int_equal(least, 32 << 20);
	for (uint32_t i = 0; i < 200; i++) {
		assert_true(feed(f, i));
		assert_int_equal(f->n_records, i + 1);
		assert_int_equal(f->memory.objects.max, least + (i + 1) * 4096);
		assert_true(f->memory.objects.used <= f->memory.objects.max);
	}
	assert_true(f->decoder->is_full);
	assert_true(f->memory.objects.used > least / 2);
	f->memory.objects.max = 256 << 20;
	assert_true(feed(f, 200));
	assert_int_equal(f->memory.objects.max, 256 << 20);
}

/* Of another process that has taken all there is. */
FIXTURE_TEST(who_comes_too_late_has_records_alone)
{
	struct fixture *f = *state;

	f->memory.objects.used = f->memory.objects.max;
	assert_true(feed(f, 0));
	assert_int_equal(f->n_records, 1);
	assert_int_equal(f->n_marks, 0);
	assert_null(f->last.site);
	assert_int_equal(f->last.n_active, 0);
	assert_string_equal(f->last.kernel->mangled, "(not kept)");
	assert_int_equal(f->last.kernel->id, 1);
	f->memory.objects.used = 0;
}

FIXTURE_TEST(numbers_are_bounded_too)
{
	struct fixture *f = *state;
	uint32_t i = 0;

	f->memory.tables.max = SMALL;
	while (i < 1000 && feed(f, i)) {
		i++;
	}
	assert_true(i > 10 && i < 200);
	assert_true(f->memory.tables.used <= SMALL);
	assert_true(f->decoder->is_full);
	assert_int_equal(f->n_records, i);
}

FIXTURE_TEST(images_share_their_room)
{
	static const uint8_t data[10000];
	struct fixture *f = *state;
	struct gpuctr_image image;
	struct wire_raw_image piece = { 1, PROCESS, 0, 1, 0, SMALL, { sizeof(data), data } };

	f->memory.images.max = 50000;
	assert_true(decoder_feed_image(f->decoder, &piece, &image));
	for (piece.offset = sizeof(data); decoder_feed_image(f->decoder, &piece, &image);) {
		piece.offset += sizeof(data);
	}
	assert_true(f->decoder->lost_image);
	assert_true(f->memory.images.used <= 50000);
	assert_false(f->decoder->is_full);
	piece.offset = 0;
	piece.size = sizeof(data);
	assert_true(decoder_feed_image(f->decoder, &piece, &image));
	assert_int_equal(image.size, sizeof(data));
}
