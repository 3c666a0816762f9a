/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/estimated_fixture.h"

/* What reports tell of captures in which launches were chosen at random, against programs whose
 * every launch is known. Errors are checked over many runs: they are to be neither too small nor
 * too large. */

/* One capture more. */
static void begin_again(struct made *m)
{
	const struct gpuctr_process process = { .process = 1, .program = "p", .recorded_from = "" };

	assert_int_equal(groups_begin(m->groups, &made_plan, "another", NULL), 0);
	assert_int_equal(groups_process(m->groups, &process), 0);
}

static void note_truth(struct made *m, unsigned k, unsigned stream, const double *values,
		       double time_ns)
{
	m->bytes[k] += values[0];
	m->percent[k] += values[1];
	m->launches[k]++;
	m->stream_bytes[stream] += values[0];
	m->stream_launches[stream]++;
	m->time_ns += time_ns;
}

/* Bytes and time go together, and streams do not do the same. */
static void launch(struct made *m, unsigned k)
{
	unsigned stream = uniform(&m->random) < 0.3;
	double size = (1 + k) * (1 + uniform(&m->random)) * (stream ? 3 : 1) * m->work;
	double values[2] = { floor(1000 * size), 50 + 10 * uniform(&m->random) };
	double time_ns = floor(100 + 300 * size * (1 + 0.1 * uniform(&m->random)));
	const struct gpuctr_record record = { .process = 1,
					      .kernel = &m->kernels[k],
					      .stream = stream,
					      .clock = GPUCTR_CLOCK_GPU,
					      .duration_ns = (int64_t)time_ns,
					      .values = values,
					      .stratum = k + 1,
					      .chance = CHANCE };

	note_truth(m, k, stream, values, time_ns);
	if (uniform(&m->random) < CHANCE) {
		assert_int_equal(groups_record(m->groups, &record, NULL), 0);
	}
}

static void run(struct made *m, const char *by, uint64_t seed, double work)
{
	*m = (struct made){ .random = seed * 7919 + 17, .work = work };
	begin(m, by);
	for (unsigned i = 0; i < LAUNCHES * KERNELS; i++) {
		launch(m, i % KERNELS);
	}
	for (unsigned k = 0; k < KERNELS; k++) {
		tell(m, k, LAUNCHES);
	}
	assert_int_equal(groups_finish(m->groups), 0);
}

static const struct group *find(const struct made *m, const char *label)
{
	struct group **rows;
	size_t n = groups_rows(m->groups, &rows);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i]->labels[0], label) == 0) {
			return rows[i];
		}
	}
	fail_msg("no row %s", label);
	return NULL;
}

/* How often truth lay within one error, and how far off the estimates were on average. */
struct score {
	unsigned n, within;
	double off;
};

static void note(struct score *s, const struct estimate *e, double truth)
{
	assert_int_equal(e->kind, ESTIMATE_GUESS);
	assert_true(e->error > 0);
	s->n++;
	s->within += fabs(e->value - truth) <= e->error;
	s->off += (e->value - truth) / e->error;
}

/* 68 of 100, within 4 of its own standard deviations; and off to neither side. */
static void expect_honest(const struct score *s, const char *what)
{
	double part = (double)s->within / s->n, allowed = 4 * sqrt(0.68 * 0.32 / s->n);

	print_message("%s: within one error in %.1f %% of %u, off by %.2f errors\n", what,
		      100 * part, s->n, s->off / s->n);
	if (fabs(part - 0.68) > allowed + 0.02 || fabs(s->off / s->n) > 0.25) {
		fail_msg("%s: the errors are not honest", what);
	}
}

