/* SPDX-License-Identifier: Apache-2.0 */

/* Which kernels get the same position. The truth is the number of each kernel in its step. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/attribution/steps.h"

#define KERNELS_MOST 60000

struct program {
	uint32_t shapes[KERNELS_MOST], truth[KERNELS_MOST], positions[KERNELS_MOST];
	size_t count;
};

static struct program program;

static void add(uint32_t shape, uint32_t truth)
{
	assert_true(program.count < KERNELS_MOST);
	program.shapes[program.count] = shape;
	program.truth[program.count++] = truth;
}

/* A step as trainings have them: a head, layers alike, a tail that has the same shapes as the
 * layers. */
static void add_step(uint32_t kind, uint32_t layers, uint32_t length)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < 7; i++, at++) {
		add(1000 * kind + i, 10000 * kind + at);
	}
	for (uint32_t l = 0; l < layers; l++) {
		for (uint32_t i = 0; i < length; i++, at++) {
			add(1000 * kind + 100 + i % 9, 10000 * kind + at);
		}
	}
	for (uint32_t i = 0; i < 5; i++, at++) {
		add(1000 * kind + 100 + i, 10000 * kind + at);
	}
}

static uint32_t place(size_t piece)
{
	struct steps *s = steps_new(65536);
	size_t from = 0, done;
	uint32_t positions;

	assert_non_null(s);
	while (from < program.count) {
		size_t count = program.count - from < piece ? program.count - from : piece;
		int end = count == program.count - from;

		assert_int_equal(steps_place(s, 1, program.shapes + from, NULL, count, end,
					     program.positions + from, &done),
				 0);
		assert_true(done > 0 && (!end || done == count));
		from += done;
	}
	positions = steps_positions(s);
	steps_free(s);
	return positions;
}

/* The part of the kernels that have a position which all others of the same one share with right.
 */
static double right(void)
{
	static uint32_t truth_of[65536], votes[65536];
	size_t good = 0, all = 0;

	for (size_t i = 0; i < 65536; i++) {
		votes[i] = 0;
	}
	/* The majority of each position (Boyer and Moore). */
	for (size_t i = 0; i < program.count; i++) {
		uint32_t p = program.positions[i];

		if (p != STEPS_NONE) {
			if (votes[p] == 0) {
				truth_of[p] = program.truth[i];
			}
			votes[p] += truth_of[p] == program.truth[i] ? 1 : -1;
		}
	}
	for (size_t i = 0; i < program.count; i++) {
		uint32_t p = program.positions[i];

		all += program.truth[i] != 0;
		good += program.truth[i] != 0 && p != STEPS_NONE && truth_of[p] == program.truth[i];
	}
	return (double)good / (double)all;
}

static void test_layers_are_not_steps(void **state)
{
	(void)state;
	program.count = 0;
	for (int i = 0; i < 40; i++) {
		add_step(1, 12, 30);
	}
	assert_int_equal(place(KERNELS_MOST), 7 + 12 * 30 + 5);
	assert_true(right() == 1);
}

static void test_a_kernel_in_a_loop(void **state)
{
	(void)state;
	program.count = 0;
	for (int i = 0; i < 1000; i++) {
		add(5, 1);
	}
	assert_int_equal(place(KERNELS_MOST), 1);
	assert_true(right() == 1);
}

static void test_kernels_of_their_own_between(void **state)
{
	(void)state;
	program.count = 0;
	srand(3);
	for (int i = 0; i < 60; i++) {
		size_t from = program.count;

		add_step(1, 6, 23);
		/* In every third step or so one kernel is another, and one is missing at the end.
		 */
		if (rand() % 3 == 0) {
			from += (size_t)rand() % 140;
			program.shapes[from] = 90000 + (uint32_t)i;
			program.truth[from] = 0;
			program.count--;
		}
	}
	assert_int_equal(place(KERNELS_MOST), 7 + 6 * 23 + 5);
	assert_true(right() > 0.97);
}

static void test_steps_change(void **state)
{
	(void)state;
	program.count = 0;
	for (int i = 0; i < 40; i++) {
		add_step(1, 4, 31);
		if (rand() % 5 == 4) {
			add_step(2, 4, 17);
		}
	}
	place(KERNELS_MOST);
	assert_true(right() > 0.98);
}

static void test_nothing_repeats(void **state)
{
	(void)state;
	program.count = 0;
	for (uint32_t i = 0; i < 20000; i++) {
		add(i, 1);
	}
	assert_int_equal(place(KERNELS_MOST), 0);
	for (size_t i = 0; i < program.count; i++) {
		assert_true(program.positions[i] == STEPS_NONE);
	}
}

/* Whatever the pieces, as soon as a step is known. */
static void test_pieces_do_not_matter(void **state)
{
	(void)state;
	program.count = 0;
	for (int i = 0; i < 60; i++) {
		add_step(1, 3, 40);
	}
	place(1000);
	assert_true(right() == 1);
	place(777);
	assert_true(right() == 1);
}

static void test_hostile_sequences_end(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 5; n++) {
		program.count = 0;
		srand(n);
		for (uint32_t i = 0; i < KERNELS_MOST; i++) {
			add(i % 1000 == 7 * n ? i : (uint32_t)rand() % n, 1);
		}
		place(KERNELS_MOST);
	}
	program.count = 0;
	add(1, 1);
	assert_int_equal(place(10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layers_are_not_steps),
		cmocka_unit_test(test_a_kernel_in_a_loop),
		cmocka_unit_test(test_kernels_of_their_own_between),
		cmocka_unit_test(test_steps_change),
		cmocka_unit_test(test_nothing_repeats),
		cmocka_unit_test(test_pieces_do_not_matter),
		cmocka_unit_test(test_hostile_sequences_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
