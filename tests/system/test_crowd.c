/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/raw.h"

/* Programs in standby that crowd the registry: they cost others no more than their share. */

enum { CROWD = 1500, SUBORDINATE_UID = 100000 };

static void open_many(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 4 * CROWD || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fixture_skip("not as many descriptors may be open");
	}
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The quickest of several, which no neighbour has slowed. */
static uint64_t quickest_list_us(int client, size_t expected)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t begin = now_us(), took;

		assert_int_equal(standby_count(client), expected);
		took = now_us() - begin;
		best = took < best ? took : best;
	}
	return best;
}

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

/* A container has as many uids as it likes, and names stand in a file. */
FIXTURE_TEST(many_users_are_listed_as_quickly_as_one)
{
	static struct standby_agent a[2 * CROWD];
	struct fixture *f = *state;
	uint64_t one, many;
	int root;

	fixture_need_two_users();
	open_many();
	fixture_start_daemon(f, NULL);
	root = raw_client(f, USER_SELF);
	for (size_t i = 0; i < CROWD; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	one = quickest_list_us(root, CROWD);
	for (size_t i = 0; i < CROWD; i++) {
		close(a[i].fd);
		a[CROWD + i] = standby_register(f, SUBORDINATE_UID + (int)i);
	}
	wait_until(standby_count(root) == CROWD);
	many = quickest_list_us(root, CROWD);
	for (int i = 0; i < 5 && many >= 10 * one; i++) {
		many = quickest_list_us(root, CROWD);
	}
	print_message("%d programs of one user %llu us, of as many users %llu us\n", CROWD,
		      (unsigned long long)one, (unsigned long long)many);
	assert_true(many < 10 * one);
	for (size_t i = 0; i < CROWD; i++) {
		close(a[CROWD + i].fd);
	}
	close(root);
}
