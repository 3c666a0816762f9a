/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers, escaping, kernel names, near matches, lists: what the formats and messages of the client
 * are made of. Links client/cli (cli_dep) and libgpuctr. */

#include "tests/unit/text_fixture.h"

#include "client/cli/grid.h"
#include "client/cli/options.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/json.h"
#include "proto/base/near.h"

/* --- numbers --------------------------------------------------------------------------------- */

TEST(test_integers)
{
	static const uint64_t values[] = { 0,	      1,	   9,
					   10,	      99,	   100,
					   101,	      999,	   1000,
					   12345,     4294967295u, UINT64_C(10000000000000000000),
					   UINT64_MAX };
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char expected[32];

		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)values[i]);
		buf_u64(&b, values[i]);
		expect_text(&b, expected);
	}
	buf_i64(&b, INT64_MIN);
	expect_text(&b, "-9223372036854775808");
	buf_i64(&b, -7);
	expect_text(&b, "-7");
	buf_deinit(&b);
}

TEST(test_doubles_are_short)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ -3, "-3" },
		{ 268435456, "268435456" },
		{ 0.5, "0.5" },
		{ 0.1, "0.1" },
		{ -0.25, "-0.25" },
		{ 99.9, "99.9" },
		{ 33.333333333333336, "33.333333333333336" },
		{ 0.00001, "0.00001" },
		{ 0.000123, "0.000123" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 123456.789, "123456.789" },
		{ 1e-7, "1e-07" },
		{ 1e300, "1e+300" },
		{ 9007199254740991.0, "9007199254740991" },
	};
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_double(&b, cases[i].value);
		expect_text(&b, cases[i].text);
	}
	buf_deinit(&b);
}

TEST(test_doubles_read_back)
{
	uint64_t seed = 88172645463325252u;
	struct buf b = { 0 };

	for (int i = 0; i < 200000; i++) {
		double value;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		switch (i % 4) {
		case 0: /* any bits */
			memcpy(&value, &seed, sizeof(value));
			break;
		case 1: /* percentages */
			value = (double)(seed % 100000000) / 1e6;
			break;
		case 2: /* ratios of counters */
			value = (double)(seed % 1000003) / (double)(seed % 997 + 1);
			break;
		default: /* small ones */
			value = (double)(seed >> 40) / 1e9 / (double)(seed % 7777 + 1);
			break;
		}
		if (!isfinite(value)) {
			continue;
		}
		buf_double(&b, value);
		if (strtod(buf_string(&b), NULL) != value) {
			fail_msg("%.17g became %s", value, buf_string(&b));
		}
		assert_true(b.n <= 26);
		buf_clear(&b);
	}
	buf_deinit(&b);
}

TEST(test_numbers_for_people)
{
	struct buf b = { 0 };

	text_count(&b, 0);
	expect_text(&b, "0");
	text_count(&b, 999);
	expect_text(&b, "999");
	text_count(&b, 1234567);
	expect_text(&b, "1,234,567");
	text_scaled(&b, 268435456, "byte");
	expect_text(&b, "268 MB");
	text_scaled(&b, 1534000000, "byte");
	expect_text(&b, "1.53 GB");
	text_scaled(&b, 999999, "byte");
	expect_text(&b, "1.00 MB");
	text_scaled(&b, 0, "byte");
	expect_text(&b, "0 B");
	text_scaled(&b, 12.5, "percent");
	expect_text(&b, "12.5 %");
	text_scaled(&b, 0.0015, "second");
	expect_text(&b, "1.50 ms");
	text_scaled(&b, 46000, "nanosecond");
	expect_text(&b, "46.0 us");
	text_scaled(&b, 2097152, "l2_sector");
	expect_text(&b, "2.10 M");
	text_scaled(&b, NAN, "byte");
	expect_text(&b, "na");
	text_scaled(&b, 4.8e12, "byte/second");
	expect_text(&b, "4.80 TB/s");
	text_time(&b, 999999);
	expect_text(&b, "1.00 ms");
	text_time(&b, 2.5e9);
	expect_text(&b, "2.50 s");
	text_time(&b, 7);
	expect_text(&b, "7.00 ns");
	/* Three digits, also when rounding makes one more of them. */
	text_time(&b, 9.994);
	expect_text(&b, "9.99 ns");
	text_time(&b, 9.996);
	expect_text(&b, "10.0 ns");
	text_time(&b, 99.96);
	expect_text(&b, "100 ns");
	text_duration(&b, UINT64_C(59999999999));
	expect_text(&b, "59 s");
	text_duration(&b, UINT64_C(61000000000));
	expect_text(&b, "1 min 1 s");
	text_duration(&b, (2 * 3600 + 5 * 60) * UINT64_C(1000000000));
	expect_text(&b, "2 h 5 min");
	text_duration(&b, (3 * 86400 + 4 * 3600) * UINT64_C(1000000000));
	expect_text(&b, "3 d 4 h");
	text_age(&b, (26 * 3600 + 3 * 60 + 7) * UINT64_C(1000000000));
	expect_text(&b, "26:03:07");
	text_age(&b, UINT64_C(59999999999));
	expect_text(&b, "0:00:59");
	text_age(&b, UINT64_C(3599999999999));
	expect_text(&b, "0:59:59");
	buf_deinit(&b);
}

