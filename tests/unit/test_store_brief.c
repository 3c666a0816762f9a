/* SPDX-License-Identifier: Apache-2.0 */

/* What a brief record lacks changes nothing else. Links client/store. */

#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

/* Two readers of one file, of which one is brief. */
struct readers {
	struct store_reader *all, *brief;
	struct store_cursor *of_all, *of_brief;
};

static void readers_open(struct readers *r, struct fixture *f)
{
	r->all = open_file(f);
	r->brief = open_file(f);
	store_be_brief(r->brief, true);
	assert_int_equal(store_records(r->all, 1, 0, 0, &r->of_all), 0);
	assert_int_equal(store_records(r->brief, 1, 0, 0, &r->of_brief), 0);
}

static void readers_close(struct readers *r)
{
	store_cursor_free(r->of_all);
	store_cursor_free(r->of_brief);
	store_reader_free(r->all);
	store_reader_free(r->brief);
}

static bool readers_next(struct readers *r, const struct gpuctr_record **all,
			 const struct gpuctr_record **brief)
{
	assert_int_equal(store_next_record(r->of_all, all), 0);
	assert_int_equal(store_next_record(r->of_brief, brief), 0);
	assert_int_equal(!*all, !*brief);
	return *all != NULL;
}

FIXTURE_TEST(test_brief_records_lack_what_is_in_no_sum)
{
	struct fixture *f = *state;
	const struct gpuctr_record *all, *brief;
	struct readers r;

	write_file(f, 20);
	readers_open(&r, f);
	while (readers_next(&r, &all, &brief)) {
		assert_int_equal(brief->correlation, 0);
		assert_int_equal(brief->opened, 0);
		assert_int_equal(brief->at.payload, 0);
		assert_null(brief->at.numbers);
		assert_int_equal(brief->start_ns, all->start_ns);
		assert_int_equal(brief->site ? brief->site->id : 0, all->site ? all->site->id : 0);
		assert_int_equal(brief->n_active, all->n_active);
		assert_int_equal(brief->index, all->index);
		assert_string_equal(brief->kernel->name, all->kernel->name);
		assert_memory_equal(brief->grid, all->grid, sizeof(all->grid));
		assert_memory_equal(brief->block, all->block, sizeof(all->block));
		assert_int_equal(brief->thread, all->thread);
		assert_int_equal(brief->duration_ns, all->duration_ns);
		assert_int_equal(brief->clock, all->clock);
		assert_memory_equal(brief->values, all->values, SYNTHETIC_COLUMNS * sizeof(double));
	}
	readers_close(&r);
}
