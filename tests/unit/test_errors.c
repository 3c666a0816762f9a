/* SPDX-License-Identifier: Apache-2.0 */

/* Values that are of samples have standard errors: through the capture file, in streams, and in
 * sums, where what is alike adds up and the rest by squares. */

#include "tests/unit/store_fixture.h"

#include "client/cli/export.h"
#include "client/cli/jsonl.h"
#include "client/report/errors.h"
#include "client/report/table.h"
#include "client/report/view.h"

static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes_read.sum", .unit = "byte" },
	{ .name = "dram__bytes_write.sum", .unit = "byte" },
};
static const struct gpuctr_plan plan = {
	.chip = "GH100", .passes = 1, .groups = 1, .columns = columns, .n_columns = 2
};
static const struct gpuctr_kernel kernels[] = {
	{ .name = "alpha", .mangled = "alpha", .id = 1 },
	{ .name = "beta", .mangled = "beta", .id = 2 },
	{ .name = "gamma", .mangled = "gamma", .id = 3 },
};
static const struct gpuctr_process process = {
	.process = 1, .pid = 10, .program = "p", .cupti = "", .driver = "", .recorded_from = ""
};

/* kernel, alike, error of both columns. 3 and 4 of one alike, in two rows, are 7. */
static const struct {
	unsigned kernel, alike;
	double value, error;
} made[] = {
	{ 0, 1, 100, 3 }, { 1, 1, 200, 4 }, { 0, 2, 300, 24 }, { 0, 0, 400, 1 }, { 0, 0, 500, NAN },
};
enum { RECORDS = sizeof(made) / sizeof(made[0]) };

static struct gpuctr_record record_of(size_t i, double *values, double *errors)
{
	values[0] = isnan(made[i].error) ? NAN : made[i].value;
	values[1] = 1;
	errors[0] = made[i].error;
	errors[1] = 0;
	return (struct gpuctr_record){ .process = 1,
				       .index = i,
				       .kernel = &kernels[made[i].kernel],
				       .start_ns = 1000,
				       .duration_ns = 10,
				       .clock = GPUCTR_CLOCK_GPU,
				       .values = values,
				       .errors = errors,
				       .alike = made[i].alike };
}

static void write_sampled(struct fixture *f, bool sampled)
{
	const struct store_options options = {
		.path = f->path, .plan = &plan, .driver = "", .version = "", .sampled = sampled
	};
	struct store *s;

	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_process(s, &process), 0);
	for (size_t i = 0; i < RECORDS; i++) {
		double values[2], errors[2];
		struct gpuctr_record r = record_of(i, values, errors);

		if (i == 3) {
			assert_int_equal(store_rest(s), 0); /* and opened again */
			assert_int_equal(store_wake(s), 0);
		}
		assert_int_equal(store_write_record(s, &r, NULL), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
}

TEST_WITH(test_a_file_keeps_errors, setup, teardown)
{
	struct fixture *f = *state;
	struct store_reader *r;
	struct store_cursor *c;
	const struct gpuctr_record *record;

	write_sampled(f, true);
	r = open_file(f);
	assert_true(store_info(r)->sampled);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	for (size_t i = 0; i < RECORDS; i++) {
		assert_int_equal(store_next_record(c, &record), 0);
		assert_non_null(record->errors);
		assert_int_equal(record->alike, made[i].alike);
		assert_int_equal(isnan(record->values[0]), isnan(made[i].error));
		assert_true(isnan(made[i].error) ? isnan(record->errors[0])
						 : record->errors[0] == made[i].error);
		assert_true(record->values[1] == 1 && record->errors[1] == 0);
	}
	store_cursor_free(c);
	store_reader_free(r);
}

TEST_WITH(test_a_file_of_counted_values_has_none, setup, teardown)
{
	struct fixture *f = *state;
	struct store_reader *r;
	struct store_cursor *c;
	const struct gpuctr_record *record;

	write_sampled(f, false);
	r = open_file(f);
	assert_false(store_info(r)->sampled);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	assert_int_equal(store_next_record(c, &record), 0);
	assert_null(record->errors);
	store_cursor_free(c);
	store_reader_free(r);
}

/* A file that says so and has no such table, or another, is refused. */
TEST_WITH(test_a_file_without_its_errors_is_refused, setup, teardown)
{
	struct fixture *f = *state;

	write_sampled(f, true);
	alter(f, "DROP TABLE sampled");
	expect_refused(f, STORE_E_CORRUPT);
	alter(f, "CREATE TABLE sampled(record INTEGER PRIMARY KEY, alike INTEGER NOT NULL, x)");
	expect_refused(f, STORE_E_CORRUPT);
}

static struct groups *begin_groups(const struct gpuctr_plan *p)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	struct groups *g = groups_new(&by_kernel);

	assert_int_equal(groups_begin(g, p, "a", NULL), 0);
	assert_int_equal(groups_process(g, &process), 0);
	return g;
}

