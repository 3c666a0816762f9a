/* SPDX-License-Identifier: Apache-2.0 */

/* What ranges say of a launch: markers of emit_nvtx, scopes, and the join of a backward kernel to
 * its forward operator. */

#include "tests/unit/unit.h"

#include "client/report/attribution.h"

/* --- markers --------------------------------------------------------------------------------- */

static void expect_marker(const char *message, const char *name, bool found, int64_t seq,
			  int64_t op_id, const char *sizes)
{
	char text[64] = "";
	struct marker m;

	marker_parse(message, &m);
	assert_int_equal(m.n_name, strlen(name));
	assert_memory_equal(message, name, m.n_name);
	assert_int_equal(m.found, found);
	assert_int_equal(m.seq, seq);
	assert_int_equal(m.op_id, op_id);
	if (m.sizes) {
		marker_format_sizes(m.sizes, m.n_sizes, text, sizeof(text));
	}
	assert_string_equal(text, sizes);
}

static int set_up(void **state);
static int tear_down(void **state);

TEST(markers_are_read)
{
	expect_marker("aten::mm, seq = 7, op_id = 12, sizes = [[64, 3], [3, 8]], input_op_ids = "
		      "[(0,-1), (7,0)]",
		      "aten::mm", true, 7, 12, "[64,3] [3,8]");
	expect_marker("aten::relu, seq = 3", "aten::relu", true, 3, -1, "");
	expect_marker("aten::conv, sizes = [[1, 2], [], [4], [], []]", "aten::conv", true, -1, -1,
		      "[1,2] [] [4]");
	expect_marker("aten::fill_, op_id = 5, sizes = [[], []]", "aten::fill_", true, -1, 5, "[]");
	expect_marker("aten::cat, op_id = 5, sizes = [[[2, 3], [4]], []]", "aten::cat", true, -1, 5,
		      "[[2,3],[4]]");
	/* A user's own label may look a little like one. */
	expect_marker("load, seq = x", "load, seq = x", false, -1, -1, "");
	expect_marker("a, b, op_id = 4", "a, b", true, -1, 4, "");
	expect_marker("seq = 4", "seq = 4", false, -1, -1, "");
	expect_marker("big, seq = 99999999999999999999", "big, seq = 99999999999999999999", false,
		      -1, -1, "");
	expect_marker("", "", false, -1, -1, "");
	/* Cut off by a limit on messages. */
	expect_marker("aten::mm, op_id = 12, sizes = [[64, 3], [3, 8]], input_op_ids = [(0,-1",
		      "aten::mm", true, -1, 12, "[64,3] [3,8]");
}

TEST(long_sizes_are_cut_whole)
{
	char text[16];

	assert_false(marker_format_sizes("[[1000, 2000, 3000, 4000]]", 26, text, sizeof(text)));
	assert_true(strlen(text) < sizeof(text));
	assert_true(marker_format_sizes("[[100, 200]]", 12, text, sizeof(text)));
	assert_string_equal(text, "[100,200]");
}

static bool is_list(const char *sizes)
{
	return marker_is_list(sizes, strlen(sizes));
}

TEST(sizes_that_json_can_hold_are_told_apart)
{
	assert_true(is_list("[]"));
	assert_true(is_list("[[64, 3, 7, 7], [0], [], []]"));
	assert_true(is_list("[ [1,2] ,3 ]"));
	assert_false(is_list(""));
	assert_false(is_list("7"));
	assert_false(is_list("[[1, 2]"));
	assert_false(is_list("[1, ]"));
	assert_false(is_list("[, 1]"));
	assert_false(is_list("[1 2]"));
	assert_false(is_list("[[1][2]]"));
	assert_false(is_list("[1 []]"));
	assert_false(is_list("[1][2]"));
	assert_false(is_list("[]]"));
	assert_false(is_list("[007]"));
	assert_false(is_list("[-1]"));
	assert_false(is_list("[\"a\"]"));
	assert_false(is_list("[1],"));
}