/* Two digits, as people write them. */
TEST(test_percents_have_no_exponent)
{
	for (double percent = 0.0002; percent < 9e5; percent *= 1.003) {
		CLEAN_BUF struct buf b = { 0 };
		double told;

		text_percent(&b, percent);
		told = strtod(buf_string(&b), NULL);
		assert_null(strchr(buf_string(&b), 'e'));
		assert_true(told > 0.945 * percent && told < 1.055 * percent);
		assert_true(b.n <= 7);
	}
}

/* --- text ------------------------------------------------------------------------------------ */

TEST(test_json_escapes)
{
	struct buf b = { 0 };

	json_string(&b, "a\"b\\c\n\t\r\x01\x1f\x7f/");
	expect_text(&b, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001f\\u007f/\"");
	json_string(&b, "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80");
	expect_text(&b, "\"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x9a\x80\"");
	json_string(&b, "\xc2\x9b"
			"2J\xc2\x80\xe2\x80\xa8\xe2\x80\xae"
			"\xc2\xa0"); /* C1, a line separator, an override; a space stays */
	expect_text(&b, "\"\\u009b2J\\u0080\\u2028\\u202e\xc2\xa0\"");
	json_string(&b, NULL);
	expect_text(&b, "\"\"");
	buf_deinit(&b);
}

TEST(test_invalid_utf8_is_replaced)
{
	/* A lone continuation, a cut sequence, overlong forms, a surrogate, beyond U+10FFFF, 0xff.
	 */
	static const char *const invalid[] = { "\x80",	       "\xc3",
					       "\xc0\xaf",     "\xe0\x80\xaf",
					       "\xed\xa0\x80", "\xf4\x90\x80\x80",
					       "\xff",	       "\xf5\x80\x80\x80" };
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
		char text[16];

		snprintf(text, sizeof(text), "<%s>", invalid[i]);
		json_string(&b, text);
		expect_contains(&b, "\"<\xef\xbf\xbd");
		expect_contains(&b, ">\"");
		expect_lacks(&b, invalid[i]);
		buf_clear(&b);
		text_csv(&b, text);
		expect_lacks(&b, invalid[i]);
		buf_clear(&b);
	}
	json_string(&b, "\xe6\xbc");
	expect_text(&b, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	buf_deinit(&b);
}

#define REPLACED "\xef\xbf\xbd"

