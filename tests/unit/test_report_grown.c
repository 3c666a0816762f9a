/* SPDX-License-Identifier: Apache-2.0 */

/* A capture that is being written has more records when a report reads it for the second time than
 * when their values were calculated. Links report_source.c; what it reads the second time is
 * another file. */

#include "tests/unit/store_fixture.h"

#include "client/cli/report_source.h"

static const char *second_path;

int __real_reading_capture(const char *path, const struct reading_handler *handler, void *userdata,
			   struct store_error *error);
int __wrap_reading_capture(const char *path, const struct reading_handler *handler, void *userdata,
			   struct store_error *error);

int __wrap_reading_capture(const char *path, const struct reading_handler *handler, void *userdata,
			   struct store_error *error)
{
	return __real_reading_capture(second_path ? second_path : path, handler, userdata, error);
}

static void write_sampled(struct fixture *f, const char *path, unsigned records)
{
	static const struct gpuctr_term terms[] = { { 0, 0, 1 }, { 1, 1, 1 }, { 2, 2, 1 } };
	static const int64_t times[1][2] = { { 1700000000000000000, 1700000000000010000 } };
	static const double values[SYNTHETIC_COLUMNS] = { 1, 2, 3 };
	struct gpuctr_plan plan = f->synthetic.plan;
	const struct store_options options = { .path = path,
					       .plan = &plan,
					       .driver = "",
					       .version = "0.1.0",
					       .sampled = true,
					       .keeps_samples = true };
	const struct store_samples samples = { .gpu = f->synthetic.device.uuid,
					       .interval_ns = 10000,
					       .n = 1,
					       .times = times,
					       .values = values };
	struct store *s = NULL;

	plan.terms = terms;
	plan.n_terms = ARRAY_SIZE(terms);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < records; i++) {
		struct gpuctr_record record = *synthetic_record(&f->synthetic, i);

		record.values = record.errors = NULL;
		assert_int_equal(store_write_record(s, &record, NULL), 0);
	}
	assert_int_equal(store_write_samples(s, &samples), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
}

static bool report(struct fixture *f)
{
	static const struct keys keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	static const struct strings none;
	struct report_source s;
	bool good;

	assert_true(report_source_open(&s, &keys, false, &none));
	s.attributes = true;
	good = report_source_read(&s, f->path);
	report_source_close(&s);
	return good;
}

TEST_WITH(values_of_a_capture_that_has_grown_are_refused, setup, teardown)
{
	struct fixture *f = *state;
	char grown[128];

	snprintf(grown, sizeof(grown), "%s/grown.gpuctr", f->folder);
	write_sampled(f, f->path, 10);
	write_sampled(f, grown, 11);
	assert_true(report(f));
	second_path = grown;
	assert_false(report(f));
	second_path = NULL;
}
