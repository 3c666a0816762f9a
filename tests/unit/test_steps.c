/* SPDX-License-Identifier: Apache-2.0 */

/* Which kernels get the same position. The truth is the number of each kernel in its step. */

#include "tests/unit/unit.h"

#include "client/attribution/nodes.h"
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
	struct steps *s = steps_new(65536, NULL);
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

TEST(test_layers_are_not_steps)
{
	program.count = 0;
	for (int i = 0; i < 40; i++) {
		add_step(1, 12, 30);
	}
	assert_int_equal(place(KERNELS_MOST), 7 + 12 * 30 + 5);
	assert_true(right() == 1);
}

TEST(test_a_kernel_in_a_loop)
{
	program.count = 0;
	for (int i = 0; i < 1000; i++) {
		add(5, 1);
	}
	assert_int_equal(place(KERNELS_MOST), 1);
	assert_true(right() == 1);
}

TEST(test_kernels_of_their_own_between)
{
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

TEST(test_steps_change)
{
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

TEST(test_nothing_repeats)
{
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
TEST(test_pieces_do_not_matter)
{
	program.count = 0;
	for (int i = 0; i < 60; i++) {
		add_step(1, 3, 40);
	}
	place(1000);
	assert_true(right() == 1);
	place(777);
	assert_true(right() == 1);
}

TEST(test_hostile_sequences_end)
{
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

/* Layers alike, and in each step two kernels of their own between them: the way goes on in the same
 * layer, although 256 kernels fit as well from later ones on. */
TEST(test_the_nearest_layer_is_meant)
{
	program.count = 0;
	for (uint32_t i = 0; i < 20; i++) {
		size_t from = program.count;

		add_step(1, 60, 10);
		if (i > 0) {
			size_t at = from + 7 + 40 + 3 * i;

			memmove(program.shapes + at + 2, program.shapes + at,
				(program.count - at) * sizeof(*program.shapes));
			memmove(program.truth + at + 2, program.truth + at,
				(program.count - at) * sizeof(*program.truth));
			for (size_t k = at; k < at + 2; k++) {
				program.shapes[k] = 90000 + 2 * i + (uint32_t)(k - at);
				program.truth[k] = 0;
			}
			program.count += 2;
		}
	}
	place(KERNELS_MOST);
	assert_true(right() > 0.999);
}

/* Neither what is a small part of what runs is a step, nor that with what is between once. */
TEST(test_what_is_rare_is_no_step)
{
	for (uint32_t apart = 0; apart < 2; apart++) {
		program.count = 0;
		for (uint32_t i = 0; i < 600; i++) {
			add(1000 + i, 1);
			for (uint32_t k = 0; apart && i % 130 == 10 && i < 400 && k < 20; k++) {
				add(k, 2);
			}
			for (uint32_t k = 0; !apart && i == 300 && k < 6 * 20; k++) {
				add(k % 20, 2);
			}
			if (apart && i == 399) {
				break;
			}
		}
		assert_int_equal(place(KERNELS_MOST), 0);
	}
}

static void place_more(struct steps *s, uint64_t sequence, uint32_t kind, uint32_t *ret)
{
	size_t done;

	program.count = 0;
	for (int i = 0; i < 6; i++) {
		add_step(kind, 2, 10 + kind);
	}
	assert_int_equal(steps_place(s, sequence, program.shapes, NULL, program.count, 1,
				     program.positions, &done),
			 0);
	*ret = program.positions[program.count / 2];
}

/* Kernels of several streams have nothing to do with each other. */
TEST(test_sequences_have_positions_of_their_own)
{
	struct steps *s = steps_new(65536, NULL);
	uint32_t positions[4];

	for (uint32_t i = 0; i < 4; i++) {
		place_more(s, i, 1, &positions[i]);
		for (uint32_t k = 0; k < i; k++) {
			assert_true(positions[i] != STEPS_NONE && positions[i] != positions[k]);
		}
	}
	assert_int_equal(steps_positions(s), 4 * (7 + 2 * 11 + 5));
	steps_free(s);
}

/* Of so many kinds that the oldest are forgotten: the newest are known. */
TEST(test_the_newest_kinds_are_known)
{
	enum { KINDS = 12 };
	struct steps *s = steps_new(65536, NULL);
	uint32_t position, again, positions;

	for (uint32_t i = 1; i <= KINDS; i++) {
		place_more(s, 1, i, &position);
		assert_true(position != STEPS_NONE);
	}
	positions = steps_positions(s);
	for (uint32_t i = KINDS; i > KINDS - 8; i--) {
		place_more(s, 1, i, &again);
		assert_true(again != STEPS_NONE && again <= position);
		assert_int_equal(steps_positions(s), positions);
		position = again;
	}
	place_more(s, 1, 1, &again);
	assert_true(again >= positions);
	steps_free(s);
}

TEST(test_positions_are_bounded)
{
	enum { MOST = 50 };
	struct steps *s = steps_new(MOST, NULL);
	uint32_t position;

	place_more(s, 1, 1, &position);
	assert_true(position < MOST);
	place_more(s, 2, 2, &position);
	assert_int_equal(position, STEPS_NONE);
	for (uint32_t i = steps_positions(s); i < MOST; i++) {
		assert_int_equal(steps_take_position(s), i);
	}
	assert_int_equal(steps_take_position(s), STEPS_NONE);
	assert_int_equal(steps_positions(s), MOST);
	steps_free(s);
}

/* --- nodes of graphs ------------------------------------------------------------------------- */

/* However many there are, each has one position, from the third time on; beyond the most, none. */
TEST(test_nodes_have_positions)
{
	enum { NODES = 3000 };
	struct steps *s = steps_new(UINT32_MAX, NULL);
	struct nodes *n = nodes_new();

	for (int times = 1; times <= 4; times++) {
		for (uint64_t i = 1; i <= NODES; i++) {
			assert_int_equal(nodes_see(n, i << 32 | 7), 0);
		}
		for (uint64_t i = 1; i <= NODES; i++) {
			assert_int_equal(nodes_position(n, i << 32 | 7, s),
					 times < 3 ? STEPS_NONE : i - 1);
		}
	}
	for (uint64_t i = NODES + 1; i <= NODES_MOST + 1; i++) {
		assert_int_equal(nodes_see(n, i << 32 | 7), 0);
	}
	for (int times = 1; times <= 3; times++) {
		nodes_see(n, (uint64_t)NODES_MOST << 32 | 7);
		nodes_see(n, (uint64_t)(NODES_MOST + 1) << 32 | 7);
	}
	assert_int_equal(nodes_position(n, (uint64_t)NODES_MOST << 32 | 7, s), NODES);
	assert_int_equal(nodes_position(n, (uint64_t)(NODES_MOST + 1) << 32 | 7, s), STEPS_NONE);
	assert_int_equal(nodes_position(n, 5, s), STEPS_NONE);
	nodes_free(n);
	steps_free(s);
}
