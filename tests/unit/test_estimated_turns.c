/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/estimated_fixture.h"

/* Rows of captures whose metrics took turns. */

/* --- in turns --- */

/* The kernel does 5 operations a byte. */
static struct groups *run_turns(const char *by, double *ret_bytes)
{
	const struct gpuctr_stratum stratum = {
		.process = 1, .id = 1, .kernel = &kernel, .seen = TURN_LAUNCHES
	};
	uint64_t random = 3;
	struct groups *g;

	g = begin_turns(by);
	for (unsigned i = 0; i < TURN_LAUNCHES; i++) {
		double bytes = floor(1000 * (1 + uniform(&random)));
		unsigned group = i / TURN % 2;
		double values[2] = { group == 0 ? bytes : NAN, group == 1 ? 5 * bytes : NAN };
		const struct gpuctr_record record = { .process = 1,
						      .kernel = &kernel,
						      .clock = GPUCTR_CLOCK_GPU,
						      .duration_ns = 1000,
						      .values = values,
						      .stratum = 1,
						      .chance = 0.5 * CHANCE,
						      .stream = i % 2,
						      .group = group };

		*ret_bytes += bytes;
		if (uniform(&random) < CHANCE) {
			assert_int_equal(groups_record(g, &record, NULL), 0);
		}
	}
	assert_int_equal(groups_stratum(g, &stratum), 0);
	assert_int_equal(groups_finish(g), 0);
	return g;
}

static void ratios_of_groups_are_joined(void **state)
{
	static const double expected[] = { [DERIVED_BANDWIDTH] = 1500 / 1e-6,
					   [DERIVED_PEAK] = NAN,
					   [DERIVED_RATE] = 7500 / 1e-6,
					   [DERIVED_INTENSITY] = 5 };
	struct derived derived[DERIVED_MAX];
	const struct measure *measures;
	const struct group *all;
	struct groups *g;
	struct estimate e;
	double bytes = 0;
	size_t n;

	(void)state;
	g = run_turns("kernel", &bytes);
	assert_true(groups_take_turns(g));
	all = groups_all(g);
	n = groups_measures(g, &measures);
	e = estimated_total(all, &measures[1], 1);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	assert_true(fabs(e.value - bytes) < 4 * e.error && e.error < 0.1 * bytes);
	n = derived_find(measures, n, derived);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		const struct derived *d = &derived[i];

		/* A launch has its time in any group, and bytes or operations. */
		assert_int_equal(derived_is_joined(d, all), d->kind == DERIVED_INTENSITY);
		e = derived_estimate(d, all);
		if (!isnan(expected[d->kind])) {
			assert_true(fabs(e.value / expected[d->kind] - 1) < 0.1);
			assert_true(e.error > 0 && e.error < 0.1 * e.value);
		}
	}
	groups_free(g);
}

/* Whatever the rows are of, all of them together are the same launches in the same turns. */
static void all_is_the_same_by_any_key(void **state)
{
	double bytes = 0;
	struct groups *by_kernel = run_turns("kernel", &bytes),
		      *by_stream = run_turns("stream", &bytes);
	const struct measure m = { .adds_up = true };

	(void)state;
	for (size_t i = 1; i <= 2; i++) {
		struct estimate a = estimated_total(groups_all(by_kernel), &m, i);
		struct estimate b = estimated_total(groups_all(by_stream), &m, i);

		assert_int_equal(a.kind, ESTIMATE_GUESS);
		expect_near(b.value, a.value);
		expect_near(b.error, a.error);
	}
	groups_free(by_kernel);
	groups_free(by_stream);
}

/* Each context has turns of its own: one that is always in the same group has one turn, whatever
 * comes between its records. */
static void turns_are_of_their_context(void **state)
{
	struct groups *g = begin_turns("kernel");
	const struct gpuctr_stratum stratum = {
		.process = 1, .id = 1, .kernel = &kernel, .seen = 100
	};

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		double values[2] = { i % 2 ? NAN : 10 + i % 3, i % 2 ? 20 + i % 5 : NAN };
		const struct gpuctr_record record = { .process = 1,
						      .kernel = &kernel,
						      .clock = GPUCTR_CLOCK_NONE,
						      .values = values,
						      .stratum = 1,
						      .chance = 0.1,
						      .context = 1 + i % 2,
						      .group = i % 2 };

		assert_int_equal(groups_record(g, &record, NULL), 0);
	}
	assert_int_equal(groups_stratum(g, &stratum), 0);
	assert_int_equal(groups_finish(g), 0);
	for (size_t i = 1; i <= 2; i++) {
		assert_int_equal(estimated_total(groups_all(g),
						 &(struct measure){ .adds_up = true }, i)
					 .kind,
				 ESTIMATE_ONCE);
	}
	groups_free(g);
}

/* A kind of launches was told, and no launch of it was seen: there is no row, and nothing to sort.
 */
static void a_kind_without_launches_is_no_row(void **state)
{
	struct made m = { 0 };
	struct group **rows;

	(void)state;
	begin(&m, "kernel");
	tell(&m, 0, 0);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_int_equal(groups_rows(m.groups, &rows), 0);
	assert_true(groups_are_estimated(m.groups));
	groups_free(m.groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strata_that_lack_in_turns_are_predicted),
		cmocka_unit_test(one_turn_in_one_row_is_not_the_whole_stratum),
		cmocka_unit_test(ratios_of_groups_are_joined),
		cmocka_unit_test(all_is_the_same_by_any_key),
		cmocka_unit_test(turns_are_of_their_context),
		cmocka_unit_test(a_kind_without_launches_is_no_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
