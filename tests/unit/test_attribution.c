/* SPDX-License-Identifier: Apache-2.0 */

/* What ranges say of a launch: sizes, scopes, and the join of a backward kernel to its forward
 * operator. */

#include "tests/unit/unit.h"

#include "client/report/attribution.h"
#include "client/report/sizes.h"
#include "tests/unit/made_site.h"

static int set_up(void **state);
static int tear_down(void **state);

/* --- sizes ----------------------------------------------------------------------------------- */

static void expect_sizes(const char *list, const char *wanted)
{
	char text[64];

	assert_true(sizes_format(list, text, sizeof(text)));
	assert_string_equal(text, wanted);
}

TEST(sizes_are_short)
{
	expect_sizes("[[64, 3], [3, 8]]", "[64,3] [3,8]");
	expect_sizes("[[1, 2], [], [4], [], []]", "[1,2] [] [4]");
	expect_sizes("[[], []]", "[]");
	expect_sizes("[[[2, 3], [4]], []]", "[[2,3],[4]]");
}

TEST(long_sizes_are_cut_whole)
{
	char text[16];

	assert_false(sizes_format("[[1000, 2000, 3000, 4000]]", text, sizeof(text)));
	assert_true(strlen(text) < sizeof(text));
	assert_true(sizes_format("[[100, 200]]", text, sizeof(text)));
	assert_string_equal(text, "[100,200]");
}

TEST(sizes_that_json_can_hold_are_told_apart)
{
	assert_true(sizes_is_list("[]"));
	assert_true(sizes_is_list("[[64, 3, 7, 7], [0], [], []]"));
	assert_true(sizes_is_list("[ [1,2] ,3 ]"));
	assert_false(sizes_is_list(""));
	assert_false(sizes_is_list("7"));
	assert_false(sizes_is_list("[[1, 2]"));
	assert_false(sizes_is_list("[1, ]"));
	assert_false(sizes_is_list("[, 1]"));
	assert_false(sizes_is_list("[1 2]"));
	assert_false(sizes_is_list("[[1][2]]"));
	assert_false(sizes_is_list("[1 []]"));
	assert_false(sizes_is_list("[1][2]"));
	assert_false(sizes_is_list("[]]"));
	assert_false(sizes_is_list("[007]"));
	assert_false(sizes_is_list("[-1]"));
	assert_false(sizes_is_list("[\"a\"]"));
	assert_false(sizes_is_list("[1],"));
}

/* --- a step of training ---------------------------------------------------------------------- */

enum { MAX_RANGES = 32 };

struct step {
	struct attributor *attributor;
	struct scopes scopes; /* of the file that keeps what the attributor says */
	struct made_site ranges[MAX_RANGES];
	unsigned n;
	const struct made_site *last; /* the range of the last launch */
};

static const struct made_site *open_range(struct step *s, const struct made_site *around,
					  const char *text)
{
	struct made_site *m = &s->ranges[s->n++];

	assert_true(s->n <= MAX_RANGES);
	make_site(m, around, s->n, text);
	return m;
}

/* How many of the outermost ranges are around the last launch as well. */
static unsigned count_opened(const struct step *s, const struct made_site *m)
{
	for (; m; m = m->around) {
		for (const struct made_site *other = s->last; other; other = other->around) {
			if (other == m) {
				return m->site.depth + 1;
			}
		}
	}
	return 0;
}