TEST(test_csv_quotes)
{
	struct buf b = { 0 };

	text_csv(&b, "plain text");
	expect_text(&b, "plain text");
	text_csv(&b, "a,b");
	expect_text(&b, "\"a,b\"");
	text_csv(&b, "say \"x\"");
	expect_text(&b, "\"say \"\"x\"\"\"");
	text_csv(&b, "two\nlines");
	expect_text(&b, "\"two\nlines\"");
	text_csv(&b, "");
	expect_text(&b, "");
	text_csv(&b, "\033[2J\a\x7f\xc2\x9b"
		     "m");
	expect_text(&b, REPLACED "[2J" REPLACED REPLACED REPLACED "m");
	text_csv(&b, "a\tb\r\n\xc3\xa9");
	expect_text(&b, "\"a\tb\r\n\xc3\xa9\"");
	text_csv(&b, "=HYPERLINK(1)");
	expect_text(&b, "'=HYPERLINK(1)");
	text_csv(&b, "@SUM(A1,\"x\")");
	expect_text(&b, "\"'@SUM(A1,\"\"x\"\")\"");
	text_csv(&b, "+1");
	expect_text(&b, "'+1");
	text_csv(&b, "-1");
	expect_text(&b, "'-1");
	text_csv(&b, "\t=1");
	expect_text(&b, "'\t=1");
	text_csv(&b, "-"); /* alone it computes nothing */
	expect_text(&b, "-");
	text_csv(&b, "a=1");
	expect_text(&b, "a=1");
	buf_deinit(&b);
}

TEST(test_terminal_is_safe)
{
	struct buf b = { 0 };

	text_terminal(&b, "a\033[31mb\007\r\n\t\x7f");
	expect_text(&b, "a\\x1b[31mb\\x07\\x0d\\n\\t\\x7f");
	text_terminal(&b, "\xc2\x9b"
			  "31m"); /* CSI in one character */
	expect_text(&b, "\\x9b31m");
	text_terminal(&b, "a\xe2\x80\xae"
			  "b"); /* right-to-left override */
	expect_text(&b, "a\\u202eb");
	text_terminal(&b, "\xff\xc3\xa9");
	expect_text(&b, "\\xff\xc3\xa9");
	buf_deinit(&b);
}

TEST(test_kernel_names)
{
	static const struct {
		const char *name;
		size_t width;
		const char *text;
	} cases[] = {
		{ "copy(float*, int)", 40, "copy" },
		{ "ampere_sgemm_128x64_nn", 40, "ampere_sgemm_128x64_nn" },
		{ "void ns::k<4, ns::F<float> >(int, ns::F<float>)", 40,
		  "ns::k<4, ns::F<float> >" },
		{ "void ns::k<4, ns::F<float> >(int, ns::F<float>)", 20, "k<4, F<float> >" },
		{ "void (anonymous namespace)::soft<int>(int)", 40,
		  "(anonymous namespace)::soft<int>" },
		{ "void (anonymous namespace)::soft<int>(int)", 12, "soft<int>" },
		{ "abcdefghijklmnopqrstuvwxyz", 10, "abcde..xyz" },
		{ "void vectorized_elementwise_kernel<4, Fill<float> >(int)", 20,
		  "vectorized..<4, Fi.." },
		{ "void vectorized_elementwise_kernel<8, Fill<float> >(int)", 20,
		  "vectorized..<8, Fi.." },
		{ "\033[2Jk", 40, "\\x1b[2Jk" },
		{ "", 10, "" },
		{ ")", 10, ")" },
		{ "(", 10, "(" },
		{ "()", 10, "()" },
		{ "void f(void (*)(int))", 10, "f" },
		/* Compilers' names, whose ends differ. */
		{ "triton_poi_fused_add_relu_3", 40, "triton_poi_fused_add_relu_3" },
		{ "triton_poi_fused__native_batch_norm_legit_functional_add_relu_12", 40,
		  "triton_poi_fused__native_ba..add_relu_12" },
		{ "loop_broadcast_multiply_select_convert_fusion_2", 30,
		  "loop_broadcast_multi..fusion_2" },
		{ "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", 32,
		  "nvjet_tst_128x25..v_bz_coopA_TNT" },
		{ "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
		  "execute_segment_k_off_kernel__5x_cublas",
		  40, "sm90_xmma_gemm_bf1..tilesize128x128x64.." },
		/* Templates that only launch. */
		{ "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(cutlass_80_tensorop_"
		  "bf16_s16816gemm::Params)",
		  46, "Kernel2<cutlass_80_tensorop_bf16_s16816gemm>" },
		{ "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(cutlass_80_tensorop_"
		  "bf16_s16816gemm::Params)",
		  40, "cutlass_80_tensorop_bf16_s16816gemm" },
		{ "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::Fwd<2, x::T> > "
		  ">(f)",
		  20, "Fwd<2, T>" },
		{ "void cutlass::Kernel<a::Long, b::Longer>(int)", 20, "Kernel<Long, Longer>" },
		{ "void cutlass::Kernel<a::Long, b::Longer>(int)", 18, "Kernel<Long, Lon.." },
		{ "void gemv::kernel<int, float, double>(int)", 30,
		  "gemv::kernel<int, float, dou.." },
		{ "void a::gemv::kernel<int, float>(int)", 26, "gemv::kernel<int, float>" },
		{ "_ZN17cutlass__5x_cudnn6KernelINS_4convEvNT_6ParamsE", 20,
		  "_ZN17cutlass__5x_c.." },
		{ "Kernel<", 6, "K..<" },
		{ "Kernel<>", 7, "Ke..<>" },
		{ "Kernel< >>", 8, "Ke..< >>" },
	};
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text_kernel(&b, cases[i].name, cases[i].width);
		assert_true(b.n == 0 || text_width(b.data, b.n) <= cases[i].width);
		expect_text(&b, cases[i].text);
	}
	for (size_t width = 0; width < 40; width++) {
		text_kernel(&b, "void a::b<c::d, e<f> >(g)", width);
		assert_true(b.n == 0 || text_width(b.data, b.n) <= width);
		buf_clear(&b);
	}
	buf_deinit(&b);
}

