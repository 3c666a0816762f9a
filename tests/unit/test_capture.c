/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/capture.h"
#include "proto/wire/limits.h"

static int setup(void **state)
{
	static struct registry r;

	registry_init(&r);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	struct registry *r = *state;

	while (!list_is_empty(&r->captures)) {
		capture_free(r, list_entry(r->captures.next, struct capture, link));
	}
	return (int)r->n;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(tokens_are_hex_and_differ)
{
	static char tokens[CAPTURES_MAX][CAPTURE_TOKEN_BYTES];
	struct registry *r = *state;

	for (size_t i = 0; i < CAPTURES_MAX; i++) {
		struct capture *c = capture_new(r);

		assert_non_null(c);
		assert_int_equal(strlen(c->token), CAPTURE_TOKEN_BYTES - 1);
		assert_int_equal(strspn(c->token, "0123456789abcdef"), CAPTURE_TOKEN_BYTES - 1);
		memcpy(tokens[i], c->token, sizeof(tokens[i]));
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(tokens[i], tokens[k]);
		}
	}
}

FIXTURE_TEST(captures_have_a_limit_and_fresh_numbers)
{
	struct registry *r = *state;
	struct capture *c = NULL;
	uint32_t last = 0;

	for (size_t i = 0; i < CAPTURES_MAX; i++) {
		c = capture_new(r);
		assert_non_null(c);
		assert_true(c->id > last);
		last = c->id;
	}
	assert_null(capture_new(r));
	assert_null(capture_free(r, c));
	assert_null(registry_find(r, last));
	c = capture_new(r);
	assert_non_null(c);
	assert_true(c->id > last); /* never used again */
	assert_null(capture_free(r, NULL));
}

FIXTURE_TEST(finds_by_number_and_token)
{
	struct registry *r = *state;
	struct capture *a = capture_new(r), *b = capture_new(r);
	char token[CAPTURE_TOKEN_BYTES + 1];

	assert_ptr_equal(registry_find(r, a->id), a);
	assert_ptr_equal(registry_find(r, b->id), b);
	assert_null(registry_find(r, 0));
	assert_ptr_equal(registry_find_token(r, a->token), a);
	assert_ptr_equal(registry_find_token(r, b->token), b);
	for (size_t i = 0; i < CAPTURE_TOKEN_BYTES - 1; i++) { /* every character counts */
		memcpy(token, a->token, CAPTURE_TOKEN_BYTES);
		token[i] = token[i] == '0' ? '1' : '0';
		assert_null(registry_find_token(r, token));
	}
	assert_null(registry_find_token(r, ""));
	memcpy(token, a->token, CAPTURE_TOKEN_BYTES);
	token[CAPTURE_TOKEN_BYTES - 2] = '\0';
	assert_null(registry_find_token(r, token));
	snprintf(token, sizeof(token), "%s0", a->token);
	assert_null(registry_find_token(r, token));
}

FIXTURE_TEST(counts_by_uid)
{
	struct registry *r = *state;

	for (unsigned i = 0; i < 10; i++) {
		capture_new(r)->uid = 1000 + i % 3;
	}
	assert_int_equal(registry_count_user(r, 1000), 4);
	assert_int_equal(registry_count_user(r, 1001), 3);
	assert_int_equal(registry_count_user(r, 1003), 0);
}

/* Options and plan come from a message that is gone when the handler returns. */
FIXTURE_TEST(keeps_its_own_copies)
{
	struct registry *r = *state;
	struct capture *c = capture_new(r);
	char metric[] = "dram__bytes_read.sum", regex[] = "^k[0-9]+", chip[] = "GH100",
	     uuid[] = "GPU-1";
	const char *metrics[] = { metric }, *gpus[] = { uuid };
	uint32_t index = 0;
	double weight = 2.5;
	struct wire_column column = {
		.name = metric, .unit = "byte", .metric = { 1, &index }, .weight = { 1, &weight }
	};
	struct wire_open_capture o = {
		.metrics = { 1, metrics },
		.gpus = { 1, gpus },
		.chip = chip,
		.program = chip,
		.selection = { .kernel_regex = regex, .launch_count = 7 },
		.timeout_ns = 9,
		.no_wait = true,
	};
	struct wire_plan plan = {
		.chip = chip, .metrics = { 1, metrics }, .columns = { 1, &column }, .passes = 1
	};

	assert_int_equal(capture_set_options(c, &o), 0);
	assert_int_equal(capture_set_plan(c, &plan), 0);
	memset(metric, '#', sizeof(metric) - 1);
	memset(regex, '#', sizeof(regex) - 1);
	memset(chip, '#', sizeof(chip) - 1);
	memset(uuid, '#', sizeof(uuid) - 1);
	index = 99;
	weight = 0;
	assert_string_equal(c->options.metrics.v[0], "dram__bytes_read.sum");
	assert_string_equal(c->options.gpus.v[0], "GPU-1");
	assert_string_equal(c->options.selection.kernel_regex, "^k[0-9]+");
	assert_int_equal(c->options.selection.launch_count, 7);
	assert_int_equal(c->options.timeout_ns, 9);
	assert_true(c->options.no_wait);
	assert_string_equal(c->plan.chip, "GH100");
	assert_string_equal(c->plan.columns.v[0].name, "dram__bytes_read.sum");
	assert_int_equal(c->plan.columns.v[0].metric.v[0], 0);
	assert_true(c->plan.columns.v[0].weight.v[0] == 2.5);
}