/* Who reads the file gets what the writer has found. */
static void expect_read(struct step *s, const struct gpuctr_record *record,
			const struct attribution *what)
{
	struct store_attribution columns;
	struct store_found found = { .forward = NULL };
	struct attribution read;

	attribution_columns(what, &columns);
	for (unsigned i = 0; i < s->n; i++) {
		if (s->ranges[i].site.id == columns.layer_site) {
			found.forward = &s->ranges[i].site;
		}
	}
	found.step = columns.step;
	found.seq = columns.seq;
	scopes_next_capture(&s->scopes); /* tests use their sites again */
	assert_int_equal(attribution_read(&s->scopes, record, &found, &read), 0);
	assert_string_equal(read.scope ? read.scope->path : "",
			    what->scope ? what->scope->path : "");
	assert_string_equal(read.op ? read.op->name : "", columns.op);
	assert_string_equal(read.op ? read.op->sizes : "", columns.sizes);
	assert_string_equal(read.layer, columns.layer);
	assert_string_equal(read.step, what->step);
	assert_int_equal(read.step_number, what->step_number);
	assert_int_equal(read.direction, what->direction);
	assert_int_equal(read.seq, what->seq);
	assert_int_equal(read.layer_site, what->layer_site);
}

static struct attribution launch(struct step *s, const struct made_site *m)
{
	struct gpuctr_record record = { .process = 1, .opened = count_opened(s, m) };
	struct attribution what;

	put_into(&record, m);
	s->last = m;
	assert_int_equal(attributor_take(s->attributor, &record, &what), 0);
	expect_read(s, &record, &what);
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
	scopes_deinit(&s->scopes);
	return 0;
}

TEST_WITH(operators_and_layers, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *iteration = open_range(s, NULL, "iteration 2");
	const struct made_site *layer = open_range(s, iteration, "layer1");
	const struct made_site *inner = open_range(s, layer, "layer1.conv");
	const struct made_site *conv =
		open_range(s, inner, "aten::conv2d, seq = 4, op_id = 9, sizes = [[2, 3], []]");
	const struct made_site *copy = open_range(s, conv, "aten::copy_, op_id = 10");
	struct attribution what = launch(s, copy);

	assert_string_equal(what.op->name, "aten::copy_");
	assert_string_equal(what.op->sizes, "");
	assert_string_equal(what.scope->path,
			    "iteration N/layer1/layer1.conv/aten::conv2d/aten::copy_");
	assert_string_equal(what.layer, "layer1.conv");
	assert_string_equal(what.step, "iteration N");
	assert_int_equal(what.step_number, 2);
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
	const struct made_site *a = open_range(s, NULL, "aten::mm, seq = 1, op_id = 1");
	const struct made_site *b = open_range(s, NULL, "aten::mm, seq = 2, op_id = 2");
	const struct made_site *c = open_range(s, NULL, "aten::mm");

	assert_ptr_equal(launch(s, a).scope, launch(s, b).scope);
	assert_ptr_not_equal(launch(s, a).scope, launch(s, c).scope);
	assert_null(launch(s, c).op);
}

TEST_WITH(backward_finds_its_forward, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *layer = open_range(s, NULL, "fc");
	/* Shows the number of the next node, and makes none. */
	const struct made_site *add = open_range(s, layer, "aten::add_, seq = 5, op_id = 1");
	const struct made_site *linear = open_range(s, layer, "aten::linear, seq = 5, op_id = 2");
	const struct made_site *addmm = open_range(s, linear, "aten::addmm, seq = 5, op_id = 3");
	const struct made_site *engine = open_range(
		s, NULL, "autograd::engine::evaluate_function: AddmmBackward0, op_id = 8");
	const struct made_site *node = open_range(s, engine, "AddmmBackward0, seq = 5, op_id = 9");
	const struct made_site *mm = open_range(s, node, "aten::mm, op_id = 10");
	struct attribution what;

	assert_string_equal(launch(s, add).called->name, "aten::add_");
	what = launch(s, addmm);
	assert_int_equal(what.direction, ATTRIBUTION_FPROP);
	assert_string_equal(what.called->name, "aten::linear");
	assert_int_equal(what.layer_site, addmm->site.id);
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
	assert_int_equal(what.layer_site, addmm->site.id);
	/* After it: what sums up the node's gradients. */
	assert_int_equal(launch(s, engine).seq, 5);
	assert_string_equal(launch(s, engine).layer, "fc");
	assert_string_equal(launch(s, open_range(s, engine, "aten::add_, op_id = 11")).layer, "fc");
}

