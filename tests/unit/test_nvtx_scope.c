/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/nvtx_scope.h"

static bool holds(struct nvtx_scope *s, size_t i)
{
	return nvtx_term_holds(s->filter->v[i], 0, nvtx_scope_match(s, 1)[i]);
}

static void ranges_come_and_go_in_any_order(void **state)
{
	static const char *const texts[] = { "A/B]", "A/", "D@A/" };
	const struct wire_selection selection = { .nvtx_include = { 3, texts },
						  .capture_range = "",
						  .step = "" };
	struct nvtx_scope s;
	struct nvtx_filter f;
	struct refusal r;
	uint64_t a, b, c, d;

	(void)state;
	assert_int_equal(nvtx_filter_init(&f, &selection, &r), 0);
	nvtx_scope_init(&s, true, &f);
	assert_false(holds(&s, 0) || holds(&s, 1) || holds(&s, 2));
	a = nvtx_scope_push(&s, "", "A");
	assert_true(holds(&s, 1));
	c = nvtx_scope_push(&s, "", "C");
	b = nvtx_scope_push(&s, "", "B");
	assert_true(holds(&s, 1) && !holds(&s, 0));
	nvtx_scope_pop(&s, c); /* B is directly on A now */
	assert_true(holds(&s, 0));
	d = nvtx_scope_push(&s, "D", "A"); /* another domain's stack */
	assert_true(holds(&s, 0) && holds(&s, 2));
	nvtx_scope_pop(&s, a);
	assert_false(holds(&s, 0) || holds(&s, 1));
	assert_true(holds(&s, 2));
	nvtx_scope_pop(&s, a); /* is not there */
	nvtx_scope_pop(&s, 0);
	assert_true(holds(&s, 2));
	nvtx_scope_pop(&s, d);
	nvtx_scope_pop(&s, b);
	assert_false(holds(&s, 0) || holds(&s, 1) || holds(&s, 2));
	assert_int_equal(s.n, 0);
	nvtx_scope_deinit(&s);
	nvtx_filter_deinit(&f);
}

static void it_grows(void **state)
{
	static const char *const texts[] = { "0/*/999" };
	const struct wire_selection selection = { .nvtx_include = { 1, texts },
						  .capture_range = "",
						  .step = "" };
	struct nvtx_scope s;
	struct nvtx_filter f;
	struct refusal r;
	char name[16];

	(void)state;
	assert_int_equal(nvtx_filter_init(&f, &selection, &r), 0);
	nvtx_scope_init(&s, true, &f);
	for (int i = 0; i < 1000; i++) {
		assert_false(holds(&s, 0));
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(nvtx_scope_push(&s, "", name), i + 1);
	}
	assert_true(holds(&s, 0));
	nvtx_scope_pop(&s, 1);
	assert_false(holds(&s, 0));
	nvtx_scope_deinit(&s);
	nvtx_filter_deinit(&f);
}

/* The library may ask for this; there is nothing to know of any range. */
static void it_grows_without_expressions(void **state)
{
	static const struct wire_selection selection = { .capture_range = "", .step = "" };
	struct nvtx_scope s;
	struct nvtx_filter f;
	struct refusal r;

	(void)state;
	assert_int_equal(nvtx_filter_init(&f, &selection, &r), 0);
	assert_int_equal(f.n_terms, 0);
	nvtx_scope_init(&s, true, &f);
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(nvtx_scope_push(&s, "", "A"), i);
	}
	for (uint64_t i = 1; i <= 100; i++) {
		nvtx_scope_pop(&s, i);
	}
	assert_int_equal(s.n, 0);
	nvtx_scope_deinit(&s);
	nvtx_filter_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_come_and_go_in_any_order),
		cmocka_unit_test(it_grows),
		cmocka_unit_test(it_grows_without_expressions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
