/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/ranks.h"

static struct buf describe(const struct ranks *r, size_t i)
{
	struct buf b = { 0 };

	ranks_describe(r, i, &b);
	return b;
}

TEST(a_process_that_is_announced_again_is_the_same)
{
	const char *claims[] = { "RANK=1" };
	const struct gpuctr_process p = {
		.process = 1, .pid = 101, .program = "python3", .claims = claims, .n_claims = 1
	};
	const struct gpuctr_process_end end = {
		.process = 1, .totals = { .seen = 7, .measured = 2, .filtered = 4 }, .clean = true
	};
	struct ranks r = { 0 };
	struct buf b;

	ranks_process(&r, &p);
	ranks_process(&r, &p); /* it comes again when more is known */
	ranks_process_end(&r, &end);
	assert_int_equal(r.n, 1);
	b = describe(&r, 0);
	assert_string_equal(buf_string(&b), "rank 1, process 101 (python3): 7 kernels, 2 "
					    "measured, 4 filtered");
	buf_deinit(&b);
	ranks_deinit(&r);
}

/* A pid that no process has: the kernel gives none so large. */
TEST(who_does_not_come_is_told)
{
	const struct chosen chosen = {
		.pid = 1 << 30, .own_pid = 1 << 30, .program = "python3", .rank = "3"
	};
	struct gpuctr_process came = { .process = 1, .pid = 1 << 30, .program = "python3" };
	struct gpuctr_process_end end = { .process = 1,
					  .totals = { .seen = 2, .lost = 2 },
					  .uncounted_ns = 1000 };
	struct ranks r = { 0 };
	struct buf b;

	ranks_expect(&r, &chosen);
	assert_true(ranks_none_answered(&r));
	b = describe(&r, 0);
	assert_string_equal(buf_string(&b), "rank 3, process 1073741824 (python3): had ended");
	buf_deinit(&b);
	ranks_process(&r, &came);
	assert_int_equal(r.n, 1);
	ranks_process_end(&r, &end);
	assert_true(ranks_are_speechless(&r));
	b = describe(&r, 0);
	assert_non_null(strstr(buf_string(&b), ", 2 not delivered; ended without a last word: "
					       "launches of its last 0.1 s may be in no figure"));
	buf_deinit(&b);
	ranks_deinit(&r);
}

/* Filtered kernels are not lost; what went wrong first is said, and what a filter left out is none
 * of it. */
TEST(what_is_lost_is_added_up_and_said)
{
	const struct gpuctr_process came = { .process = 1, .pid = 7, .program = "python3" };
	const struct gpuctr_process_end end = {
		.process = 1,
		.totals = { .seen = 1024,
			    .filtered = 16,
			    .unready = 1,
			    .failed = 2,
			    .dropped = 4,
			    .lost = 8 },
		.clean = true,
	};
	struct gpuctr_notice notice = { .process = 1,
					.error = { GPUCTR_E_KERNEL_NO_MATCH, "", "" } };
	struct ranks r = { 0 };
	struct buf b;

	ranks_process(&r, &came);
	ranks_notice(&r, &notice);
	notice.error.code = GPUCTR_E_KERNEL_WAITS;
	ranks_notice(&r, &notice);
	notice.error.code = GPUCTR_E_QUOTA;
	ranks_notice(&r, &notice);
	ranks_process_end(&r, &end);
	b = describe(&r, 0);
	assert_string_equal(buf_string(&b),
			    "rank -, process 7 (python3): 1,024 kernels, 16 filtered, 1 not ready, "
			    "2 failed, 4 dropped, 8 not delivered; kernel-waits");
	buf_deinit(&b);
	ranks_deinit(&r);
}

/* The daemon has ended: nobody told the process's end. */
TEST(who_has_not_ended_is_told)
{
	const struct gpuctr_process cut = {
		.process = 2, .pid = 1 << 30, .program = "two", .cupti = "13.0.1"
	};
	struct ranks r = { 0 };
	struct buf b;

	ranks_process(&r, &cut);
	assert_false(ranks_none_answered(&r));
	b = describe(&r, 0);
	assert_string_equal(buf_string(&b),
			    "rank -, process 1073741824 (two): its last word did not come");
	buf_deinit(&b);
	ranks_deinit(&r);
}