/* The engine's thread has no ranges of the program's: neither step nor layer. */
TEST_WITH(backward_is_in_the_step_of_its_forward, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *iteration = open_range(s, NULL, "iteration 7");
	const struct made_site *mul = open_range(s, iteration, "aten::mul, seq = 3, op_id = 1");
	struct attribution what;

	launch(s, mul);
	what = launch(s, open_range(s, NULL, "MulBackward0, seq = 3, op_id = 2"));
	assert_string_equal(what.layer, "");
	assert_string_equal(what.step, "iteration N");
	assert_int_equal(what.step_number, 7);
	assert_int_equal(what.layer_site, mul->site.id);
}

/* An engine whose node has ended, and another one of the same site. */
TEST_WITH(engines_are_told_apart, set_up, tear_down)
{
	static const char text[] = "autograd::engine::evaluate_function: MulBackward0, op_id = 1";
	struct step *s = *state;
	const struct made_site *first = open_range(s, NULL, text);
	struct made_site second;

	launch(s, open_range(s, first, "MulBackward0, seq = 5, op_id = 9"));
	assert_int_equal(launch(s, first).seq, 5);
	second = *first;
	assert_int_equal(launch(s, &second).seq, -1);
}

/* An operator shows the number of the next node, which one within it may take: autocast's copies.
 */
TEST_WITH(what_the_program_called_is_the_outermost_of_a_number, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *outer = open_range(s, NULL, "aten::conv2d, seq = 7, op_id = 1");
	const struct made_site *to = open_range(s, outer, "aten::to, seq = 7, op_id = 2");
	const struct made_site *again = open_range(s, outer, "aten::conv2d, seq = 8, op_id = 3");
	const struct made_site *inner =
		open_range(s, again, "aten::convolution, seq = 8, op_id = 4");
	const struct made_site *cudnn = open_range(s, inner, "aten::cudnn_convolution, op_id = 5");
	const struct made_site *bare = open_range(s, NULL, "aten::fill_, op_id = 6");
	const struct made_site *node =
		open_range(s, NULL, "ConvolutionBackward0, seq = 8, op_id = 7");
	const struct made_site *within = open_range(s, node, "aten::relu, seq = 9, op_id = 8");

	assert_ptr_equal(launch(s, to).called, launch(s, outer).scope);
	assert_ptr_equal(launch(s, cudnn).called, launch(s, again).scope);
	assert_null(launch(s, bare).called);
	assert_ptr_equal(launch(s, node).called, launch(s, again).scope);
	/* What is computed within the backward pass is the node's. */
	assert_ptr_equal(launch(s, within).called, launch(s, again).scope);
	assert_null(launch(s, open_range(s, NULL, "MulBackward0, seq = 99")).called);
}

/* A site of another capture may lie where one of the capture before lay. */
TEST_WITH(captures_are_apart, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *site = open_range(s, NULL, "aten::relu, seq = 3");
	const struct scope *scope = scopes_of_site(&s->scopes, &site->site);

	assert_string_equal(scope->name, "aten::relu");
	assert_ptr_equal(scopes_of_site(&s->scopes, &site->site), scope);
	s->n = 0;
	site = open_range(s, NULL, "other");
	scopes_next_capture(&s->scopes);
	assert_string_equal(scopes_of_site(&s->scopes, &site->site)->name, "other");
}

TEST_WITH(the_optimizer_has_no_direction, set_up, tear_down)
{
	struct step *s = *state;
	const struct made_site *step = open_range(s, NULL, "Optimizer.step#SGD.step, op_id = 1");
	const struct made_site *add = open_range(s, step, "aten::_foreach_add_, op_id = 2");

	assert_int_equal(launch(s, add).direction, ATTRIBUTION_NONE);
	assert_string_equal(launch(s, add).layer, "Optimizer.step#SGD.step");
}
