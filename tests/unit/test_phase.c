/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/phase.h"

/* A row is a schedule, and what becomes of its first steps: '1' is measured. */
TEST(steps_are_taken_as_torch_takes_them)
{
	static const struct {
		struct wire_schedule schedule;
		const char *steps;
	} rows[] = {
		{ { .active = 1 }, "1111" },
		{ { .active = 2, .repeat = 1 }, "11000" },
		{ { .skip_first = 2, .active = 1, .repeat = 1 }, "00100" },
		{ { .wait = 1, .active = 1 }, "010101" },
		{ { .wait = 1, .warmup = 1, .active = 2, .repeat = 2 }, "001100110000" },
		{ { .skip_first = 1, .warmup = 1, .active = 1, .repeat = 2 }, "00101000" },
		{ { .active = 0 }, "000" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t k = 0; rows[i].steps[k]; k++) {
			if (phase_schedule_takes(&rows[i].schedule, k) !=
			    (rows[i].steps[k] == '1')) {
				fail_msg("row %zu, step %zu", i, k);
			}
		}
	}
}

TEST(without_a_wish_everything_is_on)
{
	const struct wire_selection s = { .capture_range = "", .step = "" };
	struct phase p;

	phase_init(&p, &s);
	assert_true(phase_is_on(&p));
	phase_on_profiler_call(&p, false);
	assert_true(phase_is_on(&p));
}

TEST(the_profilers_calls_do_not_nest)
{
	struct wire_selection s = { .capture_range = "cudaProfilerApi", .step = "" };
	struct refusal r;
	struct phase p;

	phase_init(&p, &s);
	assert_false(phase_missed(&p, &r)); /* no launch */
	assert_false(phase_is_on(&p));
	assert_true(phase_missed(&p, &r));
	for (int i = 0; i < 2; i++) {
		phase_on_profiler_call(&p, true);
		phase_on_profiler_call(&p, true);
		assert_true(phase_is_on(&p));
		phase_on_profiler_call(&p, false);
		assert_false(phase_is_on(&p));
	}
	assert_false(phase_missed(&p, &r));
	s.stop_on_range_end = true;
	phase_init(&p, &s);
	phase_on_profiler_call(&p, false); /* ends nothing */
	phase_on_profiler_call(&p, true);
	assert_true(phase_is_on(&p));
	phase_on_profiler_call(&p, false);
	phase_on_profiler_call(&p, true);
	assert_false(phase_is_on(&p));
}

TEST(ranges_of_several_threads_are_one_phase)
{
	struct wire_selection s = { .capture_range = "nvtx:A/", .step = "" };
	struct phase p;

	s.stop_on_range_end = true;
	phase_init(&p, &s);
	phase_on_profiler_call(&p, true); /* is not asked for */
	assert_false(phase_is_on(&p));
	phase_on_range_begin(&p);
	phase_on_range_begin(&p);
	phase_on_range_end(&p);
	assert_true(phase_is_on(&p));
	phase_on_range_end(&p);
	assert_false(phase_is_on(&p));
	phase_on_range_begin(&p);
	assert_false(phase_is_on(&p));
	phase_on_range_end(&p); /* was not counted */
	assert_false(phase_is_on(&p));
}

TEST(a_schedule_is_finished_when_the_step_after_it_begins)
{
	struct wire_selection s = { .capture_range = "",
				    .step = "A/",
				    .schedule = { 1, 1, 0, 2, 2 } };
	struct phase p;

	phase_init(&p, &s);
	for (int i = 0; i < 7; i++) {
		phase_on_step(&p);
		assert_false(phase_is_finished(&p));
	}
	assert_true(phase_is_on(&p));
	phase_on_step(&p);
	assert_true(phase_is_finished(&p));
	s.schedule.repeat = 0;
	phase_init(&p, &s);
	for (int i = 0; i < 100; i++) {
		phase_on_step(&p);
	}
	assert_false(phase_is_finished(&p));
}

TEST(what_lies_before_the_first_step_is_not_measured)
{
	struct wire_selection s = { .capture_range = "",
				    .step = "cudaProfilerStart",
				    .schedule = { .active = 1, .repeat = 1 } };
	struct phase p;

	phase_init(&p, &s);
	assert_false(phase_is_on(&p));
	phase_on_profiler_call(&p, true);
	assert_true(phase_is_on(&p));
	phase_on_profiler_call(&p, false);
	assert_true(phase_is_on(&p));
	phase_on_profiler_call(&p, true);
	assert_false(phase_is_on(&p));
}

TEST(steps_that_are_found_may_be_lost)
{
	struct wire_selection s = { .capture_range = "",
				    .step = "",
				    .schedule = { .active = 1, .repeat = 1 } };
	struct refusal r;
	struct phase p;

	assert_true(phase_steps_recur(&s));
	phase_init(&p, &s);
	assert_false(phase_is_on(&p));
	assert_true(phase_missed(&p, &r));
	assert_non_null(strstr(r.message, "no sequence of launches had recurred"));
	phase_on_step(&p);
	assert_true(phase_is_on(&p));
	assert_false(phase_missed(&p, &r));
	assert_false(phase_is_finished(&p));
	phase_lost_steps(&p);
	assert_false(phase_is_on(&p));
	assert_true(phase_is_finished(&p));
	phase_init(&p, &s);
	phase_without_steps(&p);
	assert_true(phase_is_on(&p));
	assert_false(phase_is_finished(&p));
	s.step = "A/";
	assert_false(phase_steps_recur(&s));
}
