/* SPDX-License-Identifier: Apache-2.0 */

/* A table and the lines below it, as a report prints them. Links client/cli (cli_dep) and
 * libgpuctr.
 */

#include "tests/unit/text_fixture.h"

#include "client/cli/summary.h"
#include "client/cli/text.h"
#include "client/report/table.h"
#include "tests/bench/synthetic.h"

static const struct summary_end plain_end = { .totals = { .seen = 5, .measured = 4, .filtered = 1 },
					      .has_totals = true,
					      .driver = "580" };
static const struct summary_end verbose_end = {
	.totals = { .seen = 5, .measured = 4, .filtered = 1 },
	.has_totals = true,
	.driver = "580",
	.verbose = true
};

enum { WIDTH = 140, ROWS = 20 };

static struct summary *new_summary(const struct gpuctr_plan *plan)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	struct summary *s = summary_new(&by_kernel);

	assert_non_null(s);
	assert_int_equal(summary_begin(s, plan, "", NULL), 0);
	return s;
}

static void print_table(struct summary *s, size_t rows, size_t width, struct buf *b)
{
	const struct view_options options = { .limit = rows, .people = true };
	struct groups *groups = summary_groups(s);
	struct view view;

	assert_non_null(groups);
	assert_int_equal(view_init(&view, groups, &options, NULL), 0);
	assert_int_equal(table_print(&view, width, b, NULL), 0);
	view_deinit(&view);
}

static void print(struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (groups_records(s->groups) == 0) {
		summary_add_nothing(s, end, b);
	} else {
		print_table(s, ROWS, WIDTH, b);
	}
	buf_char(b, '\n');
	summary_print_tail(s, end, NULL, b);
}

static void add(struct summary *s, struct synthetic *synthetic, unsigned process, unsigned kernel,
		double bytes, int64_t duration_ns)
{
	double values[] = { bytes, NAN, (double)duration_ns };
	struct gpuctr_record record = *synthetic_record(synthetic, kernel);

	record.process = process;
	record.values = values;
	record.duration_ns = duration_ns;
	record.clock = duration_ns < 0 ? GPUCTR_CLOCK_NONE : GPUCTR_CLOCK_GPU;
	summary_record(s, &record, NULL);
}

TEST(test_summary_adds_up)
{
	static struct synthetic synthetic;
	struct summary_end end = plain_end;
	struct summary *s;
	struct buf b = { 0 };
	const char *first, *second;

	synthetic_init(&synthetic);
	synthetic.kernels[0].name = "small";
	synthetic.kernels[1].name = "large";
	s = new_summary(&synthetic.plan);
	summary_process(s, &synthetic.process);
	add(s, &synthetic, 1, 0, 1000, 1000);
	add(s, &synthetic, 1, 1, 2e9, 5000000);
	add(s, &synthetic, 2, 1, 4e9, 3000000); /* the same name in another process */
	add(s, &synthetic, 1, 0, NAN, 1000);
	end.totals.dropped = 3;
	end.verbose = true;
	print(s, &end, &b);
	assert_int_equal(groups_records(s->groups), 4);
	first = strstr(buf_string(&b), "large");
	second = strstr(buf_string(&b), "small");
	assert_true(first && second && first < second); /* by time */
	expect_contains(&b, "6.00 GB  3.00 GB 100.0%");
	expect_contains(&b, "8.00 ms  4.00 ms 100.0%");
	expect_contains(&b, "2.00 us  1.00 us   0.0%");
	expect_contains(&b, "dram__bytes_write.sum is not known of any launch");
	expect_contains(&b, "single pass, no replay, caches not flushed; GH100, NVIDIA H200; "
			    "clocks not locked (SM up "
			    "to 1980 MHz, memory 3201 MHz)");
	expect_contains(&b, "5 kernels seen in 1 process: 4 measured, 1 filtered, "
			    "3 dropped");
	expect_lacks(&b, "RECORDED");
	expect_lacks(&b, "times are lengths of ranges");
	expect_lacks(&b, "no time");
	end.verbose = false;
	buf_clear(&b);
	print(s, &end, &b);
	expect_contains(&b, " 3 dropped; NVIDIA H200; -v explains\n");
	expect_lacks(&b, "single pass");
	summary_free(s);
	buf_deinit(&b);
}