TEST(test_lines_are_broken_at_spaces)
{
	static const struct {
		const char *text, *wrapped;
	} cases[] = {
		{ "", "" },
		{ "one two", "one two\n" },
		{ "one two three\nfour\n", "one two\nthree\nfour\n" },
		{ "longer-than-that is whole\n", "longer-than-that\nis whole\n" },
		{ "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc x",
		  "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc\nx\n" },
	};
	struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text_wrap(&b, cases[i].text, 8);
		assert_string_equal(buf_string(&b), cases[i].wrapped);
		buf_clear(&b);
	}
	buf_deinit(&b);
}

TEST(test_near_matches)
{
	static const char *const words[] = { "--metrics", "--format", "--force", "--kernel", NULL };
	struct near near;

	assert_string_equal(near_word("--metric", words), "--metrics");
	assert_string_equal(near_word("--metrisc", words), "--metrics");
	assert_string_equal(near_word("--fromat", words), "--format");
	assert_string_equal(near_word("--kernal", words), "--kernel");
	assert_null(near_word("--something-else", words));
	assert_null(near_word("", words));
	near_init(&near, "tiem", 4);
	near_offer(&near, "time");
	assert_string_equal(near_best(&near), "time");
	near_init(&near, "max", 3);
	near_offer(&near, "time");
	assert_null(near_best(&near));
	near_init(&near, "bytes_read", 10);
	near_offer(&near, "dram__bytes_read.sum");
	assert_string_equal(near_best(&near), "dram__bytes_read.sum");
	assert_null(near_word("foo", (const char *const[]){ "job", "plan", NULL }));
}

/* --- options --------------------------------------------------------------------------------- */

TEST(test_lists)
{
	struct strings s = { 0 };

	assert_true(strings_add_list(&s, "a,b,,c,"));
	assert_true(strings_add_list(&s, "regex:x{1,3},y"));
	assert_true(strings_add_list(&s, " d, hit rate ,\te,\n, "));
	assert_int_equal(s.n, 7);
	assert_string_equal(s.items[2], "c");
	assert_string_equal(s.items[3], "regex:x{1,3},y");
	assert_string_equal(s.items[4], "d");
	assert_string_equal(s.items[5], "hit rate");
	assert_string_equal(s.items[6], "e");
	assert_null(s.items[7]);
	strings_deinit(&s);
}