static void rows_of_strata_are_honest(void **state)
{
	struct score sums = { 0 }, means = { 0 }, rates = { 0 };
	struct derived derived[DERIVED_MAX];
	struct made m;

	(void)state;
	for (unsigned i = 0; i < RUNS; i++) {
		const struct measure *measures;
		struct estimate e;

		run(&m, "kernel", i, 1);
		for (unsigned k = 0; k < KERNELS; k++) {
			const struct group *row = find(&m, names[k]);

			e = fields_estimate(measure(&m, 1), 1, row);
			note(&sums, &e, m.bytes[k]);
			e = estimated_mean(row, 2);
			note(&means, &e, m.percent[k] / LAUNCHES);
			assert_true(group_launches(row, true) == LAUNCHES);
			assert_true(group_launches_error(row, true) == 0);
		}
		groups_measures(m.groups, &measures);
		assert_true(derived_find(measures, 3, derived) >= 1);
		assert_int_equal(derived[0].kind, DERIVED_BANDWIDTH);
		e = derived_estimate(&derived[0], groups_all(m.groups));
		note(&rates, &e, (m.bytes[0] + m.bytes[1] + m.bytes[2]) / m.time_ns * 1e9);
		groups_free(m.groups);
	}
	expect_honest(&sums, "sums");
	expect_honest(&means, "means");
	expect_honest(&rates, "rates");
}

/* A rate of what goes together is known better than its parts: without the covariance its error
 * would be larger than the sum's. */
static void what_goes_together_is_known_better(void **state)
{
	const struct measure *measures;
	struct derived derived[DERIVED_MAX];
	struct estimate sum, rate;
	struct made m;

	(void)state;
	run(&m, "kernel", 3, 1);
	groups_measures(m.groups, &measures);
	derived_find(measures, 3, derived);
	sum = fields_estimate(&measures[1], 1, groups_all(m.groups));
	rate = derived_estimate(&derived[0], groups_all(m.groups));
	assert_true(rate.error / rate.value < 0.3 * sum.error / sum.value);
	groups_free(m.groups);
}

/* Streams cut through strata: of how many launches they are is estimated as well. */
static void rows_that_cut_strata_are_honest(void **state)
{
	struct score sums = { 0 }, launches = { 0 };
	struct made m;

	(void)state;
	for (unsigned i = 0; i < RUNS; i++) {
		double all = 0, seen = 0;

		run(&m, "stream", i, 1);
		for (unsigned k = 0; k < STREAMS; k++) {
			const struct group *row = find(&m, k ? "stream 1" : "stream 0");
			struct estimate e = fields_estimate(measure(&m, 1), 1, row);

			note(&sums, &e, m.stream_bytes[k]);
			all += e.value;
			note(&launches, &row->estimated->launches, m.stream_launches[k]);
			seen += row->estimated->launches.value;
		}
		/* Nothing is counted twice or lost. */
		assert_true(fabs(seen - LAUNCHES * KERNELS) < 1e-6);
		assert_true(
			fabs(all / fields_estimate(measure(&m, 1), 1, groups_all(m.groups)).value -
			     1) < 1e-12);
		groups_free(m.groups);
	}
	expect_honest(&sums, "sums of streams");
	expect_honest(&launches, "launches of streams");
}

static void what_was_not_measured_is_told(void **state)
{
	const struct view_options options = { .limit = 0 };
	const struct group *row;
	struct buf b = { 0 };
	struct view view;
	struct made m;

	(void)state;
	m = (struct made){ .random = 1, .work = 1 };
	begin(&m, "kernel");
	for (unsigned i = 0; i < LAUNCHES; i++) {
		launch(&m, 0);
	}
	tell(&m, 0, LAUNCHES);
	tell(&m, 1, 70);
	assert_int_equal(groups_finish(m.groups), 0);
	row = find(&m, "beta");
	assert_true(group_launches(row, true) == 70);
	assert_int_equal(row->estimated->measured, 0);
	assert_int_equal(fields_estimate(measure(&m, 1), 1, row).kind, ESTIMATE_NONE);
	assert_int_equal(groups_all(m.groups)->estimated->total[1].unknown, 70);
	assert_int_equal(view_init(&view, m.groups, &options, NULL), 0);
	assert_int_equal(table_print(&view, 120, &b, NULL), 0);
	assert_non_null(strstr(buf_string(&b), "measured"));
	assert_non_null(strstr(buf_string(&b), "+-"));	 /* of alpha */
	assert_non_null(strstr(buf_string(&b), "part")); /* of all, without beta's */
	buf_deinit(&b);
	b = (struct buf){ 0 };
	machine_csv(&view, &b);
	assert_non_null(strstr(buf_string(&b), ",dram__bytes.sum:error,dram__bytes.sum:kind,"
					       "dram__bytes.sum:without_error,"
					       "dram__bytes.sum:unknown,"));
	assert_non_null(strstr(strstr(buf_string(&b), "\nbeta,70,0,0,"), ",none,0,70"));
	assert_non_null(strstr(strstr(buf_string(&b), "\nalpha,400,0,"), ",estimate,0,0,"));
	buf_deinit(&b);
	view_deinit(&view);
	groups_free(m.groups);
}

