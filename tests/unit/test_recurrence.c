/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/recurrence.h"

enum { MAIN = 7, OTHER = 8, LAYERS = 12, IN_LAYER = 5 };

#define US UINT64_C(1000)
#define PAUSE (3000 * US)

/* A program: launches that take 10 us each to be made, and how many steps were seen to begin. */
struct program {
	struct recurrence r;
	uint64_t ns, steps;
	bool begins; /* the latest launch began a step */
};

static void begin(struct program *p)
{
	*p = (struct program){ .ns = 1 };
	recurrence_init(&p->r, true);
}

static void launch_in(struct program *p, uintptr_t thread, uint64_t kernel, uint64_t shape)
{
	struct recurrence_launch l = { { kernel * 1000 + shape, kernel }, p->ns += 10 * US };

	p->begins = recurrence_observes(&p->r, thread) && recurrence_on_launch(&p->r, &l);
	p->steps += p->begins;
	recurrence_check(&p->r, p->ns);
}

static void launch(struct program *p, uint64_t kernel, uint64_t shape)
{
	launch_in(p, MAIN, kernel, shape);
}

/* Of a transformer: the pause for the next batch, embedding, equal layers, loss. True if the step
 * began with its first launch, and with no other. */
static bool step(struct program *p, uint64_t shape)
{
	uint64_t before = p->steps;
	bool first;

	p->ns += PAUSE;
	launch(p, 1, shape);
	first = p->begins;
	for (int layer = 0; layer < LAYERS; layer++) {
		for (uint64_t k = 0; k < IN_LAYER; k++) {
			launch(p, 10 + k, shape);
		}
	}
	launch(p, 2, shape);
	return first && p->steps == before + 1;
}

/* Steps until they are found, n at most. */
static bool is_found(struct program *p, int n, uint64_t (*shape)(int i))
{
	for (int i = 0; i < n && atomic_load(&p->r.state) == RECURRENCE_SEARCHES; i++) {
		step(p, shape ? shape(i) : 0);
	}
	return atomic_load(&p->r.state) == RECURRENCE_FOUND;
}

static uint64_t another_shape(int i)
{
	return (uint64_t)(i * i % 997);
}

TEST(shapes_may_change)
{
	struct program p;

	begin(&p);
	assert_true(is_found(&p, 3000, another_shape));
	assert_int_equal(p.r.period, LAYERS * IN_LAYER + 2);
	assert_int_equal(p.r.key, RECURRENCE_KERNELS);
	for (int i = 0; i < 100; i++) {
		assert_true(step(&p, another_shape(i)));
	}
	recurrence_deinit(&p.r);
}

/* Between steps a figure is computed, now and then, at no fixed distance. */
TEST(what_comes_between_steps_hides_none)
{
	struct program p;

	begin(&p);
	for (int i = 0; atomic_load(&p.r.state) == RECURRENCE_SEARCHES && i < 3000; i++) {
		step(&p, 0);
		if ((uint32_t)i * 2654435761U >> 29 == 0) {
			launch(&p, 50, (uint64_t)i);
		}
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_FOUND);
	for (int i = 0; i < 100; i++) {
		assert_true(step(&p, 0));
		launch(&p, 50, 0);
	}
	recurrence_deinit(&p.r);
}

TEST(the_same_kernel_again_and_again)
{
	struct program p;

	begin(&p);
	for (int i = 0; i < 200000 && atomic_load(&p.r.state) == RECURRENCE_SEARCHES; i++) {
		launch(&p, 1, 0);
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_FOUND);
	assert_int_equal(p.r.period, 1);
	launch(&p, 1, 0);
	assert_true(p.begins);
	recurrence_deinit(&p.r);
}

/* Two launches mark a step where none does by itself. */
TEST(several_launches_mark_a_step)
{
	struct program p;

	begin(&p);
	for (int i = 0; i < 200000 && atomic_load(&p.r.state) == RECURRENCE_SEARCHES; i++) {
		launch(&p, (uint64_t)("aabb"[i % 4]), 0);
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_FOUND);
	assert_int_equal(p.r.period, 4);
	assert_int_equal(p.r.gram, 2);
	p.steps = 0;
	for (int i = 0; i < 400; i++) {
		launch(&p, (uint64_t)("aabb"[i % 4]), 0);
	}
	assert_in_range(p.steps, 99, 101);
	recurrence_deinit(&p.r);
}