TEST(test_option_values)
{
	uint64_t value = 5;

	assert_true(options_parse_u64("18446744073709551615", &value) && value == UINT64_MAX);
	assert_false(options_parse_u64("18446744073709551616", &value));
	assert_false(options_parse_u64("-1", &value));
	assert_false(options_parse_u64("12x", &value));
	assert_false(options_parse_u64("", &value));
	assert_true(options_parse_time("1.5", &value) && value == 1500000000u);
	assert_true(options_parse_time("0", &value) && value == 0);
	assert_false(options_parse_time("nan", &value));
	assert_false(options_parse_time("inf", &value));
	assert_false(options_parse_time("-1", &value));
	assert_false(options_parse_time("1e99", &value));
	assert_false(options_parse_time("soon", &value));
	assert_false(options_parse_time("", &value));
	assert_false(options_parse_time("s", &value));
	assert_false(options_parse_time("5 s", &value));
	assert_false(options_parse_time("9000h", &value)); /* a year has 8,760 */
	assert_true(options_parse_time("5s", &value) && value == 5000000000u);
	assert_true(options_parse_time("1.5ms", &value) && value == 1500000);
	assert_true(options_parse_time("10us", &value) && value == 10000);
	assert_true(options_parse_time("2m", &value) && value == 120000000000u);
	assert_true(options_parse_time("2min", &value) && value == 120000000000u);
	assert_true(options_parse_time("1h", &value) && value == 3600000000000u);
}

/* --- terminals ------------------------------------------------------------------------------- */

/* A style takes no column, and a text that only looks like one cannot come from outside. */
TEST(test_styles_take_no_columns)
{
	struct buf b = { 0 }, evil = { 0 };

	terminal_bold(&b, true, "GPUs");
	assert_string_equal(buf_string(&b), "\033[1mGPUs\033[m");
	assert_int_equal(text_width(b.data, b.n), 4);
	assert_int_equal(text_fit(b.data, b.n, 4), b.n);
	assert_int_equal(text_fit(b.data, b.n, 2), strlen("\033[1mGP"));
	text_terminal(&evil, "\033[1mGPUs");
	assert_string_equal(buf_string(&evil), "\\x1b[1mGPUs");
	assert_int_equal(text_width(evil.data, evil.n), strlen("\\x1b[1mGPUs"));
	buf_clear(&b);
	terminal_bold(&b, false, "GPUs");
	text_pad(&b, "x", 3, true);
	text_pad(&b, "longer", 3, false);
	assert_string_equal(buf_string(&b), "GPUs  xlonger");
	buf_deinit(&b);
	buf_deinit(&evil);
}