static void launch_in_steps(struct made *m)
{
	for (unsigned i = 0; i < STEPS * OF_STEP + LATER; i++) {
		double values[2] = { floor(1000 * (1 + uniform(&m->random))), 50 };
		const struct gpuctr_record record = {
			.process = 1,
			.kernel = &m->kernels[0],
			.clock = GPUCTR_CLOCK_NONE,
			.values = values,
			.stratum = 1 + (i < STEPS * OF_STEP ? i / OF_STEP : STEPS),
			.chance = CHANCE,
		};

		m->bytes[0] += values[0];
		if (uniform(&m->random) < CHANCE) {
			assert_int_equal(groups_record(m->groups, &record, NULL), 0);
		}
	}
	for (unsigned i = 0; i <= STEPS; i++) {
		const struct gpuctr_stratum stratum = { .process = 1,
							.id = 1 + i,
							.kernel = &m->kernels[0],
							.grid = { 1, 1, 1 },
							.block = { 32, 1, 1 },
							.merged = i == STEPS,
							.seen = i < STEPS ? OF_STEP : LATER };

		assert_int_equal(groups_stratum(m->groups, &stratum), 0);
	}
}

static void strata_that_lack_are_predicted(void **state)
{
	struct score sums = { 0 };
	struct made m;

	(void)state;
	for (unsigned i = 0; i < RUNS; i++) {
		const struct group *row;
		struct estimate e;

		m = (struct made){ .random = i * 7919 + 17 };
		begin(&m, "kernel");
		launch_in_steps(&m);
		assert_int_equal(groups_finish(m.groups), 0);
		row = find(&m, "alpha");
		e = fields_estimate(measure(&m, 1), 1, row);
		note(&sums, &e, m.bytes[0]);
		assert_true(group_launches(row, true) == STEPS * OF_STEP + LATER);
		assert_int_equal(row->estimated->total[1].unknown, 0);
		assert_int_equal(row->estimated->total[1].once, 0);
		groups_free(m.groups);
	}
	expect_honest(&sums, "sums of steps");
}

/* Another shape is another kind: of it nothing is known, and it is not guessed from the first. */
static void other_shapes_predict_nothing(void **state)
{
	const struct gpuctr_stratum other = {
		.process = 1, .id = 1000, .grid = { 2, 1, 1 }, .block = { 32, 1, 1 }, .seen = 40
	};
	struct gpuctr_stratum stratum = other;
	struct made m = { .random = 1 };

	(void)state;
	begin(&m, "kernel");
	launch_in_steps(&m);
	stratum.kernel = &m.kernels[0];
	assert_int_equal(groups_stratum(m.groups, &stratum), 0);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_int_equal(find(&m, "alpha")->estimated->total[1].unknown, 40);
	groups_free(m.groups);
}

static double column(const struct view *v, const char *name, const struct group *row)
{
	for (size_t i = 0; i < v->n_derived; i++) {
		if (strcmp(v->derived[i].name, name) == 0) {
			assert_true(isnan(derived_estimate(&v->derived[i], row).error));
			return derived_value(&v->derived[i], row);
		}
	}
	fail_msg("no column %s", name);
	return NAN;
}

static struct gpuctr_stratum stratum_of(const struct made *m, unsigned process, unsigned id,
					uint64_t seen)
{
	return (struct gpuctr_stratum){ .process = process,
					.id = id,
					.kernel = &m->kernels[0],
					.grid = { 1, 1, 1 },
					.block = { 32, 1, 1 },
					.seen = seen };
}

static void add_stratum(struct made *m, unsigned process, unsigned id, uint64_t seen)
{
	const struct gpuctr_stratum s = stratum_of(m, process, id, seen);

	assert_int_equal(groups_stratum(m->groups, &s), 0);
}