TEST(nothing_recurs)
{
	uint64_t random = 1, ns;
	struct program p;

	begin(&p);
	while (atomic_load(&p.r.state) == RECURRENCE_SEARCHES) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		launch(&p, random >> 60, random >> 58 & 3);
		assert_false(p.begins);
	}
	ns = p.ns;
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_ABSENT);
	assert_in_range(ns, RECURRENCE_PATIENCE_NS, RECURRENCE_PATIENCE_NS + PAUSE);
	recurrence_deinit(&p.r);
}

TEST(one_launch_and_no_more)
{
	struct program p;

	begin(&p);
	assert_int_equal(recurrence_check(&p.r, 100 * RECURRENCE_PATIENCE_NS), RECURRENCE_SEARCHES);
	launch(&p, 1, 0);
	assert_int_equal(recurrence_check(&p.r, p.ns + RECURRENCE_PATIENCE_NS),
			 RECURRENCE_SEARCHES);
	assert_int_equal(recurrence_check(&p.r, p.ns + 2 * RECURRENCE_PATIENCE_NS),
			 RECURRENCE_SEARCHES);
	launch_in(&p, OTHER, 1, 0); /* of a thread that would never be measured */
	assert_int_equal(recurrence_check(&p.r, p.ns + 2 * RECURRENCE_PATIENCE_NS),
			 RECURRENCE_ABSENT);
	recurrence_deinit(&p.r);
}

/* It loads its data between its first launches and its first step. */
TEST(a_pause_is_no_part_of_the_patience)
{
	struct program p;

	begin(&p);
	for (uint64_t i = 0; i < 100; i++) {
		launch(&p, 100 + i, 0);
		p.ns += i % 50 == 0 ? 20 * RECURRENCE_PATIENCE_NS : 0;
	}
	assert_true(is_found(&p, 2000, NULL));
	assert_int_equal(p.r.period, LAYERS * IN_LAYER + 2);
	assert_int_equal(p.r.key, RECURRENCE_SHAPED);
	assert_true(p.r.period_ns > PAUSE && p.r.period_ns < 2 * PAUSE);
	recurrence_deinit(&p.r);
}

TEST(other_threads_are_left_aside)
{
	struct program p;

	begin(&p);
	for (int i = 0; i < 2000 && atomic_load(&p.r.state) == RECURRENCE_SEARCHES; i++) {
		step(&p, 0);
		for (int k = i * i % 17; k > 0; k--) {
			launch_in(&p, OTHER, (uint64_t)k, 0);
		}
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_FOUND);
	assert_true(step(&p, 0));
	launch_in(&p, OTHER, 1, 0);
	assert_false(p.begins);
	recurrence_deinit(&p.r);
}

TEST(a_program_that_changes_is_lost)
{
	struct program p;

	begin(&p);
	assert_true(is_found(&p, 2000, NULL));
	assert_true(step(&p, 0));
	for (uint64_t i = 0; i < 4 * (LAYERS * IN_LAYER + 2); i++) {
		launch(&p, 90, 0);
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_LOST);
	assert_false(step(&p, 0));
	recurrence_deinit(&p.r);
	begin(&p);
	assert_true(is_found(&p, 2000, NULL));
	assert_int_equal(recurrence_check(&p.r, p.ns + RECURRENCE_PATIENCE_NS), RECURRENCE_FOUND);
	assert_int_equal(recurrence_check(&p.r, p.ns + 2 * RECURRENCE_PATIENCE_NS),
			 RECURRENCE_LOST);
	recurrence_deinit(&p.r);
}

/* A step is longer than what is kept. */
TEST(a_step_may_be_too_long)
{
	struct program p;

	begin(&p);
	for (uint64_t i = 0; atomic_load(&p.r.state) == RECURRENCE_SEARCHES; i++) {
		launch(&p, i % (RECURRENCE_WINDOW + 10), 0);
	}
	assert_int_equal(atomic_load(&p.r.state), RECURRENCE_ABSENT);
	recurrence_deinit(&p.r);
}