TEST(test_what_relates_to_ranges_is_told)
{
	static const char *const of_range[] = {
		"dram__throughput.avg.pct_of_peak_sustained_elapsed",
		"sm__cycles_elapsed.max",
		"sm__inst_executed.avg.per_cycle_elapsed",
		"dram__bytes_read.sum.per_second",
		"gpu__time_duration.sum",
		NULL,
	};
	static const char *const of_kernel[] = {
		"dram__bytes_read.sum",
		"sm__cycles_active.avg",
		"sm__inst_executed.avg.per_cycle_active",
		"sm__throughput.avg.pct_of_peak_sustained_active",
		NULL,
	};
	static struct synthetic synthetic;
	struct summary *s;
	struct buf b = { 0 };

	for (size_t i = 0; of_range[i]; i++) {
		assert_true(groups_is_of_range(of_range[i]));
	}
	for (size_t i = 0; of_kernel[i]; i++) {
		assert_false(groups_is_of_range(of_kernel[i]));
	}
	synthetic_init(&synthetic);
	for (size_t n = 2; n <= 3; n++) { /* the third is gpu__time_duration.sum */
		synthetic.plan.n_columns = n;
		s = new_summary(&synthetic.plan);
		summary_record(s, synthetic_record(&synthetic, 0), NULL);
		print(s, &verbose_end, &b);
		if (n == 3) {
			expect_contains(&b, " gpu__time_duration.sum (range)");
			expect_contains(&b, "\ngpu__time_duration.sum: of the ranges around ");
		} else {
			expect_lacks(&b, "around the kernels");
			expect_lacks(&b, "(range)");
		}
		buf_clear(&b);
		summary_free(s);
	}
	buf_deinit(&b);
}

TEST(test_summary_tells_clocks)
{
	static struct synthetic synthetic;
	struct gpuctr_plan trace;
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	s = new_summary(&synthetic.plan);
	summary_record(s, synthetic_record(&synthetic, 0), NULL);
	print(s, &plain_end, &b);
	expect_contains(&b, "; times are of ranges; -v explains\n");
	buf_clear(&b);
	print(s, &verbose_end, &b);
	expect_contains(&b, "\ntimes are lengths of ranges");
	buf_clear(&b);
	add(s, &synthetic, 1, 0, 1000, 1000);
	add(s, &synthetic, 1, 0, 1000, -1);
	print(s, &verbose_end, &b);
	expect_contains(&b, "\n1 of 3 times are lengths of ranges");
	expect_contains(
		&b, "\n1 of 3 kernels have no time: it did not come from CUPTI (sums: \"*\")\n");
	summary_free(s);
	buf_clear(&b);
	s = new_summary(&synthetic.plan);
	add(s, &synthetic, 1, 0, 1000, -1);
	print(s, &plain_end, &b);
	expect_contains(&b, "\n1 of 1 kernels have no time: with several groups of metrics, or "
			    "metrics of the SMs");
	expect_contains(&b, "add gpu__time_duration.sum to --metrics\n");
	summary_free(s);
	buf_clear(&b);
	trace = synthetic.plan;
	trace.passes = 0; /* no metric would help */
	s = new_summary(&trace);
	add(s, &synthetic, 1, 0, 1000, -1);
	print(s, &plain_end, &b);
	expect_contains(&b, "\n1 of 1 kernels have no time: it did not come from CUPTI\n");
	summary_free(s);
	buf_deinit(&b);
}

/* Two launches have the bytes, and one the length of its range. */
TEST(test_summary_tells_turns)
{
	static struct synthetic synthetic;
	struct gpuctr_column columns[3];
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	memcpy(columns, synthetic.plan.columns, sizeof(columns));
	columns[2].group = 1;
	synthetic.plan.columns = columns;
	synthetic.plan.groups = 2;
	s = new_summary(&synthetic.plan);
	add(s, &synthetic, 1, 0, 1000, -1);
	add(s, &synthetic, 1, 0, 2000, -1);
	add(s, &synthetic, 1, 0, NAN, 500);
	print(s, &plain_end, &b);
	expect_contains(&b, "4.50 kB");
	expect_contains(&b,
			"\nthe metrics took turns in 2 groups: a launch has those of one group");
	expect_contains(&b, ": dram__bytes_read.sum 2 of 3,");
	expect_contains(&b, ";\nJOINED from launches of different groups: dram_bandwidth");
	expect_contains(&b, "\ndram__bytes_write.sum is not known of any launch\n");
	expect_lacks(&b, "have no time");
	expect_lacks(&b, "*");
	buf_deinit(&b);
	summary_free(s);
}

/* Of however many versions and devices a capture tells. */
TEST(test_summary_of_many_machines)
{
	static struct synthetic synthetic;
	char driver[64], uuid[64];
	struct gpuctr_device device;
	struct gpuctr_process process;
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	s = new_summary(&synthetic.plan);
	process = synthetic.process;
	device = process.devices[0];
	device.uuid = uuid;
	process.devices = &device;
	process.n_devices = 1;
	process.driver = driver;
	process.cupti = "13.0.1";
	for (unsigned i = 0; i < 40; i++) {
		process.process = i + 1;
		snprintf(driver, sizeof(driver), "59%u", i / 4);
		snprintf(uuid, sizeof(uuid), "GPU-%u", i);
		summary_process(s, &process);
		if (i == 31) {
			summary_print_tail(s, &verbose_end, NULL, &b);
			expect_contains(&b, "NVIDIA H200 x 32;");
			expect_contains(&b, "driver 590 and 591 and 592 and 593 and 594 and 595 "
					    "and 596 and 597, CUPTI");
			buf_clear(&b);
		}
	}
	summary_print_tail(s, &verbose_end, NULL, &b);
	expect_contains(&b, "NVIDIA H200 x 40;");
	expect_contains(&b, " and 597 and others, CUPTI");
	summary_free(s);
	buf_deinit(&b);
}