static void add_launch(struct made *m, unsigned process, unsigned id, double bytes, double chance)
{
	double values[2] = { bytes, 50 };
	const struct gpuctr_record record = { .process = process,
					      .kernel = &m->kernels[0],
					      .clock = GPUCTR_CLOCK_NONE,
					      .values = values,
					      .stratum = id,
					      .chance = chance };

	assert_int_equal(groups_record(m->groups, &record, NULL), 0);
}

static void add_process(struct made *m, unsigned number)
{
	const struct gpuctr_process process = { .process = number,
						.program = "p",
						.recorded_from = "" };

	assert_int_equal(groups_process(m->groups, &process), 0);
}

/* However many there are: the stratum of one process, or capture, is not that of another which has
 * its number. */
static void strata_are_of_their_process_and_capture(void **state)
{
	enum { CAPTURES = 6, PROCESSES = 100 };
	struct made m = { .random = 1 };
	double launches = 0, bytes = 0;

	(void)state;
	for (unsigned c = 0; c < CAPTURES; c++) {
		if (c == 0) {
			begin(&m, "kernel");
		} else {
			begin_again(&m);
		}
		for (unsigned i = 1; i <= PROCESSES; i++) {
			add_process(&m, i);
			add_stratum(&m, i, 1, 2 * (c + i));
			launches += 2 * (c + i);
			for (unsigned k = 0; k < 2; k++) {
				add_launch(&m, i, 1, 100 * c + i, 0.5);
			}
			bytes += (100 * c + i) * 2.0 * (c + i);
		}
	}
	assert_int_equal(groups_finish(m.groups), 0);
	assert_true(group_launches(groups_all(m.groups), true) == launches);
	assert_true(fields_estimate(measure(&m, 1), 1, groups_all(m.groups)).value == bytes);
	groups_free(m.groups);
}

/* One launch of each: what is not of the same kind tells nothing of what was not measured. */
static void other_kinds_predict_nothing(void **state)
{
	struct made m = { .random = 1 };
	struct gpuctr_stratum other;

	(void)state;
	begin(&m, "kernel");
	add_process(&m, 2);
	for (unsigned i = 0; i < 3; i++) {
		add_launch(&m, 1, 1, 100, 0.5);
	}
	add_stratum(&m, 1, 1, 10);
	other = stratum_of(&m, 1, 2, 1);
	other.device = 1;
	assert_int_equal(groups_stratum(m.groups, &other), 0);
	other = stratum_of(&m, 1, 3, 20);
	other.dynamic_shared_bytes = 64;
	assert_int_equal(groups_stratum(m.groups, &other), 0);
	add_stratum(&m, 2, 4, 300);
	begin_again(&m);
	add_stratum(&m, 1, 5, 4000);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_int_equal(find(&m, "alpha")->estimated->total[1].unknown, 4321);
	groups_free(m.groups);
}

/* By hand: of the first stratum 8 of 10 launches are like its two; the second has one, which cannot
 * stand for the 4 others, and of the third nothing is known: these 11 are as the mean of both
 * means.
 */
static void what_lacks_is_the_mean_of_its_kind(void **state)
{
	struct made m = { .random = 1 };
	struct estimate e;

	(void)state;
	begin(&m, "kernel");
	add_launch(&m, 1, 1, 10, 0.5);
	add_launch(&m, 1, 1, 20, 0.5);
	add_stratum(&m, 1, 1, 10);
	add_stratum(&m, 1, 3, 7);
	assert_int_equal(groups_finish(m.groups), 0);
	/* One stratum is no sign of how much others differ. */
	e = fields_estimate(measure(&m, 1), 1, find(&m, "alpha"));
	expect_near(e.value, 17 * 15);
	assert_int_equal(find(&m, "alpha")->estimated->total[1].once, 7);
	assert_int_equal(find(&m, "alpha")->estimated->total[1].unknown, 0);
	add_launch(&m, 1, 2, 40, 0.5);
	add_stratum(&m, 1, 2, 5);
	assert_int_equal(groups_finish(m.groups), 0);
	e = fields_estimate(measure(&m, 1), 1, find(&m, "alpha"));
	assert_int_equal(e.kind, ESTIMATE_GUESS);
	expect_near(e.value, 30 + 8 * 15 + 40 + 11 * 27.5);
	/* Neither are two, where no other kind has any: the error is of the first one's launches.
	 */
	expect_near(e.error, 6.4829 * sqrt(50.0 * 8 * (1 + 8 / 2)));
	assert_int_equal(find(&m, "alpha")->estimated->total[1].once, 12);
	assert_int_equal(e.seen, 22);
	/* And no longer, when it was measured itself. */
	add_launch(&m, 1, 3, 1000, 0.5);
	add_launch(&m, 1, 3, 1000, 0.5);
	add_launch(&m, 1, 2, 40, 0.5);
	assert_int_equal(groups_finish(m.groups), 0);
	e = fields_estimate(measure(&m, 1), 1, find(&m, "alpha"));
	expect_near(e.value, 30 + 8 * 15 + 5 * 40 + 7 * 1000);
	groups_free(m.groups);
}

