/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What test_estimated.c and test_estimated_turns.c share. */

#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/derived.h"
#include "client/report/estimated.h"
#include "client/report/machine.h"
#include "client/report/table.h"
#include "client/report/view.h"

enum { KERNELS = 3, STREAMS = 2, LAUNCHES = 400, RUNS = 400 };

#define CHANCE 0.1

static const struct gpuctr_column columns[] = {
	{ .name = "dram__bytes.sum", .unit = "byte" },
	{ .name = "sm__throughput.avg.pct", .unit = "percent" },
};

static const char *const names[KERNELS] = { "alpha", "beta", "gamma" };

struct made {
	struct groups *groups;
	struct gpuctr_kernel kernels[KERNELS];
	uint64_t random;
	double work; /* of each launch, times */
	/* What the program did. */
	double bytes[KERNELS], stream_bytes[STREAMS], percent[KERNELS], time_ns;
	double launches[KERNELS], stream_launches[STREAMS];
};

static inline double uniform(uint64_t *random)
{
	return (double)(unit_random(random) >> 11) * 0x1p-53;
}

static const struct gpuctr_plan made_plan = {
	.chip = "GH100", .passes = 1, .columns = columns, .n_columns = 2
};

static inline void begin(struct made *m, const char *by)
{
	const struct gpuctr_process process = { .process = 1, .program = "p", .recorded_from = "" };
	struct keys keys;

	assert_true(keys_parse(by, &keys, NULL));
	m->groups = groups_new(&keys);
	assert_non_null(m->groups);
	assert_int_equal(groups_begin(m->groups, &made_plan, "made", NULL), 0);
	assert_int_equal(groups_process(m->groups, &process), 0);
	for (unsigned i = 0; i < KERNELS; i++) {
		m->kernels[i] =
			(struct gpuctr_kernel){ .name = names[i], .mangled = "", .id = i + 1 };
	}
}

static inline void tell(struct made *m, unsigned k, uint64_t seen)
{
	const struct gpuctr_stratum stratum = { .process = 1,
						.id = k + 1,
						.kernel = &m->kernels[k % KERNELS],
						.grid = { 1 + k / KERNELS, 1, 1 },
						.seen = seen };

	assert_int_equal(groups_stratum(m->groups, &stratum), 0);
}

static inline const struct measure *measure(const struct made *m, size_t i)
{
	const struct measure *measures;

	groups_measures(m->groups, &measures);
	return &measures[i];
}

/* A range with a name of its own for each step: strata of six launches each, mostly with one that
 * was measured or none, and one of what came when there were too many. */
enum { STEPS = 64, OF_STEP = 6, LATER = 60 };

static inline void expect_near(double value, double wanted)
{
	if (!(fabs(value - wanted) <= 1e-9 * fabs(wanted))) {
		fail_msg("%g, not %g", value, wanted);
	}
}

enum { TURN_LAUNCHES = 4000, TURN = 100 };

static const struct gpuctr_kernel kernel = { .name = "k", .mangled = "", .id = 1 };

/* Bytes in one group, operations in the other. */
static inline struct groups *begin_turns(const char *by)
{
	static const struct gpuctr_column two[] = {
		{ .name = "dram__bytes.sum", .unit = "byte", .group = 0 },
		{ .name = "flops", .unit = "FLOP", .group = 1 },
	};
	static const struct gpuctr_plan plan = {
		.chip = "GH100", .passes = 2, .groups = 2, .columns = two, .n_columns = 2
	};
	const struct gpuctr_process process = { .process = 1, .program = "p", .recorded_from = "" };
	struct groups *g;
	struct keys keys;

	assert_true(keys_parse(by, &keys, NULL));
	g = groups_new(&keys);
	assert_non_null(g);
	assert_int_equal(groups_begin(g, &plan, "made", NULL), 0);
	assert_int_equal(groups_process(g, &process), 0);
	return g;
}

/* Strata of one kernel and shape in two groups, of which each measures some only, most of them in
 * one turn: their totals are told with an error all the same. */
