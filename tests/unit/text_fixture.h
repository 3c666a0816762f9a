/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the tests of client/cli expect of a buffer. */

#include "tests/unit/unit.h"

#include <math.h>

#include "proto/base/buf.h"

static inline void expect_text(struct buf *b, const char *expected)
{
	assert_false(b->failed);
	assert_string_equal(buf_string(b), expected);
	buf_clear(b);
}

static inline void expect_contains(struct buf *b, const char *part)
{
	if (!strstr(buf_string(b), part)) {
		fail_msg("'%s' is not in:\n%s", part, buf_string(b));
	}
}

static inline void expect_lacks(struct buf *b, const char *part)
{
	if (strstr(buf_string(b), part)) {
		fail_msg("'%s' is in:\n%s", part, buf_string(b));
	}
}