/* Counts come again and again, and the last ones of a process that died may be missing. */
static void counts_only_grow(void **state)
{
	struct made m = { .random = 1 };

	(void)state;
	begin(&m, "kernel");
	add_stratum(&m, 1, 1, 70);
	add_stratum(&m, 1, 1, 50);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_true(group_launches(find(&m, "alpha"), true) == 70);
	add_stratum(&m, 1, 2, 1);
	add_launch(&m, 1, 2, 5, 1);
	add_launch(&m, 1, 2, 6, 1);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_true(group_launches(find(&m, "alpha"), true) == 72);
	groups_free(m.groups);
}

/* Kernels that share a stratum have a part of its launches each, and so have devices. */
static void kernels_that_share_a_stratum_have_a_part_of_it(void **state)
{
	static const char *const keys[] = { "kernel", "device", "kernel,device" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct gpuctr_stratum several = { .process = 1, .id = 1, .seen = 100 };
		struct made m = { .random = 1 };
		struct group **rows;
		double values[2] = { 1, 2 };
		size_t n;

		begin(&m, keys[i]);
		for (unsigned k = 0; k < 10; k++) {
			const struct gpuctr_record record = { .process = 1,
							      .kernel = &m.kernels[k % 5 == 0],
							      .device = k % 5 == 0,
							      .clock = GPUCTR_CLOCK_NONE,
							      .values = values,
							      .stratum = 1,
							      .chance = 0.1 };

			assert_int_equal(groups_record(m.groups, &record, NULL), 0);
		}
		assert_int_equal(groups_stratum(m.groups, &several), 0);
		assert_int_equal(groups_finish(m.groups), 0);
		n = groups_rows(m.groups, &rows);
		assert_int_equal(n, 2);
		for (size_t r = 0; r < n; r++) {
			bool rare = rows[r]->estimated->measured == 2;

			expect_near(group_launches(rows[r], true), rare ? 20 : 80);
			assert_true(group_launches_error(rows[r], true) > 1);
		}
		assert_true(group_launches(groups_all(m.groups), true) == 100);
		groups_free(m.groups);
	}
}

/* What was not measured is in a row without a name, with as many launches as there were. */
static void launches_in_no_row_are_counted(void **state)
{
	struct made m = { .random = 1 };
	struct group **rows;
	double launches = 0;
	size_t n;

	(void)state;
	begin(&m, "stream");
	add_launch(&m, 1, 1, 5, 1);
	add_stratum(&m, 1, 1, 1);
	add_stratum(&m, 1, 2, 40);
	assert_int_equal(groups_finish(m.groups), 0);
	n = groups_rows(m.groups, &rows);
	for (size_t i = 0; i < n; i++) {
		launches += group_launches(rows[i], true);
	}
	assert_true(n == 2 && launches == 41);
	groups_free(m.groups);
}

