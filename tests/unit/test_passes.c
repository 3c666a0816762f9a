/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <string.h>

#include "client/agent/passes.h"
#include "proto/base/clean.h"
#include "proto/base/blocking.h"

static const char *const metrics[] = { "a.sum", "b.sum", "dram__c.sum", "d.sum" };
static const uint32_t of_x[] = { 3, 1 }, of_y[] = { 2 }, of_z[] = { 0, 3 };
static const double weights[] = { 1, 2 };
static const struct wire_column columns[] = {
	{ .name = "x", .metric = { 2, of_x }, .weight = { 2, weights }, .group = 1 },
	{ .name = "y", .metric = { 1, of_y }, .weight = { 1, weights }, .group = 0 },
	{ .name = "z", .metric = { 2, of_z }, .weight = { 2, weights }, .group = 1 },
};

static struct wire_plan plan_of(uint32_t groups)
{
	return (struct wire_plan){ .chip = "GH100",
				   .metrics = { 4, metrics },
				   .columns = { 3, columns },
				   .passes = groups,
				   .groups = groups };
}

static int setup(void **state)
{
	static struct arena a;

	arena_init(&a, 1 << 20);
	*state = &a;
	return 0;
}

static int teardown(void **state)
{
	arena_deinit(*state);
	return 0;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(one_group_is_the_plan)
{
	struct wire_plan plan = plan_of(1);
	struct refusal r;
	struct passes p = { 0 };

	assert_int_equal(passes_init(&p, *state, &plan, &r), 0);
	assert_int_equal(p.n, 1);
	assert_ptr_equal(p.v[0].metrics.v, metrics);
	assert_ptr_equal(p.v[0].columns.v, columns);
	assert_true(p.may_block[0]);
}

FIXTURE_TEST(metrics_of_the_sms_block)
{
	static const char *const memory[] = { "dram__bytes_read.sum", "gpu__time_duration.sum",
					      "lts__t_bytes.sum" };
	static const char *const mixed[] = { "dram__bytes_read.sum", "sm__cycles_active.avg" };

	assert_false(metrics_block(memory, ARRAY_SIZE(memory)));
	assert_true(metrics_block(mixed, ARRAY_SIZE(mixed)));
	assert_true(metric_blocks(mixed[1]));
	assert_true(metric_blocks("gpu__cycles_active.avg")); /* not seen yet: to be safe */
}

/* Each has its own metrics, and the columns of the others without terms. */
FIXTURE_TEST(groups_are_taken_apart)
{
	struct wire_plan plan = plan_of(2);
	const struct wire_plan *v;
	struct refusal r;
	struct passes p = { 0 };

	assert_int_equal(passes_init(&p, *state, &plan, &r), 0);
	assert_int_equal(p.n, 2);
	v = &p.v[0];
	assert_int_equal(v->metrics.n, 1);
	assert_string_equal(v->metrics.v[0], "dram__c.sum");
	assert_false(p.may_block[0]);
	assert_true(p.may_block[1]);
	assert_int_equal(v->columns.n, 3);
	assert_int_equal(v->columns.v[0].metric.n, 0);
	assert_int_equal(v->columns.v[0].weight.n, 0);
	assert_int_equal(v->columns.v[1].metric.n, 1);
	assert_int_equal(v->columns.v[1].metric.v[0], 0);
	v = &p.v[1];
	assert_int_equal(v->metrics.n, 3);
	for (int i = 0; i < 3; i += 2) {
		const struct wire_column *c = &v->columns.v[i];

		for (size_t k = 0; k < 2; k++) {
			assert_string_equal(v->metrics.v[c->metric.v[k]],
					    metrics[columns[i].metric.v[k]]);
			assert_true(c->weight.v[k] == weights[k]);
		}
	}
	assert_int_equal(v->columns.v[1].metric.n, 0);
}

FIXTURE_TEST(a_metric_is_added_where_it_lacks)
{
	struct wire_plan plan = plan_of(2);
	struct refusal r;
	struct passes p = { 0 };

	assert_int_equal(passes_init(&p, *state, &plan, &r), 0);
	passes_add_metric(&p, *state, "dram__c.sum");
	assert_int_equal(p.v[0].metrics.n, 1);
	assert_int_equal(p.v[1].metrics.n, 4);
	assert_string_equal(p.v[1].metrics.v[3], "dram__c.sum");
}

FIXTURE_TEST(what_cannot_take_turns_is_refused)
{
	struct wire_plan many = plan_of(LIMIT_GROUPS + 1), without = plan_of(2);
	struct wire_column column = columns[0];
	struct refusal r = { 0 };
	struct passes p = { 0 };

	assert_int_equal(passes_init(&p, *state, &many, &r), GPUCTR_E_PROTOCOL);
	many.groups = LIMIT_GROUPS;
	assert_int_equal(passes_init(&p, *state, &many, &r), 0);
	column.group = 2;
	without.columns = (struct wire_columns){ 1, &column };
	assert_int_equal(passes_init(&p, *state, &without, &r), GPUCTR_E_PROTOCOL);
	assert_int_not_equal(r.message[0], '\0');
}
