/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/account.h"

TEST(one_account_a_uid_as_long_as_it_is_needed)
{
	struct accounts all;
	struct account *a, *b;

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
TEST(many_users_are_told_apart)
{
	enum { MANY = 3 * ACCOUNT_BUCKETS };
	static struct account *a[MANY];
	struct accounts all;

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

TEST(a_refusal_says_what_is_held)
{
	struct accounts all;
	struct account *a;
	struct refusal r;

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

/* Two users are parts of a whole, and a third is not. */
TEST(parts_of_a_whole_share_its_limit)
{
	struct quota whole = { .max = 100 };
	struct quota ann = { .max = 80, .whole = &whole }, bob = ann, carol = { .max = 80 };

	assert_true(quota_take(&ann, 60));
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
	assert_int_equal(quota_left(&ann), 0);
	assert_int_equal(whole.used, 100);
}

TEST(a_refusal_tells_whose_limit_it_was)
{
	struct quota whole = { .max = 32 << 20, .used = 32 << 20 };
	struct account a = { .uid = 1234, .bytes = { .max = ACCOUNT_BYTES_MAX, .used = 1 << 20 } };
	struct refusal r;

	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "the 16 MiB that a user may have"));
	a.bytes.whole = &whole;
	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "32.0 MiB for its users, of the 32 MiB"));
	whole.used = 1 << 20;
	a.bytes.used = ACCOUNT_BYTES_MAX;
	account_refuse(&a, &r);
	assert_non_null(strstr(r.message, "the 16 MiB that a user may have"));
}