/* Rows that a table has no room for. */
static void rows_add_up(void **state)
{
	struct estimate_total self[3] = { 0 }, total[3] = { 0 },
			      of_derived[DERIVED_BUILT_IN] = { 0 };
	struct estimated sum = { .self = self, .total = total, .derived = of_derived };
	const struct group group = { .estimated = &sum };
	const struct measure *measures;
	struct derived derived[DERIVED_MAX];
	const struct group *all;
	struct made m;

	(void)state;
	run(&m, "kernel", 3, 1);
	all = groups_all(m.groups);
	for (unsigned k = 0; k < KERNELS; k++) {
		estimated_add(&sum, find(&m, names[k])->estimated, 3);
	}
	assert_int_equal(sum.measured, all->estimated->measured);
	assert_int_equal(sum.total_measured, all->estimated->total_measured);
	assert_true(group_launches(&group, true) == KERNELS * LAUNCHES);
	groups_measures(m.groups, &measures);
	derived_find(measures, 3, derived);
	assert_int_equal(derived[0].kind, DERIVED_BANDWIDTH);
	expect_near(derived_estimate(&derived[0], &group).error,
		    derived_estimate(&derived[0], all).error);
	sum.launches.error = 3;
	sum.total_launches.error = 4;
	assert_true(group_launches_error(&group, false) == 3);
	assert_true(group_launches_error(&group, true) == 4);
	groups_free(m.groups);
}

/* Columns of the user's own, too, are of all launches; what cannot be estimated is not known. */
static void definitions_are_of_all_launches(void **state)
{
	const struct view_options options = {
		.define = { "own", "per = dram__bytes / launches\nspeed = 2 * dram__bytes / time\n"
				   "tenth = sm__throughput.avg.pct / 10\ntwice = 2 * per\n"
				   "share = dram__bytes / peak_bytes\n" }
	};
	const struct group *row;
	struct view view;
	struct made m;
	double bytes;

	(void)state;
	run(&m, "kernel", 5, 1);
	tell(&m, KERNELS, 70); /* of alpha, in another shape: nothing of it was measured */
	assert_int_equal(groups_finish(m.groups), 0);
	row = find(&m, "beta");
	bytes = estimated_total(row, measure(&m, 1), 1).value;
	assert_int_equal(view_init(&view, m.groups, &options, NULL), 0);
	assert_true(bytes > 5 * row->total[1].sum);
	expect_near(column(&view, "per", row), bytes / LAUNCHES);
	expect_near(column(&view, "twice", row), 2 * bytes / LAUNCHES);
	expect_near(column(&view, "speed", row),
		    2e9 * bytes / estimated_total(row, measure(&m, 0), 0).value);
	expect_near(column(&view, "tenth", row), estimated_mean(row, 2).value / 10);
	assert_true(isnan(column(&view, "share", row)));
	assert_true(isnan(column(&view, "per", find(&m, "alpha"))));
	assert_true(isnan(column(&view, "per", groups_all(m.groups))));
	view_deinit(&view);
	groups_free(m.groups);
}

/* A process that died told of nothing: what there is is not told as all there was. */
static void without_a_count_nothing_is_exact(void **state)
{
	double values[2] = { 64, 1 };
	struct gpuctr_record record = { .process = 1,
					.values = values,
					.clock = GPUCTR_CLOCK_NONE,
					.duration_ns = -1,
					.stratum = 9,
					.chance = 1 };
	struct made m = { .random = 1, .work = 1 };

	(void)state;
	begin(&m, "kernel");
	record.kernel = &m.kernels[2];
	tell(&m, 0, 5);
	assert_int_equal(groups_record(m.groups, &record, NULL), 0);
	assert_int_equal(groups_record(m.groups, &record, NULL), 0);
	assert_int_equal(groups_finish(m.groups), 0);
	assert_int_equal(fields_estimate(measure(&m, 1), 1, find(&m, "gamma")).kind,
			 ESTIMATE_GUESS);
	groups_free(m.groups);
}

static double differs(const struct made *now, const struct made *before)
{
	const struct view_options options = { .against = before->groups };
	struct view view;
	double value = 0;

	assert_int_equal(view_init(&view, now->groups, &options, NULL), 0);
	for (size_t i = 0; i < view.n_rows; i++) {
		value += fields_value(FIELD_DIFFERS, &view.measures[1], 1, view.rows[i], view.all);
		assert_true(fields_value(FIELD_CHANGE_ERROR, &view.measures[1], 1, view.rows[i],
					 view.all) > 0);
	}
	view_deinit(&view);
	return value;
}