static inline void strata_that_lack_in_turns_are_predicted(void **state)
{
	enum { STRATA = 24, EACH = 50 };
	double truth = 0, unknown = 0;
	uint64_t random = 11;
	struct groups *g;
	struct estimate e;

	(void)state;
	g = begin_turns("kernel");
	for (unsigned i = 0; i < STRATA * EACH; i++) {
		unsigned id = i % STRATA, group = i / (2 * STRATA) % 2;
		double bytes = 1000 * (1 + id % 4) * (1 + 0.1 * uniform(&random));
		double values[2] = { group == 0 ? bytes : NAN, group == 1 ? 5 * bytes : NAN };
		const struct gpuctr_record record = { .process = 1,
						      .kernel = &kernel,
						      .clock = GPUCTR_CLOCK_GPU,
						      .duration_ns = 1000,
						      .values = values,
						      .stratum = 1 + id,
						      .chance = 0.5 * 0.04,
						      .group = group };

		truth += bytes;
		if (uniform(&random) < 0.04) {
			assert_int_equal(groups_record(g, &record, NULL), 0);
		}
	}
	for (unsigned id = 0; id < STRATA; id++) {
		const struct gpuctr_stratum stratum = { .process = 1,
							.id = 1 + id,
							.kernel = &kernel,
							.grid = { 1, 1, 1 },
							.block = { 32, 1, 1 },
							.seen = EACH };

		assert_int_equal(groups_stratum(g, &stratum), 0);
	}
	assert_int_equal(groups_finish(g), 0);
	e = estimated_total(groups_all(g), &(struct measure){ .adds_up = true }, 1);
	unknown = (double)groups_all(g)->estimated->total[1].unknown;
	print_message("%.0f of %.0f, told %.0f, %.0f unknown\n", e.value, truth, e.error, unknown);
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	assert_true(fabs(e.value - truth) < 3 * e.error && e.error < 0.3 * truth);
	assert_true(unknown == 0 && e.measured < 40);
	groups_free(g);
}

/* What was measured of a stratum was in one turn and in one row: others may be in other rows. */
static inline void one_turn_in_one_row_is_not_the_whole_stratum(void **state)
{
	enum { STRATA = 8, EACH = 500, TURNS = 3 };
	struct group **rows;
	struct groups *g;
	size_t n, alone = 0;

	(void)state;
	g = begin_turns("stream");
	for (unsigned i = 0; i < STRATA * TURNS * 2 * 5; i++) {
		unsigned id = i % STRATA, turn = i / (STRATA * 5), group = turn % 2;
		double values[2] = { group == 0 ? 1000 + i % 7 : NAN, group == 1 ? 5 : NAN };
		const struct gpuctr_record record = { .process = 1,
						      .kernel = &kernel,
						      .clock = GPUCTR_CLOCK_NONE,
						      .stream = id == 0 ? 99 : 7,
						      .values = values,
						      .stratum = 1 + id,
						      .chance = 0.1,
						      .group = group };

		if (id > 0 || turn == 0) {
			assert_int_equal(groups_record(g, &record, NULL), 0);
		}
	}
	for (unsigned id = 0; id < STRATA; id++) {
		const struct gpuctr_stratum stratum = { .process = 1,
							.id = 1 + id,
							.kernel = &kernel,
							.grid = { 1 + id },
							.seen = EACH };

		assert_int_equal(groups_stratum(g, &stratum), 0);
	}
	assert_int_equal(groups_finish(g), 0);
	n = groups_rows(g, &rows);
	for (size_t i = 0; i < n; i++) {
		if (rows[i]->estimated && rows[i]->estimated->measured == 5) {
			alone++;
			assert_false(group_launches_error(rows[i], false) == 0);
			assert_int_equal(estimated_total(rows[i],
							 &(struct measure){ .adds_up = true }, 1)
						 .kind,
					 ESTIMATE_ONCE);
		}
	}
	assert_int_equal(alone, 1);
	groups_free(g);
}