TEST(names_are_recognised)
{
	assert_true(marker_is_step("iteration 2", 11));
	assert_true(marker_is_step("ProfilerStep#31", 15));
	assert_true(marker_is_step("Step_4", 6));
	assert_false(marker_is_step("layer 2", 7));
	assert_false(marker_is_step("iteration", 9));
	assert_false(marker_is_step("12", 2));
	assert_true(marker_is_backward("ReluBackward0", 13));
	assert_true(marker_is_backward("MyBackward", 10));
	assert_false(marker_is_backward("Backwards", 9));
}

/* --- a step of training ---------------------------------------------------------------------- */

enum { MAX_RANGES = 32 };

struct step {
	struct attributor *attributor;
	struct gpuctr_range ranges[MAX_RANGES];
	unsigned n;
};

static const struct gpuctr_range *open_range(struct step *s, const struct gpuctr_range *parent,
					     const char *message)
{
	struct gpuctr_range *r = &s->ranges[s->n++];

	assert_true(s->n <= MAX_RANGES);
	*r = (struct gpuctr_range){ .parent = parent,
				    .domain = "",
				    .message = message,
				    .category = "",
				    .id = s->n,
				    .depth = parent ? parent->depth + 1 : 0 };
	return r;
}

static struct attribution launch(struct step *s, const struct gpuctr_range *range)
{
	struct gpuctr_record record = { .process = 1, .range = range };
	struct attribution what;

	assert_int_equal(attributor_take(s->attributor, &record, &what), 0);
	return what;
}

static int set_up(void **state)
{
	static struct step step;

	memset(&step, 0, sizeof(step));
	step.attributor = attributor_new();
	*state = &step;
	return step.attributor ? 0 : -1;
}

static int tear_down(void **state)
{
	struct step *s = *state;

	attributor_free(s->attributor);
	return 0;
}

TEST_WITH(operators_and_layers, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *iteration = open_range(s, NULL, "iteration 2");
	const struct gpuctr_range *layer = open_range(s, iteration, "layer1");
	const struct gpuctr_range *inner = open_range(s, layer, "layer1.conv");
	const struct gpuctr_range *conv =
		open_range(s, inner, "aten::conv2d, seq = 4, op_id = 9, sizes = [[2, 3], []]");
	const struct gpuctr_range *copy = open_range(s, conv, "aten::copy_, op_id = 10");
	struct attribution what = launch(s, copy);

	assert_string_equal(what.op->name, "aten::copy_");
	assert_string_equal(what.op->sizes, "");
	assert_string_equal(what.scope->path,
			    "iteration 2/layer1/layer1.conv/aten::conv2d/aten::copy_");
	assert_string_equal(what.layer, "layer1.conv");
	assert_string_equal(what.step, "iteration 2");
	assert_int_equal(what.direction, ATTRIBUTION_FPROP);
	assert_int_equal(what.seq, 4);
	assert_int_equal(what.sub, 0);
	assert_int_equal(launch(s, conv).sub, 1);
	assert_string_equal(launch(s, conv).op->sizes, "[2,3]");
	what = launch(s, layer);
	assert_null(what.op);
	assert_int_equal(what.direction, ATTRIBUTION_NONE);
	assert_null(launch(s, NULL).scope);
}

/* Two instances of an operator are one scope, though PyTorch numbers them. */
TEST_WITH(scopes_have_no_numbers, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *a = open_range(s, NULL, "aten::mm, seq = 1, op_id = 1");
	const struct gpuctr_range *b = open_range(s, NULL, "aten::mm, seq = 2, op_id = 2");
	const struct gpuctr_range *c = open_range(s, NULL, "aten::mm");

	assert_ptr_equal(launch(s, a).scope, launch(s, b).scope);
	assert_ptr_not_equal(launch(s, a).scope, launch(s, c).scope);
	assert_null(launch(s, c).op);
}

