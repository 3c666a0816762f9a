/* SPDX-License-Identifier: Apache-2.0 */

/* An image has again what was kept, also where no file may be made for it. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "client/sampler/image.h"

enum { BYTES = 3 * 4096 + 100 };

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
	memset(m.data, 7, BYTES);
	image_keep(&m);
	for (int i = 0; i < 3; i++) {
		expect_bytes(&m, 7);
		memset(m.data + 4000, i, 5000);
		m.data[BYTES - 1] = 1;
		assert_true(image_empty(&m));
	}
	expect_bytes(&m, 7);
	memset(m.data, 9, BYTES);
	image_keep(&m); /* of another object of CUPTI's */
	m.data[0] = 1;
	assert_true(image_empty(&m));
	expect_bytes(&m, 9);
	image_deinit(&m);
	assert_null(m.data);
}

static void an_image_needs_no_file(void **state)
{
	struct rlimit had, none;
	struct image m;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &had), 0);
	none = (struct rlimit){ 0, had.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_true(image_init(&m, BYTES));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &had), 0);
	memset(m.data, 7, BYTES);
	image_keep(&m);
	m.data[0] = 1;
	assert_false(image_empty(&m));
	assert_int_equal(m.data[0], 1); /* nothing has changed */
	image_deinit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emptying_brings_back_what_was_kept),
		cmocka_unit_test(an_image_needs_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
