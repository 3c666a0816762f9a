/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/lib/expand.h"
#include "client/lib/pattern.h"
#include "proto/wire/limits.h"

/* A catalogue of three metrics, a preset and a derived metric. */
static const char *const endings[] = { ".sum", ".avg" };
static const char *const parts[] = { "dram__bytes_read.sum", "dram__bytes_write.sum" };
static const struct gpuctr_metric catalogue[] = {
	{ .name = "dram__bytes", .submetrics = endings, .n_submetrics = 2 },
	{ .name = "dram__bytes_read", .submetrics = endings, .n_submetrics = 2 },
	{ .name = "dram__bytes_write", .submetrics = endings, .n_submetrics = 2 },
	{ .name = "memory", .kind = GPUCTR_METRIC_PRESET, .submetrics = parts, .n_submetrics = 2 },
	{ .name = "kineto__sum",
	  .kind = GPUCTR_METRIC_DERIVED,
	  .submetrics = parts,
	  .n_submetrics = 2 },
};

struct fixture {
	struct expansion *e;
	struct wire_strings names;
	struct refusal refusal;
};

static int begin(struct fixture *f, const char *const *texts, size_t n)
{
	f->e = expansion_free(f->e);
	return expansion_new(texts, n, &f->e, &f->refusal);
}

static int plan(struct fixture *f, const char *const *texts, size_t n)
{
	assert_int_equal(begin(f, texts, n), 0);
	for (size_t i = 0; i < ARRAY_SIZE(catalogue); i++) {
		expansion_add(f->e, &catalogue[i]);
	}
	return expansion_end_plan(f->e, "GH100", &f->names, &f->refusal);
}

static int plan_one(struct fixture *f, const char *text)
{
	return plan(f, &text, 1);
}