TEST(test_summary_rows_and_width)
{
	static struct synthetic synthetic;
	struct summary *s;

	synthetic_init(&synthetic);
	s = new_summary(&synthetic.plan);
	for (unsigned i = 0; i < 2000; i++) {
		summary_record(s, synthetic_record(&synthetic, i), NULL);
	}
	for (size_t width = 80; width < 240; width += 20) {
		struct buf b = { 0 };

		print_table(s, 5, width, &b);
		expect_contains(&b, "195 more");
		for (char *line = strtok((char *)buf_string(&b), "\n"); line;
		     line = strtok(NULL, "\n")) {
			if (strstr(line, "%")) {
				assert_true(text_width(line, strlen(line)) <= width);
			}
		}
		buf_deinit(&b);
	}
	summary_free(s);
}

/* A line that the terminal breaks in its own way cannot be read as part of a table. */
TEST(test_summary_fits_a_narrow_terminal)
{
	static struct synthetic synthetic;
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	synthetic.kernels[0].name = "small";
	synthetic.kernels[1].name =
		"void a_kernel_of_a_very_long_name<float, 128, 64, 32>(float *)";
	s = new_summary(&synthetic.plan);
	summary_process(s, &synthetic.process);
	add(s, &synthetic, 1, 0, 1000, 1000);
	add(s, &synthetic, 1, 1, 2e9, 5000000);
	print_table(s, 1, 40, &b);
	expect_contains(&b, "  time                    5.00 ms 100.0%\n");
	expect_contains(&b, "2.00 GB 100.0%\n");
	expect_contains(&b, "\n1 more\n  launches                             1\n");
	for (char *line = strtok((char *)buf_string(&b), "\n"); line; line = strtok(NULL, "\n")) {
		assert_true(text_width(line, strlen(line)) <= 40);
	}
	summary_free(s);
	buf_deinit(&b);
}

TEST(test_summary_says_what_is_recorded_or_missing)
{
	static struct synthetic synthetic;
	struct summary_end end = { .has_totals = true, .driver = "" };
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	s = new_summary(&synthetic.plan);
	print(s, &end, &b);
	expect_contains(&b, "No process of the program used CUDA");
	buf_clear(&b);
	end.recorded = true;
	print(s, &end, &b);
	expect_contains(&b, "gpuctr-replay FILE");
	buf_clear(&b);
	synthetic.process.recorded_from = "NVIDIA H200\033[2J";
	summary_process(s, &synthetic.process);
	end.has_totals = false;
	end.totals.lost = 2; /* by a daemon that went away: the process lives */
	end.unsaved = 1234;
	print(s, &end, &b);
	expect_contains(&b, "launched no kernel");
	end.speechless = true;
	print(s, &end, &b);
	expect_contains(&b, "before it could tell of a launch");
	end.speechless = false;
	expect_contains(&b, "RECORDED on NVIDIA H200\\x1b[2J, not measured here\n");
	expect_contains(&b, "2 lost on their way");
	expect_contains(&b, "the capture broke off");
	expect_contains(&b, "1,234 not written to the file");
	end.has_totals = true;
	end.totals.lost = 0;
	end.error = GPUCTR_E_REVOKED;
	print(s, &end, &b);
	expect_contains(&b, "(until the capture ended early: what ran after that is not counted)");
	summary_free(s);
	buf_deinit(&b);
}

TEST(test_summary_of_ratios)
{
	static struct synthetic synthetic;
	double values[] = { 30, 50, 1 };
	struct gpuctr_record record;
	struct summary *s;
	struct buf b = { 0 };

	synthetic_init(&synthetic);
	synthetic.columns[0] =
		(struct gpuctr_column){ .name = "sm__throughput.avg.pct", .unit = "%" };
	s = new_summary(&synthetic.plan);
	record = *synthetic_record(&synthetic, 0);
	record.values = values;
	summary_record(s, &record, NULL);
	values[0] = 60;
	summary_record(s, &record, NULL);
	print(s, &plain_end, &b);
	expect_contains(&b, "45.0 %   60.0 %"); /* mean and largest; the sum would mean nothing */
	expect_lacks(&b, "90.0 %");
	summary_free(s);
	buf_deinit(&b);
}

/* As of a trace of a program that uses CUPTI's records itself. */
TEST(test_a_table_without_a_column_has_its_names)
{
	static struct synthetic synthetic;
	const struct view_options options = { .people = true };
	struct summary *s;
	struct buf b = { 0 };
	struct view view;
	size_t more = 7;

	synthetic_init(&synthetic);
	synthetic.kernels[0].name = "small";
	synthetic.plan.n_columns = 0;
	s = new_summary(&synthetic.plan);
	add(s, &synthetic, 1, 0, 0, -1);
	assert_int_equal(view_init(&view, summary_groups(s), &options, NULL), 0);
	assert_int_equal(table_print(&view, WIDTH, &b, &more), 0);
	expect_contains(&b, "small");
	assert_int_equal(more, 0);
	view_deinit(&view);
	summary_free(s);
	buf_deinit(&b);
}
