/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/account.h"

static void one_account_a_uid_as_long_as_it_is_needed(void **state)
{
	struct accounts all;
	struct account *a, *b;

	(void)state;
	accounts_init(&all);
	a = account_of(&all, 1000);
	b = account_of(&all, 1001);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(account_of(&all, 1000), a);
	account_unref(a);
	account_unref(b);
	assert_false(list_is_empty(&all.all));
	account_unref(a);
	assert_true(list_is_empty(&all.all));
}

/* More than there are buckets, so that each has several; every other one goes. */
static void many_users_are_told_apart(void **state)
{
	enum { MANY = 3 * ACCOUNT_BUCKETS };
	static struct account *a[MANY];
	struct accounts all;

	(void)state;
	accounts_init(&all);
	for (uid_t uid = 0; uid < MANY; uid++) {
		a[uid] = account_of(&all, uid);
		assert_int_equal(a[uid]->uid, uid);
		assert_int_equal(a[uid]->refs, 1);
	}
	for (uid_t uid = 0; uid < MANY; uid += 2) {
		assert_null(account_unref(a[uid]));
	}
	for (uid_t uid = 0; uid < MANY; uid++) {
		struct account *again = account_of(&all, uid);

		assert_int_equal(again->uid, uid);
		assert_int_equal(again->refs, uid % 2 ? 2 : 1);
	}
	accounts_deinit(&all);
	assert_true(list_is_empty(&all.all));
}

static void a_refusal_says_what_is_held(void **state)
{
	struct accounts all;
	struct account *a;
	struct refusal r;

	(void)state;
	accounts_init(&all);
	a = account_of(&all, 1000);
	a->connections = 3;
	assert_true(quota_take(&a->bytes, ACCOUNT_BYTES_MAX));
	assert_false(quota_take(&a->bytes, 1));
	account_refuse(a, &r);
	assert_int_equal(r.code, GPUCTR_E_QUOTA);
	assert_string_equal(r.message, "the daemon holds 16.0 MiB for 3 connections of uid 1000, "
				       "of the 16 MiB that a user may have waiting");
	account_unref(a);
}

/* Four connections with endless work, of which one fits into a round: each gets every fourth. */
static void turns_go_round(void **state)
{
	uint64_t lap[4] = { 0 };
	unsigned served[4] = { 0 };
	struct accounts all;
	struct account *a;

	(void)state;
	accounts_init(&all);
	a = account_of(&all, 1000);
	for (uint64_t round = 1; round <= 400; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(served); i++) {
			if (account_begin_round(&a->time, round, &lap[i])) {
				served[i]++;
				a->time.spent_ns += ACCOUNT_ROUND_US * UINT64_C(1000);
			}
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(served); i++) {
		assert_in_range(served[i], 99, 101);
	}
	account_unref(a);
}

/* Who was passed over and has nothing to do any more holds nobody up. */
static void nobody_waits_for_the_absent(void **state)
{
	uint64_t lap[2] = { 0 };
	struct accounts all;
	struct account *a;

	(void)state;
	accounts_init(&all);
	a = account_of(&all, 1000);
	assert_true(account_begin_round(&a->time, 1, &lap[0]));
	a->time.spent_ns = ACCOUNT_ROUND_US * UINT64_C(1000);
	assert_false(account_begin_round(&a->time, 1, &lap[1]));
	assert_false(account_begin_round(&a->time, 2, &lap[0])); /* the other would be next */
	assert_true(account_begin_round(&a->time, 3, &lap[0]));
	assert_true(account_begin_round(&a->time, 4, &lap[0]));
	account_unref(a);
}

/* Two users are parts of a whole, and a third is not; one goes out of it with what it has. */
static void parts_of_a_whole_share_its_limit(void **state)
{
	struct quota whole = { .max = 100 };
	struct quota ann = { .max = 80 }, bob = { .max = 80 }, carol = { .max = 80 };

	(void)state;
	assert_true(quota_take(&ann, 10));
	quota_join(&ann, &whole);
	quota_join(&bob, &whole);
	assert_int_equal(whole.used, 10);
	assert_true(quota_take(&ann, 50));
	assert_false(quota_take(&ann, 21)); /* her own limit */
	assert_int_equal(quota_left(&bob), 40);
	assert_false(quota_take(&bob, 41));
	assert_true(quota_take(&bob, 40));
	assert_int_equal(whole.used, 100);
	assert_int_equal(bob.used, 40);
	assert_false(quota_take(&ann, 1));
	assert_true(quota_take(&carol, 80));
	quota_give(&ann, 20);
	assert_true(quota_take(&bob, 20));
	quota_join(&bob, NULL);
	assert_int_equal(whole.used, 40);
	assert_true(quota_take(&bob, 20));
	assert_int_equal(whole.used, 40);
	quota_join(&carol, &whole); /* more than there is */
	assert_int_equal(quota_left(&ann), 0);
	quota_give(&carol, 80);
	assert_int_equal(quota_left(&ann), 40);
}

static void a_refusal_tells_whose_limit_it_was(void **state)
{
	struct quota whole = { .max = 32 << 20, .used = 32 << 20 };
	struct account a = { .uid = 1234, .bytes = { .max = ACCOUNT_BYTES_MAX, .used = 1 << 20 } };
	struct refusal r;

	(void)state;
	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "the 16 MiB that a user may have"));
	a.bytes.whole = &whole;
	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "32.0 MiB for users who may not measure, of the 32 MiB"));
	whole.used = 1 << 20;
	a.bytes.used = ACCOUNT_BYTES_MAX;
	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "the 16 MiB that a user may have"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_a_whole_share_its_limit),
		cmocka_unit_test(a_refusal_tells_whose_limit_it_was),
		cmocka_unit_test(one_account_a_uid_as_long_as_it_is_needed),
		cmocka_unit_test(many_users_are_told_apart),
		cmocka_unit_test(a_refusal_says_what_is_held),
		cmocka_unit_test(turns_go_round),
		cmocka_unit_test(nobody_waits_for_the_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