/* Not more than an agent takes, and none of a recording or a trace. */
FIXTURE_TEST(some_plans_may_take_turns)
{
	static const struct wire_open_capture trace = { .trace = true };
	struct capture *c = capture_new(*state);
	struct wire_column column = { .group = 1 };
	struct wire_plan plan = { .columns = { 1, &column }, .passes = 2, .groups = 2 };

	assert_true(capture_may_measure_groups(c, &plan));
	c->recorded = true;
	assert_false(capture_may_measure_groups(c, &plan));
	c->recorded = false;
	plan.groups = LIMIT_GROUPS;
	assert_true(capture_may_measure_groups(c, &plan));
	plan.groups = LIMIT_GROUPS + 1;
	assert_false(capture_may_measure_groups(c, &plan));
	plan.groups = 1; /* the column is in none */
	assert_false(capture_may_measure_groups(c, &plan));
	plan.groups = 2;
	assert_int_equal(capture_set_options(c, &trace), 0);
	assert_false(capture_may_measure_groups(c, &plan));
}

/* An image is of one pass, and which of several it is of would be nowhere. */
FIXTURE_TEST(images_as_they_are_read_take_no_turns)
{
	static const struct wire_open_capture raw = { .selection = { .raw_images = true } };
	struct capture *c = capture_new(*state);
	struct wire_column column = { .group = 1 };
	const struct wire_plan plan = { .columns = { 1, &column }, .passes = 2, .groups = 2 };

	assert_int_equal(capture_set_options(c, &raw), 0);
	assert_false(capture_may_measure_groups(c, &plan));
}

/* A wish may be long, so its user pays for it until the capture is gone. */
FIXTURE_TEST(a_wish_is_its_users_to_pay)
{
	static const struct wire_open_capture o = { .selection = { .kernel_regex = "^gemm" } };
	struct registry *r = *state;
	struct accounts accounts;
	struct account *a;
	struct capture *c;

	accounts_init(&accounts);
	a = account_of(&accounts, 1000);
	c = capture_new(r);
	capture_set_account(c, a);
	assert_int_equal(a->bytes.used, 0);
	assert_int_equal(capture_set_options(c, &o), 0);
	assert_true(a->bytes.used >= sizeof("^gemm"));
	capture_free(r, c);
	assert_int_equal(a->bytes.used, 0);

	a->bytes.used = a->bytes.max; /* what its connections hold counts as well */
	c = capture_new(r);
	capture_set_account(c, a);
	assert_true(capture_set_options(c, &o) < 0);
	capture_free(r, c);
	assert_int_equal(a->bytes.used, a->bytes.max);
	account_unref(a);
	accounts_deinit(&accounts);
}

FIXTURE_TEST(live_is_ready_or_running)
{
	struct capture *c = capture_new(*state);

	assert_int_equal(c->state, CAPTURE_PLANNING);
	for (unsigned s = 0; s < CAPTURE_STATES; s++) {
		c->state = s;
		assert_int_equal(capture_is_live(c), s == CAPTURE_READY || s == CAPTURE_RUNNING);
	}
}

/* Clients of any release know these five, in this order. */
FIXTURE_TEST(clients_are_told_a_state_they_know)
{
	struct capture *c = capture_new(*state);
	enum gpuctr_capture_state last = GPUCTR_CAPTURE_PLANNING;

	for (unsigned s = 0; s < CAPTURE_STATES; s++) {
		c->state = s;
		assert_true(capture_reported_state(c) >= last);
		last = capture_reported_state(c);
	}
	assert_int_equal(last, GPUCTR_CAPTURE_ENDING);
	c->state = CAPTURE_OPENING;
	assert_int_equal(capture_reported_state(c), GPUCTR_CAPTURE_QUEUED);
	c->state = CAPTURE_RUNNING;
	assert_int_equal(capture_reported_state(c), GPUCTR_CAPTURE_RUNNING);
}