static struct groups *make_groups_of(const struct gpuctr_plan *p, size_t first, bool sampled)
{
	struct groups *g = begin_groups(p);

	for (size_t i = 0; i < RECORDS; i++) {
		double values[2], errors[2];
		struct gpuctr_record r = record_of(i, values, errors);

		r.values = values + first;
		r.errors = sampled ? errors + first : NULL;
		assert_int_equal(groups_record(g, &r, NULL), 0);
	}
	assert_int_equal(groups_finish(g), 0);
	return g;
}

static struct groups *make_groups(void)
{
	return make_groups_of(&plan, 0, true);
}

static void expect_figure(const struct group *group, const struct measure *measures, double value,
			  double error)
{
	struct figure f = fields_figure(&measures[1], 1, group);

	assert_true(fabs(f.value - value) < 1e-9);
	assert_true(fabs(f.error - error) < 1e-9);
	assert_true(fabs(group->self_error[1] - error) < 1e-9);
	assert_true(fields_figure(&measures[2], 2, group).error == 0);
}

/* In the table the line of a name has these words, and so has that of another. */
static void expect_lines(struct view *v, const char *name, const char *value, const char *error,
			 const char *other, const char *other_value, const char *other_error)
{
	CLEAN_BUF struct buf b = { 0 };
	char line[300] = "";
	const char *at;

	assert_int_equal(table_print(v, 200, &b, NULL), 0);
	for (int i = 0; i < 2; i++) {
		at = strstr(buf_string(&b), i == 0 ? name : other);
		assert_non_null(at);
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
		if (!strstr(line, i == 0 ? value : other_value) ||
		    !strstr(line, i == 0 ? error : other_error)) {
			fail_msg("%s", buf_string(&b));
		}
	}
	assert_null(strchr(line, '*'));
}

TEST(test_what_is_alike_adds_up)
{
	struct groups *g = make_groups();
	const struct measure *measures;
	struct group **rows;
	struct view v;
	struct figure f;
	double *rest;

	assert_true(groups_are_sampled(g));
	groups_measures(g, &measures);
	assert_int_equal(groups_rows(g, &rows), 2);
	expect_figure(rows[0], measures, 800, sqrt(3 * 3 + 24 * 24 + 1));
	expect_figure(rows[1], measures, 200, 4);
	expect_figure(groups_all(g), measures, 1000, sqrt(7 * 7 + 24 * 24 + 1));
	assert_int_equal(groups_finish(g), 0); /* again */
	assert_int_equal(groups_rows(g, &rows), 2);
	expect_figure(groups_all(g), measures, 1000, sqrt(7 * 7 + 24 * 24 + 1));
	assert_int_equal(view_init(&v, g, &(struct view_options){ 0 }, NULL), 0);
	assert_true(v.sampled);
	assert_string_equal(v.derived.items[0].name, "dram_bandwidth");
	f = derived_figure(&v.derived.items[0], rows[1]); /* 200 and 1 bytes in 10 ns */
	assert_true(fabs(f.value - 201 / 10e-9) < 1 && fabs(f.error - 4 / 10e-9) < 1);
	/* One of four kernels has no bytes read: 800 in 30 ns, and 4 in 40 ns. */
	f = derived_figure(&v.derived.items[0], rows[0]);
	assert_true(fabs(f.value - (800 / 30e-9 + 4 / 40e-9)) < 1);
	assert_true(fabs(f.error / (sqrt(3 * 3 + 24 * 24 + 1) / 30e-9) - 1) < 1e-9);
	/* Which is told: nobody knows the error of what the fourth did. */
	assert_int_equal(derived_unsampled(&v.derived.items[0], rows[0]), 1);
	assert_int_equal(derived_unsampled(&v.derived.items[0], rows[1]), 0);
	expect_lines(&v, "alpha", "GB/s*", "part", "beta", "GB/s", "+-2%");
	rest = errors_of_rows(v.groups, v.rows, v.n_rows);
	assert_true(fabs(rest[1] - sqrt(7 * 7 + 24 * 24 + 1)) < 1e-9);
	free(rest);
	rest = errors_of_rows(v.groups, v.rows, 0);
	assert_true(rest[1] == 0);
	free(rest);
	view_deinit(&v);
	groups_free(g);
}

/* Numbers of what is alike are each file's own: what has the same one in two files was measured
 * twice, and its errors are as independent as others. */
