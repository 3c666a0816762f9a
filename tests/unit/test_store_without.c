/* SPDX-License-Identifier: Apache-2.0 */

/* What is left in the file changes nothing else. Links client/store. */

#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

/* Two readers of one file, of which one leaves something out. */
struct readers {
	struct store_reader *all, *some;
	struct store_cursor *of_all, *of_some;
};

static void readers_open(struct readers *r, struct fixture *f, unsigned without)
{
	r->all = open_file(f);
	r->some = open_file(f);
	store_without(r->some, without);
	assert_int_equal(store_records(r->all, 1, 0, 0, &r->of_all), 0);
	assert_int_equal(store_records(r->some, 1, 0, 0, &r->of_some), 0);
}

static void readers_close(struct readers *r)
{
	store_cursor_free(r->of_all);
	store_cursor_free(r->of_some);
	store_reader_free(r->all);
	store_reader_free(r->some);
}

static bool readers_next(struct readers *r, const struct gpuctr_record **all,
			 const struct gpuctr_record **some)
{
	assert_int_equal(store_next_record(r->of_all, all), 0);
	assert_int_equal(store_next_record(r->of_some, some), 0);
	assert_int_equal(!*all, !*some);
	return *all != NULL;
}

FIXTURE_TEST(test_what_is_left_out_is_zero)
{
	struct fixture *f = *state;
	const struct gpuctr_record *all, *some;
	struct readers r;

	write_file(f, 20);
	readers_open(&r, f, STORE_START | STORE_SITES);
	while (readers_next(&r, &all, &some)) {
		assert_int_equal(some->start_ns, 0);
		assert_null(some->site);
		assert_int_equal(some->opened, 0);
		assert_int_equal(some->index, all->index);
		assert_string_equal(some->kernel->name, all->kernel->name);
		assert_memory_equal(some->grid, all->grid, sizeof(all->grid));
		assert_memory_equal(some->block, all->block, sizeof(all->block));
		assert_int_equal(some->thread, all->thread);
		assert_int_equal(some->duration_ns, all->duration_ns);
		assert_int_equal(some->clock, all->clock);
		assert_memory_equal(some->values, all->values, SYNTHETIC_COLUMNS * sizeof(double));
	}
	readers_close(&r);
}
