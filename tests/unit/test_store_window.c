/* SPDX-License-Identifier: Apache-2.0 */

/* Reading without keeping: ranges that pass by are those that were written, in bounded memory, and
 * what is left in the file changes nothing else. Links client/store. */

#include <malloc.h>

#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum { LAUNCHES = 30000, A_STEP = 1000, DEPTH = 20000, SET = 3 };

/* What was written. */
struct made_file {
	struct gpuctr_range **ranges;
	size_t n;
	struct {
		const struct gpuctr_range *range, *const *active;
		size_t n_active;
	} launches[LAUNCHES];
	unsigned n_launches;
};

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

static void free_written(struct made_file *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free((char *)(uintptr_t)w->ranges[i]->message);
		free(w->ranges[i]);
	}
	free(w->ranges);
	free(w);
}

static void write_one(struct store *s, struct fixture *f, struct made_file *w,
		      const struct gpuctr_range *range, const struct gpuctr_range *const *active,
		      size_t n_active)
{
	struct gpuctr_record record = *synthetic_record(&f->synthetic, w->n_launches);

	record.range = range;
	record.active = active;
	record.n_active = n_active;
	w->launches[w->n_launches].range = range;
	w->launches[w->n_launches].active = active;
	w->launches[w->n_launches++].n_active = n_active;
	assert_int_equal(store_write_record(s, &record), 0);
}

/* Each launch in two ranges of its own, as PyTorch's emit_nvtx() has them, within that of its step;
 * now and then one in a range of long before, or in none. */
static struct made_file *write_steps(struct fixture *f)
{
	struct made_file *w = calloc(1, sizeof(*w));
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
		write_one(s, f, w,
			  i % 97 == 0	? ranges[i % 31]
			  : i % 89 == 0 ? NULL
					: ranges[n - 1],
			  (const struct gpuctr_range *const *)&ranges[i / 500], i % 11 ? 0 : SET);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	w->ranges = ranges;
	w->n = n;
	return w;
}

/* A few launches in very many ranges. */
static struct made_file *write_deep(struct fixture *f)
{
	struct made_file *w = calloc(1, sizeof(*w));
	struct gpuctr_range **ranges = calloc(DEPTH, sizeof(struct gpuctr_range *));
	struct store *s = create(f);

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		ranges[i] = make_range(i + 1, i > 0 ? ranges[i - 1] : NULL, "%u");
	}
	for (unsigned i = 0; i < 50; i++) {
		write_one(s, f, w, ranges[i % 2 ? 0 : DEPTH - 1], NULL, 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	w->ranges = ranges;
	w->n = DEPTH;
	return w;
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

/* Reads all that was written. */
static void expect_ranges(struct fixture *f, const struct made_file *w, unsigned without)
{
	struct store_reader *r = open_file(f);
	const struct gpuctr_record *record;
	bool plain = without & STORE_LOOKS;
	struct store_cursor *c;
	unsigned n = 0;

	store_without(r, without);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	for (; store_next_record(c, &record) == 0 && record; n++) {
		expect_same_range(record->range, w->launches[n].range, plain);
		assert_int_equal(record->n_active,
				 without & STORE_ACTIVE ? 0 : w->launches[n].n_active);
		for (size_t i = 0; i < record->n_active; i++) {
			expect_same_range(record->active[i], w->launches[n].active[i], plain);
		}
	}
	assert_int_equal(store_reader_error(r)->code, 0);
	assert_int_equal(n, w->n_launches);
	store_cursor_free(c);
	store_reader_free(r);
}

/* --- tests ----------------------------------------------------------------------------------- */

FIXTURE_TEST(test_passing_ranges_are_those_that_were_written)
{
	struct fixture *f = *state;
	struct made_file *w = write_steps(f);

	expect_ranges(f, w, 0);
	expect_ranges(f, w, STORE_LOOKS);
	expect_ranges(f, w, STORE_ACTIVE | STORE_LOOKS);
	free_written(w);
}

FIXTURE_TEST(test_deep_ranges_pass_too)
{
	struct fixture *f = *state;
	struct made_file *w = write_deep(f);

	expect_ranges(f, w, 0);
	free_written(w);
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* By how much a reader grows after the first quarter of the file; SQLite's cache is full by then.
 */
static size_t growth_of_reader(struct fixture *f)
{
	size_t before = 0, after;
	struct store_reader *r = open_file(f);
	const struct gpuctr_record *record;
	struct store_cursor *c;

	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	while (store_next_record(c, &record) == 0 && record) {
		before = record->index == LAUNCHES / 4 ? bytes_in_use() : before;
	}
	after = bytes_in_use();
	store_cursor_free(c);
	store_reader_free(r);
	return after > before ? after - before : 0;
}

FIXTURE_TEST(test_ranges_are_not_kept)
{
	struct fixture *f = *state;
	struct made_file *w;
	size_t all, grown;

	if (bytes_in_use() == 0) {
		unit_skip("a sanitizer's malloc() does not tell what is in use");
	}
	w = write_steps(f);
	all = w->n * (sizeof(struct gpuctr_range) + sizeof("aten::inner, op_id = 12345"));
	grown = growth_of_reader(f);
	if (grown > all / 4) {
		fail_msg("%zu bytes more are kept, and all ranges have %zu", grown, all);
	}
	free_written(w);
}

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
	static const uint32_t none[3];
	struct fixture *f = *state;
	const struct gpuctr_record *all, *some;
	struct readers r;

	write_file(f, 20);
	readers_open(&r, f, STORE_BLOCK | STORE_ORIGIN | STORE_START | STORE_RANGES);
	while (readers_next(&r, &all, &some)) {
		assert_memory_equal(some->block, none, sizeof(none));
		assert_int_equal(some->dynamic_shared_bytes, 0);
		assert_int_equal(some->context, 0);
		assert_int_equal(some->stream, 0);
		assert_int_equal(some->correlation, 0);
		assert_int_equal(some->thread, 0);
		assert_int_equal(some->start_ns, 0);
		assert_null(some->range);
		assert_int_equal(some->index, all->index);
		assert_string_equal(some->kernel->name, all->kernel->name);
		assert_memory_equal(some->grid, all->grid, sizeof(all->grid));
		assert_int_equal(some->duration_ns, all->duration_ns);
		assert_int_equal(some->clock, all->clock);
		assert_memory_equal(some->values, all->values, SYNTHETIC_COLUMNS * sizeof(double));
	}
	readers_close(&r);
}
