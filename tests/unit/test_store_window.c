/* SPDX-License-Identifier: Apache-2.0 */

/* Reading without keeping: ranges that pass by are those that a reader has who loads them all, in
 * bounded memory, and what is left in the file changes nothing else. Links client/store. */

#include <malloc.h>

#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum { LAUNCHES = 30000, A_STEP = 1000, DEPTH = 20000, SET = 3 };

/* --- files ----------------------------------------------------------------------------------- */

static struct gpuctr_range *make_range(unsigned id, const struct gpuctr_range *parent,
				       const char *format)
{
	struct gpuctr_range *range = calloc(1, sizeof(*range));
	char *message;

	assert_true(asprintf(&message, format, id) > 0);
	*range = (struct gpuctr_range){ .parent = parent,
					.domain = id % 5 ? "" : "libtorch",
					.message = message,
					.category = id % 7 ? "" : "operator",
					.color = id,
					.payload_type = 2,
					.payload = id * UINT64_C(3),
					.id = id,
					.depth = parent ? parent->depth + 1 : 0 };
	return range;
}

static void free_ranges(struct gpuctr_range **ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((char *)(uintptr_t)ranges[i]->message);
		free(ranges[i]);
	}
	free(ranges);
}

static void write_one(struct store *s, struct fixture *f, uint64_t index,
		      const struct gpuctr_range *range, const struct gpuctr_range *const *active,
		      size_t n_active)
{
	struct gpuctr_record record = *synthetic_record(&f->synthetic, index);

	record.range = range;
	record.active = active;
	record.n_active = n_active;
	assert_int_equal(store_write_record(s, &record), 0);
}

/* Each launch in two ranges of its own, as PyTorch's emit_nvtx() has them, within that of its step;
 * now and then one in a range of long before, or in none. */
static void write_steps(struct fixture *f)
{
	struct gpuctr_range **ranges = calloc(3 * LAUNCHES, sizeof(struct gpuctr_range *));
	struct gpuctr_range *step = NULL;
	struct store *s = create(f);
	unsigned n = 0;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		if (i % A_STEP == 0) {
			step = ranges[n] = make_range(n + 1, NULL, "iteration %u");
			n++;
		}
		ranges[n] = make_range(n + 1, step, "aten::outer, op_id = %u");
		ranges[n + 1] = make_range(n + 2, ranges[n], "aten::inner, op_id = %u");
		n += 2;
		write_one(s, f, i,
			  i % 97 == 0	? ranges[i % 31]
			  : i % 89 == 0 ? NULL
					: ranges[n - 1],
			  (const struct gpuctr_range *const *)&ranges[i / 500], i % 11 ? 0 : SET);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	free_ranges(ranges, n);
}

