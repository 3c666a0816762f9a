/* SPDX-License-Identifier: Apache-2.0 */

/* An image has again what was kept, wherever samples have changed it. */

#include "tests/unit/unit.h"

#include "client/sampler/image.h"

enum { HEAD = 2396, SAMPLE = 61, ROOM = 100, METRICS = 3, BYTES = HEAD + ROOM * SAMPLE };

/* As CUPTI would: a head, and samples that are alike. */
static void initialise(struct image *m, uint8_t first)
{
	for (size_t i = 0; i < BYTES; i++) {
		m->data[i] = (uint8_t)(first + (i < HEAD ? i : (i - HEAD) % SAMPLE));
	}
	image_keep(m);
}

static void expect_initial(const struct image *m, uint8_t first)
{
	for (size_t i = 0; i < BYTES; i++) {
		assert_int_equal(m->data[i],
				 (uint8_t)(first + (i < HEAD ? i : (i - HEAD) % SAMPLE)));
	}
}

static void image_new(struct image *m)
{
	assert_true(image_init(m, &(struct image_layout){ HEAD, SAMPLE, ROOM }, METRICS));
	assert_int_equal(m->bytes, BYTES);
}

/* n samples, the last of them incomplete. */
static void decode(struct image *m, size_t n, uint8_t byte)
{
	image_begin(m);
	memset(m->data, byte, HEAD + n * SAMPLE);
	m->all = n;
	m->n = n - 1;
}

TEST(emptying_brings_back_what_was_kept)
{
	struct image m;

	image_new(&m);
	for (size_t i = 0; i < BYTES; i++) {
		assert_int_equal(m.data[i], 0);
	}
	assert_false(image_empty(&m));
	initialise(&m, 7);
	for (unsigned i = 1; i <= 300; i++) {
		assert_true(m.is_empty);
		decode(&m, 1 + i % ROOM, (uint8_t)i);
		assert_false(m.is_empty);
		assert_true(image_empty(&m));
		expect_initial(&m, 7);
	}
	initialise(&m, 90); /* by another object of CUPTI's */
	decode(&m, ROOM, 1);
	assert_true(image_empty(&m));
	expect_initial(&m, 90);
	image_deinit(&m);
	assert_null(m.data);
}

/* What was told of an image's samples is known until others are decoded into it. */
TEST(samples_outlive_emptying)
{
	struct image m;

	image_new(&m);
	initialise(&m, 0);
	decode(&m, 10, 5);
	m.times[8][1] = 17;
	m.values[9 * METRICS - 1] = 4;
	m.timed = m.evaluated = 9;
	assert_true(image_empty(&m));
	assert_int_equal(m.evaluated, 9);
	assert_int_equal(m.times[8][1], 17);
	assert_true(m.values[9 * METRICS - 1] == 4);
	image_begin(&m);
	assert_int_equal(m.evaluated + m.timed + m.taken + m.n + m.all, 0);
	image_deinit(&m);
}

/* Samples of another CUPTI may be laid out otherwise. */
TEST(what_changes_elsewhere_is_noticed)
{
	struct image m;

	image_new(&m);
	initialise(&m, 7);
	for (unsigned i = 1; i < 100; i++) {
		decode(&m, i, (uint8_t)i);
		m.data[BYTES - 1] = 1;
		assert_true(image_empty(&m));
		expect_initial(&m, 7);
	}
	image_deinit(&m);
}

TEST(samples_that_are_not_alike_are_not_kept)
{
	struct image m;

	image_new(&m);
	initialise(&m, 7);
	m.data[BYTES - 1] ^= 1;
	image_keep(&m);
	decode(&m, 3, 9);
	assert_false(image_empty(&m));
	assert_int_equal(m.data[0], 9);
	assert_false(m.is_empty);
	image_deinit(&m);
}