TEST(test_files_have_nothing_alike)
{
	struct groups *g = begin_groups(&plan);
	const struct measure *measures;
	struct group **rows;

	for (int file = 0; file < 3; file++) {
		if (file > 0) {
			assert_int_equal(groups_begin(g, &plan, "b", NULL), 0);
			assert_int_equal(groups_process(g, &process), 0);
		}
		for (size_t i = 0; i < RECORDS; i++) {
			double values[2], errors[2];
			struct gpuctr_record r = record_of(i, values, errors);

			assert_int_equal(groups_record(g, &r, NULL), 0);
		}
	}
	assert_int_equal(groups_finish(g), 0);
	groups_measures(g, &measures);
	assert_int_equal(groups_rows(g, &rows), 2);
	expect_figure(rows[0], measures, 3 * 800, sqrt(3 * (3 * 3 + 24 * 24 + 1)));
	expect_figure(rows[1], measures, 3 * 200, sqrt(3 * 4 * 4));
	expect_figure(groups_all(g), measures, 3 * 1000, sqrt(3 * (7 * 7 + 24 * 24 + 1)));
	groups_free(g);
}

/* Three kernels of one place, which have their mean, beside one of no place. */
TEST(test_means_are_not_told_as_single_values)
{
	static const enum field of_single[] = { FIELD_MIN, FIELD_MAX, FIELD_STDDEV };
	struct groups *g = begin_groups(&plan);
	const struct group *alpha, *beta;
	const struct measure *measures;
	struct group **rows;

	for (unsigned i = 0; i < 5; i++) {
		const double values[] = { i < 3 ? 100 : 50 + i, 1 }, errors[] = { 3, 3 };
		const struct gpuctr_record r = { .process = 1,
						 .index = i,
						 .kernel = &kernels[i >= 3],
						 .duration_ns = 10 + i,
						 .clock = GPUCTR_CLOCK_GPU,
						 .values = values,
						 .errors = errors,
						 .alike = i < 3 ? 7 : 0 };

		assert_int_equal(groups_record(g, &r, NULL), 0);
	}
	assert_int_equal(groups_finish(g), 0);
	groups_measures(g, &measures);
	assert_int_equal(groups_rows(g, &rows), 2);
	alpha = rows[0];
	beta = rows[1];
	for (size_t k = 0; k < 3; k++) {
		enum field f = of_single[k];

		assert_true(isnan(fields_value(f, &measures[1], 1, alpha, groups_all(g))));
		assert_true(isnan(fields_value(f, &measures[1], 1, groups_all(g), alpha)));
		assert_false(isnan(fields_value(f, &measures[1], 1, beta, beta)));
		assert_false(isnan(fields_value(f, &measures[0], 0, alpha, alpha)));
	}
	assert_true(fields_value(FIELD_MEAN, &measures[1], 1, alpha, alpha) == 100);
	groups_free(g);
}

/* Of the same values, before in another order, and of a column that is not there now. */
TEST(test_changes_have_errors)
{
	static const struct gpuctr_plan write_alone = {
		.chip = "GH100", .passes = 1, .groups = 1, .columns = columns + 1, .n_columns = 1
	};
	struct groups *now = make_groups(), *before = make_groups(),
		      *other = make_groups_of(&write_alone, 1, true),
		      *counted = make_groups_of(&plan, 0, false);
	struct view_options options = { .against = before };
	struct figure f;
	struct view v;

	assert_int_equal(view_init(&v, now, &options, NULL), 0);
	assert_true(v.sampled);
	assert_true(v.fields & FIELD_BIT(FIELD_CHANGE_ERROR));
	assert_true(fields_value(FIELD_CHANGE_ERROR, &v.measures[1], 1, v.all, v.all) > 0);
	view_deinit(&v);
	options.against = counted;
	assert_int_equal(view_init(&v, now, &options, NULL), 0);
	assert_true(v.sampled);
	view_deinit(&v);
	options.against = now;
	assert_int_equal(view_init(&v, counted, &options, NULL), 0);
	assert_true(v.sampled);
	view_deinit(&v);
	assert_int_equal(view_init(&v, other, &options, NULL), 0);
	f = fields_figure(&v.measures[1], 1, v.all->before);
	assert_true(f.error == 0); /* what is written is known without an error */
	assert_true(f.value == RECORDS);
	view_deinit(&v);
	groups_free(now);
	groups_free(before);
	groups_free(other);
	groups_free(counted);
}

/* Of two launches of a kernel one has a value, and before both had; of the other kernel all have.
 */
