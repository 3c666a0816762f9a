/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>

#include "client/agent/path.h"
#include "client/agent/strata.h"

static int setup(void **state)
{
	static struct strata s;

	*state = &s;
	return strata_init(&s, STRATA_DEFAULT_MAX, 2);
}

static int teardown(void **state)
{
	strata_deinit(*state);
	return 0;
}

static const struct stratum_key base = { .kernel = 7,
					 .range = 9,
					 .grid = { 1, 2, 3 },
					 .block = { 4, 5, 6 },
					 .shared_bytes = 8,
					 .device = 1 };

static void each_part_of_the_key_makes_another_stratum(void **state)
{
	struct strata *s = *state;
	struct stratum_key keys[12];
	uint32_t numbers[ARRAY_SIZE(keys)];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		keys[i] = base;
	}
	keys[1].kernel++;
	keys[2].range++;
	keys[3].shared_bytes++;
	keys[4].device++;
	keys[11].path++;
	for (size_t i = 0; i < 3; i++) {
		keys[5 + i].grid[i]++;
		keys[8 + i].block[i]++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		numbers[i] = strata_find(s, &keys[i]);
		assert_int_not_equal(numbers[i], STRATA_REST);
		assert_memory_equal(&s->v[numbers[i]].key, &keys[i], sizeof(keys[i]));
		assert_int_equal(s->v[numbers[i]].level, STRATUM_RANGE);
		for (size_t j = 0; j < i; j++) {
			assert_int_not_equal(numbers[i], numbers[j]);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_int_equal(strata_find(s, &keys[i]), numbers[i]);
	}
}

static void launches_are_counted_by_stratum_and_pass(void **state)
{
	struct strata *s = *state;
	uint32_t number = strata_find(s, &base);

	assert_int_equal(strata_see(s, number, 0), 1);
	assert_int_equal(strata_see(s, number, 0), 2);
	assert_int_equal(strata_see(s, number, 1), 1);
	assert_int_equal(strata_see(s, STRATA_REST, 1), 1);
	assert_int_equal(strata_seen(s, number), 3);
	assert_int_equal(strata_total(s), 4);
}

static void a_graph_has_no_shape(void **state)
{
	struct strata *s = *state;
	struct stratum_key key = { .kernel = 3 };
	uint32_t bare = strata_find(s, &key), ranged;

	assert_int_equal(s->v[bare].level, STRATUM_KERNEL);
	key.range = 5;
	ranged = strata_find(s, &key);
	assert_int_equal(s->v[ranged].level, STRATUM_RANGE);
	assert_int_not_equal(ranged, bare);
}

/* Every step of a program has a range of its own, with its number in the name. */
static void ranges_that_never_repeat_share_a_stratum(void **state)
{
	struct strata *s = *state;
	struct stratum_key key = base, bare = base;
	uint32_t number = 0, shape;

	for (uint32_t i = 0; i < 10000; i++) {
		key.range = 1000 + i;
		number = strata_find(s, &key);
		strata_see(s, number, 0);
	}
	bare.range = 0;
	shape = strata_find(s, &bare);
	assert_int_equal(number, shape);
	assert_true(s->v[shape].merged);
	assert_int_equal(s->v[shape].level, STRATUM_SHAPE);
	assert_int_equal(strata_seen(s, shape), 10000 - STRATA_RANGES_MAX);
	assert_int_equal(strata_total(s), 10000);
	/* The rest, the kernel, the shape, and the first ranges. */
	assert_int_equal(strata_n(s), 3 + STRATA_RANGES_MAX);
	assert_false(strata_are_full(s));
}

/* A path whose ranges have names of their own is a stratum, of no range. */
static void ranges_of_a_path_share_its_stratum(void **state)
{
	struct strata *s = *state;
	struct stratum_key key = base;
	uint32_t number = 0;

	key.path = 77;
	for (uint32_t i = 0; i < 100; i++) {
		key.range = 1000 + i;
		number = strata_find(s, &key);
	}
	key.range = 0;
	assert_int_equal(number, strata_find(s, &key));
	assert_int_equal(s->v[number].level, STRATUM_PATH);
	assert_true(s->v[number].merged);
	assert_int_equal(s->v[number].children, STRATA_RANGES_MAX);
	key.path = 78; /* another one begins anew */
	key.range = 5000;
	assert_int_equal(s->v[strata_find(s, &key)].level, STRATUM_RANGE);
}

/* Of a program that never repeats itself launches are of their shape, or of the range there. */
static void paths_that_never_repeat_share_a_stratum(void **state)
{
	struct strata *s = *state;
	struct stratum_key key = base, bare = base;
	uint32_t number = 0;

	key.range = bare.range = 0;
	for (uint32_t i = 0; i < 10000; i++) {
		key.path = 1000 + i;
		number = strata_find(s, &key);
	}
	assert_int_equal(number, strata_find(s, &bare));
	assert_int_equal(s->v[number].level, STRATUM_SHAPE);
	assert_true(s->v[number].merged);
	assert_int_equal(strata_n(s), 3 + STRATA_PATHS_OF_A_SHAPE_MAX);
}

/* Paths leave half of the room to other kernels, shapes and ranges. */
static void paths_take_half_of_the_room(void **state)
{
	struct stratum_key key = { .grid = { 1, 1, 1 }, .range = 3 }, less;
	struct strata s;
	uint32_t number;

	(void)state;
	assert_int_equal(strata_init(&s, 1000, 1), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		key.kernel = 1 + i % 20;
		key.path = 1 + i;
		number = strata_find(&s, &key);
	}
	assert_in_range(strata_n(&s), 500, 600);
	less = key;
	less.path = 0;
	assert_int_equal(number, strata_find(&s, &less));
	assert_int_equal(s.v[number].level, STRATUM_RANGE);
	assert_memory_equal(&s.v[number].key, &less, sizeof(less));
	assert_true(s.v[number].merged);
	strata_deinit(&s);
}

