/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/estimated.h"
#include "client/report/site_sums.h"

/* What is told of a kernel's call sites, against what is told of the kernel. */

static const struct gpuctr_column columns[] = { { .name = "dram__bytes.sum", .unit = "byte" } };
static const struct gpuctr_plan plan = { .chip = "GH100", .columns = columns, .n_columns = 1 };
static const struct gpuctr_kernel kernel = { .name = "k", .mangled = "", .id = 1 };

static struct intake intake;

static struct site_sums *begin(void)
{
	const struct gpuctr_process process = { .process = 1, .program = "p" };
	struct site_sums *p;

	intake = (struct intake){ 0 };
	p = site_sums_new(&intake, NULL);
	assert_non_null(p);
	assert_int_equal(intake_begin(&intake, &plan, "run.gpuctr", "", NULL), 0);
	assert_int_equal(intake_process(&intake, &process), 0);
	return p;
}

/* stratum 0: everything is measured. */
static void add(struct site_sums *p, const char *site, unsigned stratum, double bytes)
{
	const struct gpuctr_record record = { .process = 1,
					      .kernel = &kernel,
					      .clock = GPUCTR_CLOCK_GPU,
					      .duration_ns = 10,
					      .values = &bytes,
					      .stratum = stratum,
					      .chance = stratum ? 0.5 : 1 };

	assert_int_equal(site_sums_at(p, site), 0);
	assert_int_equal(intake_record(&intake, &record, NULL), 0);
}

static void tell(unsigned stratum, uint64_t seen)
{
	const struct gpuctr_stratum s = {
		.process = 1, .id = stratum, .kernel = &kernel, .seen = seen
	};

	assert_int_equal(intake_stratum(&intake, &s), 0);
}

struct sums {
	unsigned n;
	double launches, bytes, nowhere, largest;
};

static int on_site(const struct site_sum *site, void *userdata)
{
	struct sums *sums = userdata;
	double bytes = site->values[1];

	assert_string_equal(site->kernel, "k");
	sums->n++;
	sums->launches += site->launches;
	sums->bytes += isnan(bytes) ? 0 : bytes;
	sums->nowhere += *site->site ? 0 : bytes;
	sums->largest = *site->site && bytes > sums->largest ? bytes : sums->largest;
	return 0;
}

/* Of the only kernel. */
static struct sums expect_sum_of_kernel(struct site_sums *p)
{
	struct sums sums = { 0 };
	const struct measure *measures;
	struct group **rows;
	double told;

	assert_int_equal(site_sums_finish(p), 0);
	assert_int_equal(site_sums_each(p, on_site, &sums), 0);
	groups_measures(site_sums_kernels(p), &measures);
	assert_int_equal(groups_rows(site_sums_kernels(p), &rows), 1);
	told = estimated_self(rows[0], &measures[1], 1).value;
	if (fabs(sums.bytes / told - 1) > 1e-9) {
		fail_msg("call sites have %g, the kernel %g", sums.bytes, told);
	}
	assert_true(fabs(sums.launches - group_launches(rows[0], false)) < 1e-6);
	site_sums_free(p);
	return sums;
}

static void what_was_measured_whole_is_told_as_it_is(void **state)
{
	struct site_sums *p = begin();
	struct sums sums;

	(void)state;
	add(p, "b", 0, 10);
	add(p, "a", 0, 5);
	add(p, "b", 0, 20);
	sums = expect_sum_of_kernel(p);
	assert_int_equal(sums.n, 2);
	assert_true(sums.bytes == 35 && sums.largest == 30 && sums.launches == 3);
}

/* Three kinds, and a fourth of which one launch was measured, which is much more. By itself it
 * stands for all of its kind; beside the others, who have not shown how much launches of a kind
 * differ, it stands for itself. */
static void site_sums_are_no_more_than_their_kernel(void **state)
{
	struct site_sums *p = begin();
	struct sums sums;

	(void)state;
	for (unsigned s = 1; s <= 4; s++) {
		for (unsigned i = 0; i < (s < 4 ? 5 : 1); i++) {
			add(p, s < 4 ? "usual" : "rare", s, s < 4 ? 100 + s + i : 10000);
		}
		tell(s, 10);
	}
	sums = expect_sum_of_kernel(p);
	assert_int_equal(sums.n, 2);
	assert_true(sums.largest < 90000 && sums.nowhere == 0);
}

/* Seven kinds, and an eighth of which nothing was measured: its launches may have been anywhere. */
static void what_was_never_measured_is_nowhere(void **state)
{
	struct site_sums *p = begin();
	struct sums sums;

	(void)state;
	for (unsigned s = 1; s <= 8; s++) {
		for (unsigned i = 0; s < 8 && i < 5; i++) {
			add(p, "usual", s, 100 + s + i);
		}
		tell(s, 10);
	}
	sums = expect_sum_of_kernel(p);
	assert_int_equal(sums.n, 2);
	assert_true(sums.launches == 80);
	assert_true(sums.nowhere > 900 && sums.nowhere < 1200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_measured_whole_is_told_as_it_is),
		cmocka_unit_test(site_sums_are_no_more_than_their_kernel),
		cmocka_unit_test(what_was_never_measured_is_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