TEST(test_means_of_other_launches_are_not_compared)
{
	static const enum field of_mean[] = { FIELD_MEAN_CHANGE, FIELD_MEAN_CHANGE_ERROR,
					      FIELD_MEAN_DIFFERS };
	struct groups *g[] = { begin_groups(&plan), begin_groups(&plan) };
	struct view_options options = { .against = g[1], .figures = "mean" };
	CLEAN_BUF struct buf b = { 0 };
	struct view v;

	for (unsigned i = 0; i < 8; i++) {
		const double values[] = { i == 1 ? NAN : i < 2 ? 400 : 100 + i, 1 };
		const double errors[] = { i == 1 ? NAN : 1, 0 };
		const struct gpuctr_record r = { .process = 1,
						 .index = i,
						 .kernel = &kernels[i / 2 % 2],
						 .duration_ns = 10,
						 .clock = GPUCTR_CLOCK_GPU,
						 .values = values,
						 .errors = errors };

		assert_int_equal(groups_record(g[i / 4], &r, NULL), 0);
	}
	assert_int_equal(groups_finish(g[0]), 0);
	assert_int_equal(groups_finish(g[1]), 0);
	assert_int_equal(view_init(&v, g[0], &options, NULL), 0);
	assert_int_equal(v.n_rows, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct group *row = v.rows[i];
		bool part = strcmp(row->labels[0], "alpha") == 0;

		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(
				isnan(fields_value(of_mean[k], &v.measures[1], 1, row, v.all)),
				part);
		}
		assert_false(isnan(fields_value(FIELD_MEAN_BEFORE, &v.measures[1], 1, row, v.all)));
	}
	assert_int_equal(table_print(&v, 200, &b, NULL), 0);
	assert_non_null(strstr(buf_string(&b), " part "));
	view_deinit(&v);
	groups_free(g[0]);
	groups_free(g[1]);
}

/* Rows that are left out have kernels of one place, whose errors of 3 and 4 make 7 of 700, now and
 * before. */
TEST(test_rows_left_out_have_errors_before)
{
	struct groups *g[] = { begin_groups(&plan), begin_groups(&plan) };
	struct view_options options = { .against = g[1], .limit = 1 };
	CLEAN_BUF struct buf b = { 0 };
	struct view v;
	const char *more;

	for (unsigned i = 0; i < 6; i++) {
		static const double value[] = { 300, 400, 90000 }, error[] = { 3, 4, 0 };
		const double values[] = { value[i % 3] * (i == 5 ? 2 : 1), 1 };
		const double errors[] = { error[i % 3], 0 };
		struct gpuctr_record r = { .process = 1,
					   .index = i,
					   .kernel = &kernels[i % 3],
					   .duration_ns = i == 5   ? 2000
							  : i == 2 ? 1000
								   : 10,
					   .clock = GPUCTR_CLOCK_GPU,
					   .values = values,
					   .errors = errors,
					   .alike = i % 3 == 2 ? 0 : 7 };

		assert_int_equal(groups_record(g[i / 3], &r, NULL), 0);
	}
	assert_int_equal(groups_finish(g[0]), 0);
	assert_int_equal(groups_finish(g[1]), 0);
	assert_int_equal(view_init(&v, g[0], &options, NULL), 0);
	assert_int_equal(table_print(&v, 200, &b, NULL), 0);
	more = strstr(buf_string(&b), "2 more");
	assert_non_null(more);
	if (!strstr(more, "+-1.4%")) {
		fail_msg("%s", buf_string(&b));
	}
	view_deinit(&v);
	groups_free(g[0]);
	groups_free(g[1]);
}

TEST(test_streams_tell_errors)
{
	struct format_capture capture = {
		.plan = &plan, .driver = "", .program = "p", .recorded_from = ""
	};
	struct attribution what = { .layer = "", .step = "", .seq = -1 };
	struct buf b = { 0 };
	double values[2], errors[2];
	struct gpuctr_record r = record_of(0, values, errors);
	struct jsonl *json = jsonl_new(&capture);
	const struct store_info info = { .plan = plan, .sampled = true };
	const struct exporter_options options = { 0 };
	struct exporter_refusal refusal = { 0 };
	void *csv = export_csv.open(&info, &options, &refusal);

	jsonl_record(json, &b, &r, &what);
	assert_non_null(strstr(buf_string(&b), "\"metrics\":{\"dram__bytes_read.sum\":100,"
					       "\"dram__bytes_write.sum\":1},\"sampled\":true,"
					       "\"errors\":{\"dram__bytes_read.sum\":3,"
					       "\"dram__bytes_write.sum\":0},"));
	buf_clear(&b);
	r.errors = NULL;
	jsonl_record(json, &b, &r, &what);
	assert_null(strstr(buf_string(&b), "sampled"));
	jsonl_free(json);
	buf_clear(&b);
	export_csv.end(csv, &b); /* of no record there is the head */
	assert_non_null(strstr(buf_string(&b), ",error:dram__bytes_read.sum,"
					       "error:dram__bytes_write.sum\r\n"));
	buf_clear(&b);
	r.errors = errors;
	errors[1] = NAN;
	export_csv.record(csv, &b, &r, &what);
	assert_non_null(strstr(buf_string(&b), ",3,\r\n"));
	export_csv.close(csv);
	buf_deinit(&b);
}
