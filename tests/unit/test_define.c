/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "client/report/define.h"

/* Columns that the user defines, of one row whose launches with a known time are fewer than all. */

enum { BYTES = 1, RATE, RATIO, SPEED, MEASURES };

static const struct measure measures[MEASURES] = {
	[MEASURE_TIME] = { "time", "ns", .adds_up = true },
	[BYTES] = { "dram__bytes.sum", "byte", .adds_up = true },
	[RATE] = { "lts__rate.sum", "byte/ns", .adds_up = true },
	[RATIO] = { "sm__busy.avg.pct", "percent" },
	[SPEED] = { "clock", "cycle/second", .adds_up = true },
};

static struct part total[MEASURES] = { { 4, 2000 }, { 5, 600 }, { 5, 10 }, { 5, 250 }, { 5, 8 } };
static struct part timed[MEASURES] = { { 4, 2000 }, { 4, 400 }, { 4, 6 }, { 4, 160 }, { 4, 4 } };
static const struct group row = {
	.total = total, .timed = timed, .calls = 5, .total_calls = 5, .total_peak_bytes = 1600
};

struct defined {
	struct texts texts;
	struct derived columns[DERIVED_MAX];
	size_t n;
	struct buf why;
	int result;
};

static struct defined define(const char *text)
{
	const struct define_source source = { "own.txt", text };
	struct defined d = { .n = 0 };

	d.result = define_columns(&source, measures, MEASURES, &d.texts, d.columns, &d.n, &d.why);
	return d;
}

static void undefine(struct defined *d)
{
	texts_deinit(&d->texts);
	buf_deinit(&d->why);
}

static void expect_column(const char *expression, double value, const char *unit)
{
	struct defined d;
	char text[256];
	double got;

	snprintf(text, sizeof(text), "x = %s\n", expression);
	d = define(text);
	if (d.result != 0 || d.n != 1) {
		fail_msg("%s is refused: %s", expression, buf_string(&d.why));
	}
	got = define_value(d.columns[0].define, &row);
	if (isnan(value) ? !isnan(got) : !(fabs(got - value) <= 1e-12 * fabs(value))) {
		fail_msg("%s is %g, not %g", expression, got, value);
	}
	assert_string_equal(d.columns[0].unit, unit);
	undefine(&d);
}

static void expect_refusal(const char *text, const char *why)
{
	struct defined d = define(text);

	assert_int_equal(d.result, -EINVAL);
	if (!strstr(buf_string(&d.why), why)) {
		fail_msg("%s is refused for: %s", text, buf_string(&d.why));
	}
	undefine(&d);
}

static void expressions_have_the_usual_order(void **state)
{
	(void)state;
	expect_column("1 + 2 * 3", 7, "");
	expect_column("(1 + 2) * 3", 9, "");
	expect_column("8 - 2 - 1", 5, "");
	expect_column("8 / 2 / 2", 2, "");
	expect_column("--3 * -2", -6, "");
	expect_column("1 / 0", NAN, "");
	expect_column("1.5e1", 15, "");
}

/* Each launch counts, but where time is in it: then those whose time is known. */
static void values_are_of_the_launches_that_have_all_of_them(void **state)
{
	(void)state;
	expect_column("dram__bytes.sum", 600, "byte");
	expect_column("dram__bytes", 600, "byte");
	expect_column("dram__bytes / launches", 120, "byte");
	expect_column("time / launches", 2000e-9 / 4, "second");
	expect_column("dram__bytes / time", 400 / 2000e-9, "byte/second");
	expect_column("dram__bytes / peak_bytes", 400 / 1600.0, "");
	expect_column("sm__busy.avg.pct", 50, "percent");
	expect_column("sm__busy.avg.pct * time / time", 40, "percent");
}

static void units_are_computed(void **state)
{
	(void)state;
	expect_column("lts__rate", 10e9, "byte/second");
	expect_column("lts__rate * time", 6e9 * 2000e-9, "byte");
	expect_column("clock * time", 4 * 2000e-9, "cycle");
	expect_column("1 / time", 1 / 2000e-9, "1/second");
	expect_column("dram__bytes * dram__bytes", 360000, "byte*byte");
	expect_column("lts__rate + dram__bytes / time", 6e9 + 400 / 2000e-9, "byte/second");
	expect_refusal("x = dram__bytes + time", "units clash: 'byte' and 'second'");
	expect_refusal("x = dram__bytes - 1", "units clash: 'byte' and ''");
}

static void lines_build_on_those_above(void **state)
{
	struct defined d = define("# own columns\n\n  half = dram__bytes / 2 # of them\r\n"
				  "quarter = half / 2\n");

	(void)state;
	assert_int_equal(d.result, 0);
	assert_int_equal(d.n, 2);
	assert_string_equal(d.columns[1].name, "quarter");
	assert_string_equal(d.columns[1].unit, "byte");
	assert_true(define_value(d.columns[1].define, &row) == 150);
	undefine(&d);
}

/* A value that is not there of each launch. */
static void what_is_missing_is_not_known(void **state)
{
	struct part gaps[MEASURES];
	struct defined d = define("x = dram__bytes * 2");
	struct group with_gaps = row;

	(void)state;
	memcpy(gaps, total, sizeof(gaps));
	gaps[BYTES].n = 4;
	with_gaps.total = gaps;
	assert_true(define_value(d.columns[0].define, &row) == 1200);
	assert_true(isnan(define_value(d.columns[0].define, &with_gaps)));
	undefine(&d);
}

/* As many parentheses as one likes, but not so deep. */
static void parentheses_have_a_depth(void **state)
{
	char text[512] = "x = ";

	(void)state;
	for (unsigned i = 0; i < 17; i++) {
		strcat(text, i > 0 ? "+((1))" : "((1))");
	}
	expect_column(text + 4, 17, "");
	strcpy(text, "x = ");
	for (unsigned i = 0; i < 33; i++) {
		strcat(text, "(");
	}
	expect_refusal(text, "nested too deep");
	expect_refusal("x = (1", "this '(' is not closed\n  x = (1\n      ^");
}

static void what_is_wrong_is_shown_where_it_is(void **state)
{
	(void)state;
	expect_refusal("a = 1\nb = 1 +", "own.txt:2: a number, a name or '(' is expected here");
	expect_refusal("b = dram__byte", "the captures have no 'dram__byte'; did you mean "
					 "'dram__bytes.sum'?");
	expect_refusal("b = nothing_like_it", "the captures have no 'nothing_like_it'\n");
	expect_refusal("b = 1 2", "an operator or the end of the line is expected here");
	expect_refusal("b = 2x", "an operator is expected behind a number");
	expect_refusal("b 1", "'=' is expected here");
	expect_refusal("1 = 1", "a line is NAME = EXPRESSION");
	expect_refusal("time = 1", "a column of this name is there already");
	expect_refusal("launches = 1", "a column of this name is there already");
	expect_refusal("a = 1\na = 2", "a column of this name is there already");
	expect_refusal("a = 1e999", "the number is too large");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expressions_have_the_usual_order),
		cmocka_unit_test(values_are_of_the_launches_that_have_all_of_them),
		cmocka_unit_test(units_are_computed),
		cmocka_unit_test(lines_build_on_those_above),
		cmocka_unit_test(what_is_missing_is_not_known),
		cmocka_unit_test(parentheses_have_a_depth),
		cmocka_unit_test(what_is_wrong_is_shown_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
