/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/ranks.h"

/* Rows of a node's processes, written on each node and read where they are shown. */

static const struct gpuctr_column columns[] = { { .name = "dram__bytes_read.sum",
						  .unit = "byte" } };
static const struct gpuctr_plan plan = { .columns = columns, .n_columns = 1 };

static void measure(struct ranks *r, unsigned process, const char *claim, const char *program)
{
	const char *claims[] = { claim };
	const double value[] = { 1000 }, missing[] = { NAN };
	struct gpuctr_process p = { .process = process,
				    .pid = 100 + process,
				    .program = program,
				    .claims = claims,
				    .n_claims = 1 };
	struct gpuctr_record record = { .process = process, .duration_ns = 500, .values = value };
	struct gpuctr_process_end end = { .process = process,
					  .totals = { .seen = 7, .filtered = 4, .dropped = 1 },
					  .clean = true };

	ranks_process(r, &p);
	ranks_process(r, &p); /* it comes again when more is known */
	ranks_record(r, &record);
	record.duration_ns = -1;
	record.values = missing;
	ranks_record(r, &record);
	ranks_process_end(r, &end);
	ranks_end(r, NULL);
}

TEST(rows_are_in_the_order_of_ranks)
{
	struct ranks r = { 0 };
	struct buf b = { 0 };
	const char *text, *ten, *two;

	ranks_plan(&r, &plan);
	measure(&r, 1, "SLURM_PROCID=10", "python3");
	measure(&r, 2, "RANK=2", "python3");
	ranks_print(&r, 0, &b);
	text = buf_string(&b);
	ten = strstr(text, "\n  10  101  ");
	two = strstr(text, "\n   2  102  ");
	assert_true(two && ten && two < ten);
	buf_deinit(&b);
	ranks_deinit(&r);
}

TEST(a_program_breaks_no_line)
{
	struct ranks r = { 0 };
	struct buf b = { 0 };

	measure(&r, 1, "RANK=1\t9", "a\tb\nrank\tx");
	ranks_print(&r, 0, &b);
	assert_non_null(strstr(buf_string(&b), "a?b?rank?x"));
	assert_null(strchr(buf_string(&b), '\t'));
	buf_deinit(&b);
	ranks_deinit(&r);
}

/* A pid that no process has: the kernel gives none so large. */
TEST(who_does_not_come_has_a_row)
{
	const struct chosen chosen = {
		.pid = 1 << 30, .own_pid = 1 << 30, .program = "python3", .rank = "3"
	};
	struct gpuctr_process came = { .process = 1, .pid = 1 << 30, .program = "python3" };
	struct gpuctr_process_end end = { .process = 1, .totals = { .seen = 2, .lost = 2 } };
	struct ranks r = { 0 };
	struct buf b = { 0 };

	ranks_expect(&r, &chosen);
	assert_true(ranks_tell(&r));
	assert_true(ranks_none_answered(&r));
	ranks_end(&r, NULL);
	ranks_print(&r, 0, &b);
	assert_non_null(strstr(buf_string(&b), "   3  1073741824  python3"));
	assert_non_null(strstr(buf_string(&b), "  had ended\n"));
	buf_clear(&b);
	ranks_process(&r, &came);
	assert_int_equal(r.n, 1);
	ranks_process_end(&r, &end);
	assert_int_equal(r.n_speechless, 1);
	ranks_end(&r, NULL);
	ranks_print(&r, 0, &b);
	assert_non_null(strstr(buf_string(&b), "2 not delivered; ended without a last word\n"));
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
	struct buf b = { 0 };

	ranks_process(&r, &came);
	ranks_notice(&r, &notice);
	notice.error.code = GPUCTR_E_KERNEL_WAITS;
	ranks_notice(&r, &notice);
	notice.error.code = GPUCTR_E_QUOTA;
	ranks_notice(&r, &notice);
	ranks_process_end(&r, &end);
	ranks_end(&r, NULL);
	ranks_print(&r, 0, &b);
	assert_non_null(strstr(buf_string(&b), "    1,024         0    15 "));
	assert_non_null(strstr(buf_string(&b), "  16 filtered, 1 not ready, 2 failed, 4 dropped, "
					       "8 not delivered; kernel-waits\n"));
	buf_deinit(&b);
	ranks_deinit(&r);
}

/* The daemon has ended: nobody told the process's end, but what was lost is known of all together.
 */
TEST(who_has_not_ended_has_the_rest)
{
	const struct gpuctr_process ended = { .process = 1, .pid = 7, .program = "one" };
	const struct gpuctr_process cut = {
		.process = 2, .pid = 1 << 30, .program = "two", .cupti = "13.0.1"
	};
	const struct gpuctr_process another = { .process = 3, .pid = 1 << 30, .program = "three" };
	const struct gpuctr_process_end end = { .process = 1,
						.totals = { .seen = 10, .measured = 8, .lost = 2 },
						.clean = true };
	const struct gpuctr_totals all = { .seen = 100, .measured = 81, .lost = 19 };
	struct ranks r = { 0 };
	struct buf b = { 0 };

	ranks_process(&r, &ended);
	ranks_process_end(&r, &end);
	ranks_process(&r, &cut);
	ranks_end(&r, &all);
	ranks_print(&r, 0, &b);
	assert_non_null(strstr(buf_string(&b), "       90         0    17 "));
	assert_non_null(strstr(buf_string(&b), "17 not delivered; its last word did not come\n"));
	buf_clear(&b);
	ranks_deinit(&r);
	r = (struct ranks){ 0 };
	ranks_process(&r, &cut);
	ranks_process(&r, &another); /* of two nobody knows whose it is */
	ranks_end(&r, &all);
	ranks_print(&r, 0, &b);
	assert_null(strstr(buf_string(&b), "not delivered"));
	buf_deinit(&b);
	ranks_deinit(&r);
}

TEST(rows_can_be_too_many)
{
	struct ranks r = { 0 };
	struct buf b = { 0 };

	measure(&r, 1, "RANK=1", "python3");
	measure(&r, 2, "RANK=2", "python3");
	measure(&r, 3, "RANK=3", "python3");
	ranks_print(&r, 2, &b);
	assert_non_null(strstr(buf_string(&b), "  102  "));
	assert_null(strstr(buf_string(&b), "  103  "));
	assert_non_null(strstr(buf_string(&b), "and 1 process more\n"));
	buf_deinit(&b);
	ranks_deinit(&r);
}
