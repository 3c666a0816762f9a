/* SPDX-License-Identifier: Apache-2.0 */

/* What names a call site, and what differs from one time to the next. */

#include "tests/unit/unit.h"

#include "proto/base/numbers.h"
#include "proto/base/site_name.h"

static void expect_name(const char *text, const char *name, bool is_marker,
			enum site_number numbered, int64_t number, const char *sizes)
{
	struct site_name parsed;

	site_name_parse(text, &parsed);
	assert_int_equal(parsed.n, strlen(name));
	assert_memory_equal(text, name, parsed.n);
	assert_int_equal(parsed.is_marker, is_marker);
	assert_int_equal(parsed.numbered, numbered);
	assert_int_equal(parsed.number, number);
	assert_int_equal(parsed.n_sizes, strlen(sizes));
	assert_memory_equal(parsed.sizes ? parsed.sizes : "", sizes, parsed.n_sizes);
}

TEST(parts_that_pytorch_writes_are_read)
{
	expect_name("aten::mm, seq = 7, op_id = 12, sizes = [[64, 3], [3, 8]], input_op_ids = "
		    "[(0,-1), (7,0)]",
		    "aten::mm", true, SITE_NUMBER_SEQ, 7, "[[64, 3], [3, 8]]");
	expect_name("aten::relu, seq = 3", "aten::relu", true, SITE_NUMBER_SEQ, 3, "");
	expect_name("aten::fill_, op_id = 5, sizes = [[], []]", "aten::fill_", true,
		    SITE_NUMBER_NONE, -1, "[[], []]");
	/* Cut off by a limit on messages. */
	expect_name("aten::mm, op_id = 12, sizes = [[64, 3", "aten::mm", true, SITE_NUMBER_NONE, -1,
		    "[[64, 3");
}

TEST(labels_may_look_a_little_like_them)
{
	static const char *const labels[] = {
		"load, seq = x",
		"seq = 4",
		"big, seq = 99999999999999999999",
		"a, op_id = 4, b",
		"a, sizes = 4",
		"",
		",",
		", ",
		"[[[[",
	};

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		expect_name(labels[i], labels[i], false, SITE_NUMBER_NONE, -1, "");
	}
	expect_name("a, b, op_id = 4", "a, b", true, SITE_NUMBER_NONE, -1, "");
}

TEST(steps_are_numbered)
{
	static const char *const others[] = { "layer 2", "iteration", "12", "iteration 2 ",
					      "step 1234567890123456789" };

	expect_name("iteration 2", "iteration ", false, SITE_NUMBER_STEP, 2, "");
	expect_name("ProfilerStep#31", "ProfilerStep#", false, SITE_NUMBER_STEP, 31, "");
	expect_name("ProfilerStep#3, op_id = 9", "ProfilerStep#", true, SITE_NUMBER_STEP, 3, "");
	expect_name("Step_4", "Step_", false, SITE_NUMBER_STEP, 4, "");
	expect_name("epoch 007", "epoch 00", false, SITE_NUMBER_STEP, 7, "");
	expect_name("step 00", "step 0", false, SITE_NUMBER_STEP, 0, "");
	expect_name("step 123456789012345678", "step ", false, SITE_NUMBER_STEP,
		    INT64_C(123456789012345678), "");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		expect_name(others[i], others[i], false, SITE_NUMBER_NONE, -1, "");
	}
}

