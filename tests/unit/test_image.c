/* SPDX-License-Identifier: Apache-2.0 */

/* An image has again what was kept, wherever samples have changed it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/sampler/image.h"

enum { BYTES = 3 * 4096 + 100, CHANGED = 5000 };

static void expect_bytes(const struct image *m, uint8_t byte)
{
	for (size_t i = 0; i < m->bytes; i++) {
		assert_int_equal(m->data[i], byte);
	}
}

static void emptying_brings_back_what_was_kept(void **state)
{
	struct image m;

	(void)state;
	assert_true(image_init(&m, BYTES));
	expect_bytes(&m, 0);
	assert_false(image_empty(&m, BYTES));
	memset(m.data, 7, BYTES);
	image_keep(&m);
	for (int i = 0; i < 300; i++) {
		memset(m.data, i, CHANGED);
		assert_true(image_empty(&m, CHANGED));
		expect_bytes(&m, 7);
	}
	memset(m.data, 9, BYTES);
	image_keep(&m); /* of another object of CUPTI's */
	memset(m.data, 1, BYTES);
	assert_true(image_empty(&m, 2 * BYTES));
	expect_bytes(&m, 9);
	image_deinit(&m);
	assert_null(m.data);
}

/* Samples of another CUPTI may be laid out otherwise. */
static void what_changes_elsewhere_is_noticed(void **state)
{
	struct image m;

	(void)state;
	assert_true(image_init(&m, BYTES));
	memset(m.data, 7, BYTES);
	image_keep(&m);
	for (int i = 0; i < 300; i++) {
		memset(m.data, i, CHANGED);
		m.data[BYTES - 1] = 1;
		assert_true(image_empty(&m, CHANGED));
		expect_bytes(&m, 7);
	}
	image_deinit(&m);
}

/* Else the sampler would take more memory than it is worth. */
static void a_large_image_is_not_kept(void **state)
{
	struct image m;

	(void)state;
	assert_true(image_init(&m, ((size_t)128 << 20) + 1));
	image_keep(&m);
	m.data[0] = 1;
	assert_false(image_empty(&m, 1));
	assert_int_equal(m.data[0], 1);
	image_deinit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emptying_brings_back_what_was_kept),
		cmocka_unit_test(what_changes_elsewhere_is_noticed),
		cmocka_unit_test(a_large_image_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