/* Eight launches and their order count, and nothing before them. */
static void a_path_is_of_the_last_launches(void **state)
{
	struct path a = { .next = 0 }, b = { .next = 0 }, c = { .next = 0 };

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		path_add(&a, i * i);
	}
	for (uint64_t i = 1000 - PATH_LAUNCHES; i < 1000; i++) {
		path_add(&b, i * i);
		path_add(&c, (1991 - i) * (1991 - i)); /* the other way round */
	}
	assert_true(path_hash(&a) == path_hash(&b));
	assert_true(path_hash(&a) != path_hash(&c));
	path_add(&b, 5);
	assert_true(path_hash(&a) != path_hash(&b));
	path_add(&a, 5);
	assert_true(path_hash(&a) == path_hash(&b));
}

/* A path knows kernels and shapes, wherever they were launched. */
static void a_path_knows_kernels_and_shapes(void **state)
{
	struct stratum_key key = base;
	uint64_t hash = strata_hash_launch(&base);

	(void)state;
	key.range++;
	key.path++;
	key.device++;
	assert_true(strata_hash_launch(&key) == hash);
	for (int i = 0; i < 3; i++) {
		key = base;
		key.grid[i]++;
		assert_true(strata_hash_launch(&key) != hash);
		key = base;
		key.block[i]++;
		assert_true(strata_hash_launch(&key) != hash);
	}
	key = base;
	key.shared_bytes++;
	assert_true(strata_hash_launch(&key) != hash);
	key = base;
	key.kernel++;
	assert_true(strata_hash_launch(&key) != hash);
}

static void shapes_that_never_repeat_share_a_stratum(void **state)
{
	struct strata *s = *state;
	struct stratum_key key = base;
	uint32_t number = 0;

	key.range = 0;
	for (uint32_t i = 0; i < 10000; i++) {
		key.grid[0] = 1 + i;
		number = strata_find(s, &key);
		strata_see(s, number, 0);
	}
	assert_int_equal(s->v[number].level, STRATUM_KERNEL);
	assert_true(s->v[number].merged);
	assert_int_equal(strata_seen(s, number), 10000 - STRATA_SHAPES_OF_A_KERNEL_MAX);
	key.range = 4; /* and so do their ranges */
	assert_int_equal(strata_find(s, &key), number);
}

static void what_finds_no_room_is_of_the_rest(void **state)
{
	struct strata s;
	struct stratum_key key = { .grid = { 1, 1, 1 } };
	uint32_t number = 1;

	(void)state;
	assert_int_equal(strata_init(&s, 100, 1), 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		key.kernel = i;
		number = strata_find(&s, &key);
		strata_see(&s, number, 0);
	}
	assert_true(strata_are_full(&s));
	assert_int_equal(strata_n(&s), 100);
	assert_int_equal(number, STRATA_REST);
	assert_int_equal(strata_total(&s), 1000);
	key.kernel = 1; /* those that are there remain */
	assert_int_not_equal(strata_find(&s, &key), STRATA_REST);
	key.grid[0] = 2; /* and are what new shapes of theirs fall back to */
	number = strata_find(&s, &key);
	assert_int_equal(s.v[number].level, STRATUM_KERNEL);
	assert_int_equal(s.v[number].key.kernel, 1);
	strata_deinit(&s);
}

static void no_table_at_all_is_refused(void **state)
{
	struct strata s;

	(void)state;
	assert_int_equal(strata_init(&s, 0, 1), -EINVAL);
	assert_int_equal(strata_init(&s, 1, 0), -EINVAL);
	assert_int_equal(strata_init(&s, 1, STRATA_PASSES_MAX + 1), -EINVAL);
}

enum { THREADS = 8, THREAD_LAUNCHES = 50000, THREAD_KERNELS = 700 };

static void *see_many(void *argument)
{
	struct strata *s = argument;
	struct stratum_key key = base;

	for (uint64_t i = 0; i < THREAD_LAUNCHES; i++) {
		key.kernel = 1 + i * 31 % THREAD_KERNELS;
		key.range = i % 3;
		strata_see(s, strata_find(s, &key), (uint32_t)(i % 2));
	}
	return NULL;
}

static void threads_count_every_launch_once(void **state)
{
	struct strata *s = *state;
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, see_many, s), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	/* For each kernel: itself, its shape, and that with two ranges. */
	assert_int_equal(strata_n(s), 1 + 4 * THREAD_KERNELS);
	assert_int_equal(strata_total(s), (uint64_t)THREADS * THREAD_LAUNCHES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_part_of_the_key_makes_another_stratum, setup,
						teardown),
		cmocka_unit_test_setup_teardown(launches_are_counted_by_stratum_and_pass, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_graph_has_no_shape, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_that_never_repeat_share_a_stratum, setup,
						teardown),
		cmocka_unit_test_setup_teardown(shapes_that_never_repeat_share_a_stratum, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ranges_of_a_path_share_its_stratum, setup,
						teardown),
		cmocka_unit_test_setup_teardown(paths_that_never_repeat_share_a_stratum, setup,
						teardown),
		cmocka_unit_test(paths_take_half_of_the_room),
		cmocka_unit_test(a_path_is_of_the_last_launches),
		cmocka_unit_test(a_path_knows_kernels_and_shapes),
		cmocka_unit_test(what_finds_no_room_is_of_the_rest),
		cmocka_unit_test(no_table_at_all_is_refused),
		cmocka_unit_test_setup_teardown(threads_count_every_launch_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