/* Name, number and sizes make the text again, but for what is never kept. */
TEST(a_text_is_made_of_its_parts)
{
	static const char *const texts[] = {
		"iteration 12",
		"epoch 007",
		"step 00",
		"layer 3",
		"aten::mm, seq = 7, sizes = [[64, 3]]",
		"aten::fill_, sizes = [[], []]",
		"",
		"caf\xc3\xa9, x",
	};
	CLEAN_BUF struct buf b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct site_name parsed;
		char name[64], sizes[64];

		site_name_parse(texts[i], &parsed);
		snprintf(name, sizeof(name), "%.*s%s", (int)parsed.n, texts[i],
			 parsed.numbered == SITE_NUMBER_STEP ? "N" : "");
		snprintf(sizes, sizeof(sizes), "%.*s", (int)parsed.n_sizes,
			 parsed.sizes ? parsed.sizes : "");
		buf_clear(&b);
		site_name_format(&b, name, sizes, parsed.numbered, parsed.number);
		assert_string_equal(buf_string(&b), texts[i]);
	}
	buf_clear(&b);
	site_name_format(&b, "iteration N", "", SITE_NUMBER_STEP, -1);
	assert_string_equal(buf_string(&b), "iteration N");
}

static enum site_kind kind_in(const char *text, enum site_kind around, const char *around_text)
{
	struct site_name parsed;

	site_name_parse(text, &parsed);
	return site_name_kind(&parsed, text, around, around_text);
}

TEST(kinds_are_told)
{
	static const char engine[] = "autograd::engine::evaluate_function: FnBackward, op_id = 4";

	assert_int_equal(kind_in("layer1", SITE_LABEL, NULL), SITE_LABEL);
	assert_int_equal(kind_in("a::b", SITE_LABEL, NULL), SITE_LABEL);
	assert_int_equal(kind_in("Optimizer.step#SGD.step, op_id = 1", SITE_LABEL, NULL),
			 SITE_LABEL);
	assert_int_equal(kind_in("batch 4", SITE_LABEL, "epoch 1"), SITE_STEP);
	assert_int_equal(kind_in("aten::mm, op_id = 1", SITE_LABEL, NULL), SITE_OPERATOR);
	assert_int_equal(kind_in("mine, seq = 1", SITE_LABEL, NULL), SITE_OPERATOR);
	assert_int_equal(kind_in("ReluBackward0, seq = 1", SITE_LABEL, NULL), SITE_NODE);
	assert_int_equal(kind_in("Backwards, seq = 1", SITE_LABEL, NULL), SITE_OPERATOR);
	assert_int_equal(kind_in(engine, SITE_LABEL, NULL), SITE_ENGINE);
	assert_int_equal(kind_in("FnBackward, op_id = 5", SITE_ENGINE, engine), SITE_NODE);
	assert_int_equal(kind_in("FnBack, op_id = 5", SITE_ENGINE, engine), SITE_LABEL);
	assert_int_equal(kind_in("FnBackward, op_id = 5", SITE_OPERATOR, engine), SITE_LABEL);
}

TEST(numbers_come_back)
{
	static const int64_t numbers[] = { 0, 12, 480, 480, 481, -1, INT64_MAX, INT64_MIN, 5 };
	uint8_t bytes[ARRAY_SIZE(numbers) * NUMBER_BYTES_MAX];
	int64_t back[ARRAY_SIZE(numbers)], before = 0;
	size_t n = 0, n_back;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		size_t took = numbers_encode(bytes + n, sizeof(bytes) - n, before, numbers[i]);

		assert_in_range(took, 1, NUMBER_BYTES_MAX);
		n += took;
		before = numbers[i];
	}
	assert_true(numbers_decode(bytes, n, back, ARRAY_SIZE(back), &n_back));
	assert_int_equal(n_back, ARRAY_SIZE(numbers));
	assert_memory_equal(back, numbers, sizeof(numbers));
	assert_true(numbers_decode(bytes, n, back, 2, &n_back));
	assert_int_equal(n_back, ARRAY_SIZE(numbers));
	assert_int_equal(numbers_encode(bytes, 1, 0, 480), 0);
	assert_false(numbers_decode((const uint8_t[]){ 0x80 }, 1, back, 2, &n_back));
	memset(bytes, 0x80, 11);
	assert_false(numbers_decode(bytes, 11, back, 2, &n_back));
}