/* The column of the highest rank goes first, those of rank 0 stay whatever the width. */
TEST(test_a_grid_leaves_columns_out)
{
	static const struct grid_column columns[] = {
		{ "PID", .right = true },
		{ "PROGRAM", .rank = 1 },
		{ "CGROUP", .rank = 2 },
	};
	static const struct {
		size_t width;
		const char *text;
	} rows[] = {
		{ 80, "PID  PROGRAM  CGROUP\n  7  python   /a\\nb\n" },
		{ 19, "PID  PROGRAM\n  7  python\n" },
		{ 1, "PID\n  7\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf b = { 0 };
		struct grid g;

		grid_init(&g, columns, 3);
		grid_text(&g, "7");
		grid_text(&g, "python");
		grid_text(&g, "/a\nb");
		grid_print(&g, rows[i].width, false, &b);
		assert_string_equal(buf_string(&b), rows[i].text);
		grid_deinit(&g);
		buf_deinit(&b);
	}
}

enum { FIRST = 1, SECOND = 2 }; /* verbs */

struct wanted {
	bool quiet, alone;
	const char *name;
	struct strings list;
	uint64_t count, ns;
};

static const struct option_def wanted_defs[] = {
	{ 'q', "quiet", NULL, "", OPTION_AT(FLAG, struct wanted, quiet) },
	{ 0, "name", "TEXT", "", OPTION_AT(TEXT, struct wanted, name) },
	{ 'l', "list", "LIST", "", OPTION_AT(LIST, struct wanted, list) },
	{ 0, "count", "N", "", OPTION_AT(COUNT, struct wanted, count) },
	{ 0, "time", "TIME", "", OPTION_AT(TIME, struct wanted, ns) },
	{ 0, "alone", NULL, "", OPTION_AT(FLAG, struct wanted, alone), SECOND },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static enum options_result read_words(unsigned verb, bool leading, const char **argv,
				      struct wanted *w, uint64_t *ret_given, int *ret_rest)
{
	struct options_line line = {
		.defs = wanted_defs, .verb = verb, .leading = leading, .argv = (char **)argv
	};

	while (argv[line.argc]) {
		line.argc++;
	}
	*w = (struct wanted){ 0 };
	return options_read(&line, w, ret_given, ret_rest);
}

TEST(test_options_are_stored_by_their_table)
{
	const char *argv[] = { "verb",	 "-ql", "a,b",	  "x", "--count=3",
			       "--time", "0.5", "--name", "n", NULL };
	const char *wrong[] = { "verb", "--count", "0", NULL };
	const char *help[] = { "verb", "--count", "1", "-h", NULL };
	struct wanted w;
	int rest;

	assert_int_equal(read_words(FIRST, false, argv, &w, NULL, &rest), OPTIONS_END);
	assert_int_equal(rest, 8);
	assert_string_equal(argv[rest], "x");
	assert_true(w.quiet && w.count == 3 && w.ns == 500000000 && w.list.n == 2);
	assert_string_equal(w.name, "n");
	assert_string_equal(w.list.items[1], "b");
	strings_deinit(&w.list);
	assert_int_equal(read_words(FIRST, true, argv, &w, NULL, &rest), OPTIONS_END);
	strings_deinit(&w.list);
	assert_int_equal(read_words(FIRST, false, wrong, &w, NULL, &rest), OPTIONS_WRONG);
	assert_int_equal(read_words(FIRST, false, help, &w, NULL, &rest), OPTIONS_HELP);
}

TEST(test_a_table_may_be_of_several_verbs)
{
	const char *argv[] = { "verb", "--alone", NULL };
	struct wanted w;
	int rest;

	assert_int_equal(read_words(FIRST, false, argv, &w, NULL, &rest), OPTIONS_WRONG);
	assert_int_equal(read_words(SECOND, false, argv, &w, NULL, &rest), OPTIONS_END);
	assert_true(w.alone);
}

/* ncu's name of --count. */
TEST(test_words_of_other_tools_that_mean_the_same_are_taken)
{
	const char *argv[] = { "verb", "--launch-count", "5", NULL };
	struct wanted w;
	int rest;

	assert_int_equal(read_words(FIRST, false, argv, &w, NULL, &rest), OPTIONS_END);
	assert_int_equal(w.count, 5);
}

TEST(test_rules_say_what_goes_with_what)
{
	static const struct option_rule rules[] = {
		{ "name", "list time", NULL, 0, "needs one" },
		{ "quiet", NULL, "time count", 0, "because" },
		{ "count", NULL, NULL, 2 | 4, "is of others" },
		{ NULL, NULL, NULL, 0, NULL },
	};
	static const struct {
		const char *argv[6];
		unsigned mode;
		bool kept;
	} rows[] = {
		{ { "verb" }, 1, true },
		{ { "verb", "--name=n" }, 1, false },
		{ { "verb", "--name=n", "-la" }, 1, true },
		{ { "verb", "--name=n", "--time=1" }, 1, true },
		{ { "verb", "-q", "-la" }, 1, true },
		{ { "verb", "--count=1", "-q" }, 2, false },
		{ { "verb", "--count=1" }, 2, true },
		{ { "verb", "--launch-count=1" }, 1, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *argv[6];
		struct wanted w;
		uint64_t given;
		int rest;

		memcpy(argv, rows[i].argv, sizeof(argv));
		assert_int_equal(read_words(FIRST, false, argv, &w, &given, &rest), OPTIONS_END);
		assert_int_equal(options_keep_rules(wanted_defs, rules, given, rows[i].mode),
				 rows[i].kept);
		strings_deinit(&w.list);
	}
}