/* How many were listed. */
static size_t list(struct fixture *f, const char *text)
{
	size_t n = 0;

	assert_int_equal(begin(f, &text, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(catalogue); i++) {
		n += expansion_lists(f->e, catalogue[i].name);
	}
	assert_int_equal(expansion_end_list(f->e, "GH100", &f->refusal) == 0, n > 0);
	return n;
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	expansion_free(f->e);
	free(f);
	return 0;
}

/* --- patterns --- */

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

TEST(patterns_match_as_their_kind)
{
	static const struct {
		const char *pattern, *name;
		bool literal, matches;
	} cases[] = {
		{ "dram__bytes.sum", "dram__bytes.sum", true, true },
		{ "dram__bytes.sum", "dram__bytesXsum", true, false },
		{ "dram__*.sum", "dram__bytes_read.sum", false, true },
		{ "dram__*.sum", "dram__bytes_read.avg", false, false },
		{ "dram__byte?.sum", "dram__bytes.sum", false, true },
		{ "dram__bytes.[as]*", "dram__bytes.avg", false, true },
		{ "regex:^dram__.*\\.sum$", "dram__bytes.sum", false, true },
		{ "regex:^dram__.*\\.sum$", "dram__bytes.sum.per_second", false, false },
		{ "regex:read|write", "dram__bytes_write.sum", false, true },
		{ "regex:^.{5}$", "dram_", false, true },
		{ "", "", true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct refusal r;
		struct pattern *p;

		assert_int_equal(pattern_new(cases[i].pattern, &p, &r), 0);
		assert_int_equal(pattern_is_literal(p), cases[i].literal);
		assert_int_equal(pattern_matches(p, cases[i].name), cases[i].matches);
		assert_null(pattern_free(p));
	}
	assert_null(pattern_free(NULL));
}

TEST(a_bad_expression_is_told)
{
	static const char *const bad[] = { "regex:(", "regex:[", "regex:a{2,1}", "regex:*(" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct refusal r = { 0 };
		struct expansion *e = NULL;

		assert_int_equal(expansion_new(&bad[i], 1, &e, &r), GPUCTR_E_BAD_PATTERN);
		assert_non_null(strstr(r.message, bad[i]));
		assert_true(r.remedy[0] != '\0');
	}
}

/* --- plans --- */

static void expect_names(const struct fixture *f, const char *expected)
{
	char text[1024] = "";

	for (size_t i = 0; i < f->names.n; i++) {
		strcat(strcat(text, i ? " " : ""), f->names.v[i]);
	}
	assert_string_equal(text, expected);
}

FIXTURE_TEST(patterns_become_names)
{
	struct fixture *f = *state;

	assert_int_equal(plan_one(f, "dram__bytes_*.sum"), 0);
	expect_names(f, "dram__bytes_read.sum dram__bytes_write.sum");
	assert_int_equal(plan_one(f, "regex:^dram__bytes(_read)?\\.sum$"), 0);
	expect_names(f, "dram__bytes.sum dram__bytes_read.sum");
	assert_int_equal(plan_one(f, "*.sum"), 0); /* without presets and derived metrics */
	expect_names(f, "dram__bytes.sum dram__bytes_read.sum dram__bytes_write.sum");
}

FIXTURE_TEST(names_keep_their_place_and_come_once)
{
	static const char *const texts[] = { "memory",	"dram__*_write.*",	 "what?not",
					     "nothing", "dram__bytes_write.avg", "*bytes.sum" };
	struct fixture *f = *state;

	assert_int_equal(plan(f, texts, 2), 0);
	expect_names(f, "memory dram__bytes_write.sum dram__bytes_write.avg");
	assert_int_equal(plan(f, texts + 3, 3), 0);
	expect_names(f, "nothing dram__bytes_write.avg dram__bytes.sum");
	assert_int_equal(plan(f, texts, ARRAY_SIZE(texts)), GPUCTR_E_METRIC_NO_MATCH);
	assert_non_null(strstr(f->refusal.message, "'what?not' matches no metric of GH100"));
}

FIXTURE_TEST(too_many_are_told)
{
	struct gpuctr_metric m = { .submetrics = endings, .n_submetrics = 1 };
	const char *texts[LIMIT_METRICS + 1] = { "a*.sum", "b*.sum" };
	struct fixture *f = *state;
	char name[32];

	for (int both = 0; both < 2; both++) {
		assert_int_equal(begin(f, texts, 2), 0);
		for (size_t i = 0; i < 2 * LIMIT_METRICS; i++) {
			snprintf(name, sizeof(name), "%c%zu", both && i % 2 ? 'b' : 'a', i);
			m.name = name;
			expansion_add(f->e, &m);
		}
		assert_int_equal(expansion_end_plan(f->e, "GH100", &f->names, &f->refusal),
				 GPUCTR_E_TOO_MANY_METRICS);
		assert_int_equal(strstr(f->refusal.message, "'a*.sum'") != NULL, !both);
		assert_true(f->refusal.remedy[0] != '\0');
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		texts[i] = "memory";
	}
	assert_int_equal(begin(f, texts, ARRAY_SIZE(texts)), GPUCTR_E_TOO_MANY_METRICS);
}

/* --- lists --- */

FIXTURE_TEST(words_and_patterns_list)
{
	struct fixture *f = *state;

	assert_int_equal(list(f, "dram__*"), 3);
	assert_int_equal(list(f, "bytes_"), 2); /* a word is a part of the name */
	assert_int_equal(list(f, "dram__bytes_read.sum"), 1);
	assert_int_equal(list(f, "dram__bytes_read.sum.per_second"), 1);
	assert_int_equal(list(f, "memory"), 1);
	assert_int_equal(list(f, "regex:^k"), 1);
	assert_int_equal(list(f, "dram__bytes_?"), 0);
}

FIXTURE_TEST(a_list_without_a_match_names_what_is_near)
{
	struct fixture *f = *state;

	assert_int_equal(list(f, "dram__bytes_reed"), 0);
	assert_int_equal(f->refusal.code, GPUCTR_E_METRIC_NO_MATCH);
	assert_non_null(strstr(f->refusal.remedy, "Did you mean dram__bytes_read"));
	assert_int_equal(list(f, "dram__bytes_reed.sum"), 0);
	assert_non_null(strstr(f->refusal.remedy, "dram__bytes_read"));
	assert_int_equal(list(f, "qqqqqqqqqqqqqqqqqqqqqqqqqqqq"), 0);
	assert_null(strstr(f->refusal.remedy, "Did you mean"));
	assert_int_equal(list(f, "bandwdth"), 0); /* a word that a list takes */
	assert_non_null(strstr(f->refusal.remedy, "Did you mean bandwidth"));
	assert_int_equal(list(f, "achieved_ocupancy"), 0);
	assert_non_null(strstr(f->refusal.remedy, "Did you mean achieved_occupancy?"));
	assert_int_equal(list(f, "launch__grid_size"), 0);
	assert_non_null(strstr(f->refusal.remedy, "Every record has its launch"));
	assert_int_equal(list(f, "%s%n"), 0);
	assert_non_null(strstr(f->refusal.message, "%s%n"));
}

/* Names that CUPTI has, by what people call them. */
static size_t list_named(struct fixture *f, const char *text)
{
	static const char *const names[] = {
		"sm__warps_active",	    "lts__t_sector_hit_rate",	     "lts__t_sectors",
		"l1tex__t_sector_hit_rate", "sm__inst_executed_pipe_tensor", "dram__bytes_read"
	};
	size_t n = 0;

	assert_int_equal(begin(f, &text, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		n += expansion_lists(f->e, names[i]) ? (size_t)1 << i : 0;
	}
	return n;
}

TEST_WITH(other_names_of_metrics_are_listed, setup, teardown)
{
	static const struct {
		const char *text;
		size_t listed;
	} cases[] = {
		{ "occupancy", 1 },
		{ "achieved_occupancy", 1 },
		{ "Achieved_Occupancy", 1 },
		{ "hit rate", 2 | 8 },
		{ "rate  HIT", 2 | 8 },
		{ "l2", 2 | 4 },
		{ "L2", 2 | 4 },
		{ "tensor", 16 },
		{ "tensor core", 16 },
		{ "l2_tex_hit_rate", 2 },
		{ "dram_read_bytes", 32 },
		{ "HBM", 32 },
		{ "LTS__T_SECTORS", 4 },
		{ "hit rat", 2 | 8 },
		{ "hit ratio", 0 },
		{ "achieved_occupancy2", 0 },
		{ " ", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (list_named(*state, cases[i].text) != cases[i].listed) {
			fail_msg("%s", cases[i].text);
		}
	}
}