/* A few launches in very many ranges. */
static void write_deep(struct fixture *f)
{
	struct gpuctr_range **ranges = calloc(DEPTH, sizeof(struct gpuctr_range *));
	struct store *s = create(f);

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		ranges[i] = make_range(i + 1, i > 0 ? ranges[i - 1] : NULL, "%u");
	}
	for (unsigned i = 0; i < 50; i++) {
		write_one(s, f, i, ranges[i % 2 ? 0 : DEPTH - 1], NULL, 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	free_ranges(ranges, DEPTH);
}

/* --- what is expected ------------------------------------------------------------------------ */

static void expect_same_range(const struct gpuctr_range *a, const struct gpuctr_range *b,
			      bool plain)
{
	for (; a && b; a = a->parent, b = b->parent) {
		assert_int_equal(a->id, b->id);
		assert_int_equal(a->depth, b->depth);
		assert_string_equal(a->message, b->message);
		assert_string_equal(a->domain, b->domain);
		assert_string_equal(a->category, plain ? "" : b->category);
		assert_int_equal(a->color, plain ? 0 : b->color);
		assert_int_equal(a->payload, plain ? 0 : b->payload);
	}
	assert_true(!a && !b);
}

/* One reader has all ranges, and the other lets them pass by. */
struct readers {
	struct store_reader *all, *passing;
	struct store_cursor *of_all, *of_passing;
};

static void readers_open(struct readers *r, struct fixture *f, unsigned without)
{
	r->all = open_file(f);
	r->passing = open_file(f);
	store_without(r->passing, without);
	store_passing_ranges(r->passing);
	assert_int_equal(store_records(r->all, 1, 0, 0, &r->of_all), 0);
	assert_int_equal(store_records(r->passing, 1, 0, 0, &r->of_passing), 0);
}

static void readers_close(struct readers *r)
{
	store_cursor_free(r->of_all);
	store_cursor_free(r->of_passing);
	store_reader_free(r->all);
	store_reader_free(r->passing);
}

static bool readers_next(struct readers *r, const struct gpuctr_record **all,
			 const struct gpuctr_record **passing)
{
	assert_int_equal(store_next_record(r->of_all, all), 0);
	assert_int_equal(store_next_record(r->of_passing, passing), 0);
	assert_int_equal(!*all, !*passing);
	return *all != NULL;
}

static void expect_same_ranges(struct fixture *f, unsigned without, unsigned n)
{
	const struct gpuctr_record *all, *passing;
	bool plain = without & STORE_LOOKS;
	struct readers r;
	unsigned read = 0;

	readers_open(&r, f, without);
	for (; readers_next(&r, &all, &passing); read++) {
		expect_same_range(passing->range, all->range, plain);
		assert_int_equal(passing->n_active, without & STORE_ACTIVE ? 0 : all->n_active);
		for (size_t i = 0; i < passing->n_active; i++) {
			expect_same_range(passing->active[i], all->active[i], plain);
		}
	}
	assert_int_equal(read, n);
	readers_close(&r);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_passing_ranges_are_the_same(void **state)
{
	struct fixture *f = *state;

	write_steps(f);
	expect_same_ranges(f, 0, LAUNCHES);
	expect_same_ranges(f, STORE_LOOKS, LAUNCHES);
	expect_same_ranges(f, STORE_ACTIVE | STORE_LOOKS, LAUNCHES);
}

static void test_deep_ranges_pass_too(void **state)
{
	struct fixture *f = *state;

	write_deep(f);
	expect_same_ranges(f, 0, 50);
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* What a reader holds when it has come to the end. */
static size_t bytes_of_reader(struct fixture *f, bool passing)
{
	size_t before = bytes_in_use(), after;
	struct store_reader *r = open_file(f);
	const struct store_definitions *d;
	const struct gpuctr_record *record;
	struct store_cursor *c;

	if (passing) {
		store_passing_ranges(r);
	}
	assert_int_equal(store_load(r, 1, &d), 0);
	assert_int_equal(d->n_ranges > 0, !passing);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	while (store_next_record(c, &record) == 0 && record) {
	}
	after = bytes_in_use();
	store_cursor_free(c);
	store_reader_free(r);
	return after - before;
}

static void test_ranges_are_not_kept(void **state)
{
	struct fixture *f = *state;
	size_t all, passing;

	if (bytes_in_use() == 0) {
		unit_skip("a sanitizer's malloc() does not tell what is in use");
	}
	write_steps(f);
	all = bytes_of_reader(f, false);
	passing = bytes_of_reader(f, true);
	if (passing * 3 > all * 2) {
		fail_msg("%zu bytes are kept, and %zu when all are", passing, all);
	}
}

static void test_what_is_left_out_is_zero(void **state)
{
	static const uint32_t none[3];
	struct fixture *f = *state;
	const struct gpuctr_record *all, *passing;
	struct readers r;

	write_file(f, 20);
	readers_open(&r, f, STORE_BLOCK | STORE_ORIGIN | STORE_START | STORE_RANGES);
	while (readers_next(&r, &all, &passing)) {
		assert_memory_equal(passing->block, none, sizeof(none));
		assert_int_equal(passing->dynamic_shared_bytes, 0);
		assert_int_equal(passing->context, 0);
		assert_int_equal(passing->stream, 0);
		assert_int_equal(passing->correlation, 0);
		assert_int_equal(passing->thread, 0);
		assert_int_equal(passing->start_ns, 0);
		assert_null(passing->range);
		assert_int_equal(passing->index, all->index);
		assert_string_equal(passing->kernel->name, all->kernel->name);
		assert_memory_equal(passing->grid, all->grid, sizeof(all->grid));
		assert_int_equal(passing->duration_ns, all->duration_ns);
		assert_int_equal(passing->clock, all->clock);
		assert_memory_equal(passing->values, all->values,
				    SYNTHETIC_COLUMNS * sizeof(double));
	}
	readers_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_passing_ranges_are_the_same),
		TEST(test_deep_ranges_pass_too),
		TEST(test_ranges_are_not_kept),
		TEST(test_what_is_left_out_is_zero),
	};

	return cmocka_run_group_tests_name("store_window", tests, NULL, NULL);
}