/* Beyond two errors by chance in 5 of 100; by half as much work nearly always. */
static void captures_are_compared_by_their_errors(void **state)
{
	double same = 0, other = 0;
	struct made a, b, c;

	(void)state;
	for (unsigned i = 0; i < RUNS / 4; i++) {
		run(&a, "kernel", 3 * i, 1);
		run(&b, "kernel", 3 * i + 1, 1);
		run(&c, "kernel", 3 * i + 2, 2);
		same += differs(&a, &b);
		other += differs(&c, &a);
		groups_free(a.groups);
		groups_free(b.groups);
		groups_free(c.groups);
	}
	same /= RUNS / 4 * KERNELS;
	other /= RUNS / 4 * KERNELS;
	print_message("the same differs in %.1f %%, another in %.1f %%\n", 100 * same, 100 * other);
	assert_true(same < 0.1 && other > 0.9);
}

static void two_sums_become_one(void **state)
{
	struct estimate sum = { .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };
	const struct estimate none = sum;
	const struct estimate a = { .kind = ESTIMATE_GUESS, .value = 10, .error = 3 };
	const struct estimate b = { .kind = ESTIMATE_EXACT, .value = 5, .error = 0 };
	const struct estimate c = { .kind = ESTIMATE_GUESS, .value = 1, .error = 4 };

	(void)state;
	estimate_add_up(&sum, &a);
	estimate_add_up(&sum, &none);
	estimate_add_up(&sum, &b);
	estimate_add_up(&sum, &c);
	assert_int_equal(sum.kind, ESTIMATE_GUESS);
	assert_true(sum.value == 16 && fabs(sum.error - 5) < 1e-12);
	assert_true(estimate_distance(&b, &b) == 0);
	assert_true(isinf(estimate_distance(&b, &(struct estimate){ ESTIMATE_EXACT, 6, 0, 1, 1 })));
	assert_true(isnan(estimate_distance(&none, &b)));
}

/* Of two figures of one launch the error is not known, and neither is that of their sum. */
static void a_sum_is_as_sure_as_its_parts(void **state)
{
	const struct estimate once = { .kind = ESTIMATE_ONCE, .value = 2, .error = NAN };
	const struct estimate guess = { .kind = ESTIMATE_GUESS, .value = 3, .error = 1 };
	struct estimate sum = once;

	(void)state;
	estimate_add_up(&sum, &once);
	assert_int_equal(sum.kind, ESTIMATE_ONCE);
	assert_true(sum.value == 4 && isnan(sum.error));
	estimate_add_up(&sum, &guess);
	assert_int_equal(sum.kind, ESTIMATE_GUESS);
	assert_true(sum.value == 7 && sum.error == 1);
}

/* Of a value below 0, such as a difference that a user has defined, less is less. */
static void a_change_has_the_direction_of_the_value(void **state)
{
	const struct estimate before = { ESTIMATE_EXACT, -10, 0, 1, 1 };
	const struct estimate more = { ESTIMATE_EXACT, -5, 0, 1, 1 };
	const struct estimate nothing = { ESTIMATE_EXACT, 0, 0, 1, 1 };

	(void)state;
	assert_true(estimate_change(&more, &before).value == 50);
	assert_true(estimate_change(&before, &more).value == -100);
	assert_true(isnan(estimate_change(&more, &nothing).value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_strata_are_honest),
		cmocka_unit_test(what_goes_together_is_known_better),
		cmocka_unit_test(rows_that_cut_strata_are_honest),
		cmocka_unit_test(what_was_not_measured_is_told),
		cmocka_unit_test(strata_that_lack_are_predicted),
		cmocka_unit_test(other_shapes_predict_nothing),
		cmocka_unit_test(strata_are_of_their_process_and_capture),
		cmocka_unit_test(other_kinds_predict_nothing),
		cmocka_unit_test(what_lacks_is_the_mean_of_its_kind),
		cmocka_unit_test(counts_only_grow),
		cmocka_unit_test(kernels_that_share_a_stratum_have_a_part_of_it),
		cmocka_unit_test(launches_in_no_row_are_counted),
		cmocka_unit_test(rows_add_up),
		cmocka_unit_test(definitions_are_of_all_launches),
		cmocka_unit_test(without_a_count_nothing_is_exact),
		cmocka_unit_test(captures_are_compared_by_their_errors),
		cmocka_unit_test(two_sums_become_one),
		cmocka_unit_test(a_sum_is_as_sure_as_its_parts),
		cmocka_unit_test(a_change_has_the_direction_of_the_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