TEST_WITH(backward_finds_its_forward, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *layer = open_range(s, NULL, "fc");
	/* Shows the number of the next node, and makes none. */
	const struct gpuctr_range *add = open_range(s, layer, "aten::add_, seq = 5, op_id = 1");
	const struct gpuctr_range *linear =
		open_range(s, layer, "aten::linear, seq = 5, op_id = 2");
	const struct gpuctr_range *addmm = open_range(s, linear, "aten::addmm, seq = 5, op_id = 3");
	const struct gpuctr_range *engine = open_range(
		s, NULL, "autograd::engine::evaluate_function: AddmmBackward0, op_id = 8");
	const struct gpuctr_range *node =
		open_range(s, engine, "AddmmBackward0, seq = 5, op_id = 9");
	const struct gpuctr_range *mm = open_range(s, node, "aten::mm, op_id = 10");
	struct attribution what;

	what = launch(s, addmm);
	assert_int_equal(what.direction, ATTRIBUTION_FPROP);
	assert_string_equal(what.called->name, "aten::linear");
	assert_string_equal(launch(s, add).called->name, "aten::add_");
	/* In the engine, before its node. */
	assert_int_equal(launch(s, engine).direction, ATTRIBUTION_BPROP);
	assert_int_equal(launch(s, engine).seq, -1);
	assert_null(launch(s, engine).forward);
	what = launch(s, mm);
	assert_int_equal(what.direction, ATTRIBUTION_BPROP);
	assert_string_equal(what.op->name, "aten::mm");
	assert_non_null(what.forward);
	assert_string_equal(what.forward->name, "aten::addmm");
	assert_string_equal(what.called->name, "aten::linear");
	assert_string_equal(what.layer, "fc");
	assert_int_equal(what.seq, 5);
	/* What was displaced from the table and is seen again does not take the number back. */
	launch(s, add);
	assert_string_equal(launch(s, mm).forward->name, "aten::addmm");
	/* After it: what sums up the node's gradients. */
	assert_int_equal(launch(s, engine).seq, 5);
	assert_string_equal(launch(s, engine).layer, "fc");
	assert_string_equal(launch(s, open_range(s, engine, "aten::add_, op_id = 11")).layer, "fc");
}

/* An operator shows the number of the next node, which one within it may take: autocast's copies.
 */
TEST_WITH(what_the_program_called_is_the_outermost_of_a_number, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *outer = open_range(s, NULL, "aten::conv2d, seq = 7, op_id = 1");
	const struct gpuctr_range *to = open_range(s, outer, "aten::to, seq = 7, op_id = 2");
	const struct gpuctr_range *again = open_range(s, outer, "aten::conv2d, seq = 8, op_id = 3");
	const struct gpuctr_range *inner =
		open_range(s, again, "aten::convolution, seq = 8, op_id = 4");
	const struct gpuctr_range *cudnn =
		open_range(s, inner, "aten::cudnn_convolution, op_id = 5");
	const struct gpuctr_range *bare = open_range(s, NULL, "aten::fill_, op_id = 6");
	const struct gpuctr_range *node =
		open_range(s, NULL, "ConvolutionBackward0, seq = 8, op_id = 7");
	const struct gpuctr_range *within = open_range(s, node, "aten::relu, seq = 9, op_id = 8");

	assert_ptr_equal(launch(s, to).called, launch(s, outer).scope);
	assert_ptr_equal(launch(s, cudnn).called, launch(s, again).scope);
	assert_null(launch(s, bare).called);
	assert_ptr_equal(launch(s, node).called, launch(s, again).scope);
	/* What is computed within the backward pass is the node's. */
	assert_ptr_equal(launch(s, within).called, launch(s, again).scope);
	assert_null(launch(s, open_range(s, NULL, "MulBackward0, seq = 99")).called);
}

TEST_WITH(captures_are_apart, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *first = open_range(s, NULL, "aten::relu, seq = 3");

	launch(s, first);
	attributor_next_capture(s->attributor);
	s->n = 0;
	launch(s, open_range(s, NULL, "other"));
	assert_string_equal(launch(s, &s->ranges[0]).scope->name, "other");
	assert_null(launch(s, open_range(s, NULL, "ReluBackward0, seq = 3")).forward);
}

TEST_WITH(the_optimizer_has_no_direction, set_up, tear_down)
{
	struct step *s = *state;
	const struct gpuctr_range *step = open_range(s, NULL, "Optimizer.step#SGD.step, op_id = 1");
	const struct gpuctr_range *add = open_range(s, step, "aten::_foreach_add_, op_id = 2");

	assert_int_equal(launch(s, add).direction, ATTRIBUTION_NONE);
	assert_string_equal(launch(s, add).layer, "Optimizer.step#SGD.step");
}
