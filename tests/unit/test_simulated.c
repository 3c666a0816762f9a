/* SPDX-License-Identifier: Apache-2.0 */

/* Attribution of made programs, where what each kernel did is known, and of input that is wrong. */

#include <math.h>

#include "tests/unit/unit.h"

#include "client/attribution/attribution.h"

#define KERNELS_MOST 200000
#define SAMPLES_MOST 200000
#define SAMPLE_NS 10000
#define MS 1000000LL

struct made_kernel {
	struct attribution_kernel k;
	double truth;
	struct attribution_value value;
	uint32_t position;
	enum attribution_state state;
	int told;
};

static struct world {
	struct made_kernel kernels[KERNELS_MOST];
	uint32_t count;
	double samples[SAMPLES_MOST];
	uint32_t sample_count;
	int64_t shift_ns; /* of the kernels' clock */
	int64_t sample_ns;
	double noise, idle;
	struct attribution *attribution;
} * world;

static uint64_t seed;

static double random_part(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static void begin(uint64_t with)
{
	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	world->noise = 0.01;
	world->sample_ns = SAMPLE_NS;
	seed = with;
}

static void add(uint64_t stream, uint32_t shape, int64_t start, int64_t end, double truth)
{
	struct made_kernel *k = &world->kernels[world->count];

	assert_true(world->count < KERNELS_MOST);
	k->k = (struct attribution_kernel){ .id = world->count++,
					    .sequence = stream,
					    .shape = shape,
					    .start_ns = start,
					    .end_ns = end };
	k->truth = truth;
}

/* One stream's steps: shapes, durations and bytes of each place are drawn once, gaps every time. */
static int64_t add_steps(uint64_t stream, uint32_t places, uint32_t steps, double from_us,
			 double to_us, int64_t start)
{
	double us[500], bytes[500];

	for (uint32_t i = 0; i < places; i++) {
		us[i] = from_us + (to_us - from_us) * random_part() * random_part();
		bytes[i] = random_part() < 0.2 ? 0 : us[i] * 3e6 * random_part();
	}
	for (uint32_t s = 0; s < steps; s++) {
		for (uint32_t i = 0; i < places; i++) {
			int64_t end =
				start + (int64_t)(us[i] * 1000 * (0.97 + 0.06 * random_part()));

			add(stream, (uint32_t)stream * 1000 + i % 17, start, end, bytes[i]);
			start = end + 300 + (int64_t)(random_part() * 1500);
		}
		start += (int64_t)(random_part() * 30000);
	}
	return start;
}

/* What a sampler would have read. */
static void sample(int64_t end)
{
	world->sample_count = (uint32_t)(end / world->sample_ns) + 10;
	assert_true(world->sample_count <= SAMPLES_MOST);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];
		int64_t from = k->k.start_ns - world->shift_ns, to = k->k.end_ns - world->shift_ns;

		for (int64_t s = from / world->sample_ns; s * world->sample_ns < to; s++) {
			double a = fmax((double)from, (double)(s * world->sample_ns));
			double b = fmin((double)to, (double)((s + 1) * world->sample_ns));

			world->samples[s] += k->truth * (b - a) / (double)(to - from);
		}
	}
	for (uint32_t s = 0; s < world->sample_count; s++) {
		world->samples[s] += world->idle * world->sample_ns;
		world->samples[s] *= 1 + world->noise * 2 * (random_part() - 0.5);
	}
}

static void on_kernel(void *user, const struct attribution_result *result)
{
	struct made_kernel *k = &world->kernels[result->id];

	(void)user;
	assert_true(result->id < world->count);
	k->told++;
	k->position = result->position;
	k->state = result->state;
	if (result->values) {
		k->value = result->values[0];
	}
}

static void open_attribution(size_t window)
{
	struct attribution_options options = { .metrics = 1,
					       .on_kernel = on_kernel,
					       .window_samples = window };

	world->attribution = attribution_new(&options);
	assert_non_null(world->attribution);
}

static void give_sample(uint32_t s)
{
	assert_int_equal(attribution_sample(world->attribution, (int64_t)s * world->sample_ns,
					    (int64_t)(s + 1) * world->sample_ns,
					    &world->samples[s]),
			 0);
}

static int by_start(const void *a, const void *b)
{
	const struct made_kernel *x = a, *y = b;

	return x->k.start_ns < y->k.start_ns ? -1 : x->k.start_ns > y->k.start_ns;
}

static void give_kernels_until(uint32_t *next, int64_t until)
{
	for (; *next < world->count && world->kernels[*next].k.start_ns < until; ++*next) {
		assert_int_equal(attribution_kernel(world->attribution, &world->kernels[*next].k),
				 0);
	}
}

static void finish(void)
{
	assert_int_equal(attribution_finish(world->attribution), 0);
	for (uint32_t i = 0; i < world->count; i++) {
		struct made_kernel *k = &world->kernels[i];

		assert_int_equal(k->told, 1);
		if (k->state == ATTRIBUTION_MEASURED && k->position != ATTRIBUTION_NO_POSITION) {
			attribution_position(world->attribution, k->position, &k->value);
		}
		if (k->state == ATTRIBUTION_MEASURED) {
			k->state = k->value.state;
		}
		assert_true(isfinite(k->value.value) && k->value.value >= 0 && k->value.error >= 0);
	}
}

static void attribute(size_t window)
{
	uint32_t next = 0;

	qsort(world->kernels, world->count, sizeof(world->kernels[0]), by_start);
	for (uint32_t i = 0; i < world->count; i++) {
		world->kernels[i].k.id = i;
	}
	open_attribution(window);
	for (uint32_t s = 0; s < world->sample_count; s++) {
		give_kernels_until(&next, (int64_t)(s + 1) * world->sample_ns);
		give_sample(s);
	}
	give_kernels_until(&next, INT64_MAX);
	finish();
}

static void end(void)
{
	attribution_free(world->attribution);
	free(world);
	world = NULL;
}

struct outcome {
	double measured,
		within;	 /* parts of the kernels: with a value; of these, within three errors */
	double total;	 /* what the sum is off by */
	double weighted; /* what each is off by, of the whole */
};

static struct outcome judge(void)
{
	struct outcome o = { 0 };
	double truth = 0, value = 0, off = 0;

	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		if (k->state == ATTRIBUTION_MEASURED) {
			o.measured++;
			o.within += fabs(k->value.value - k->truth) <= 3 * k->value.error + 1;
			truth += k->truth;
			value += k->value.value;
			off += fabs(k->value.value - k->truth);
		}
	}
	o.within /= o.measured > 0 ? o.measured : 1;
	o.measured /= world->count;
	o.total = truth > 0 ? value / truth - 1 : 0;
	o.weighted = truth > 0 ? off / truth : 0;
	return o;
}

static void expect(const char *what, double measured, double within, double total, double weighted)
{
	struct outcome o = judge();
	const struct attribution_counts *c = attribution_counts(world->attribution);

	printf("%-34s %6u kernels, %5u positions, shift %6ld ns: measured %.1f%%, within 3 errors "
	       "%.2f%%, "
	       "total %+.2f%%, weighted %.2f%%\n",
	       what, world->count, c->positions, (long)c->shift_ns[0], 100 * o.measured,
	       100 * o.within, 100 * o.total, 100 * o.weighted);
	assert_true(o.measured >= measured);
	assert_true(o.within >= within);
	assert_true(fabs(o.total) <= total);
	assert_true(o.weighted <= weighted);
}

/* --- programs whose kernels are told right --------------------------------------------------- */

static int64_t long_kernels(void)
{
	world->shift_ns = (int64_t)(seed % 5 * 1300) - 2700;
	return add_steps(1, 60, 30, 20, 200, MS);
}

static int64_t short_kernels(void)
{
	return add_steps(1, 100, 150, 2, 15, MS);
}

static int64_t two_streams(void)
{
	int64_t a = add_steps(1, 40, 150, 10, 80, MS), b = add_steps(2, 33, 200, 8, 60, MS);

	return a > b ? a : b;
}

static int64_t no_steps(void)
{
	int64_t at = MS;

	for (uint32_t i = 0; i < 3000; i++) {
		int64_t ns = 20000 + (int64_t)(random_part() * 100000);

		add(1, i, at, at + ns, (double)ns * 3000 * random_part());
		at += ns + 500;
	}
	return at;
}

/* Of short kernels, 0.1 us between the clocks is 5 % of the value. */
static int64_t short_at_once(void)
{
	int64_t at[3] = { MS, MS, MS }, last = 0;

	world->noise = 0;
	for (uint32_t i = 0; i < 30000; i++) {
		uint32_t stream = i % 3, shape = (uint32_t)(random_part() * 13);
		int64_t end = at[stream] + 1400 + 1200 * shape;

		add(stream, shape, at[stream], end, 1e6 * (1 + shape));
		at[stream] = end + 25000 + (int64_t)(random_part() * 60000);
		last = end > last ? end : last;
	}
	return last;
}

static int64_t steps_that_stop(void)
{
	int64_t at = add_steps(1, 50, 40, 20, 100, MS);

	for (uint32_t i = 0; i < 500; i++) {
		add(1, 70000 + i, at, at + 50000, 5e7);
		at += 51000;
	}
	return add_steps(3, 50, 40, 20, 100, at);
}

/* Launches of a graph of two branches of 20 kernels each, of all the same shapes, whose records
 * tell one stream, with two kernels between launches. Which kernel of which branch is first differs
 * from launch to launch. Else the graph is made anew for each launch, and has one branch. */
static int64_t add_graphs(uint32_t launches, bool one)
{
	double us[40], bytes[40];
	int64_t at = MS, ends[2];

	for (uint32_t i = 0; i < 40; i++) {
		us[i] = 10 + 30 * random_part();
		bytes[i] = us[i] * 3e6 * random_part();
	}
	for (uint32_t l = 0; l < launches; l++) {
		for (uint32_t i = 0; i < 2; i++) {
			add(1, 900 + i, at, at + 20000, 4e7);
			at += 21000;
		}
		ends[0] = ends[1] = at;
		for (uint32_t i = 0; i < 40; i++) {
			int64_t *branch = &ends[one ? i % 2 : 0];
			int64_t ns = (int64_t)(us[i] * 1000 * (0.9 + 0.2 * random_part()));
			uint64_t graph = one ? 1 : l + 1;

			*branch += (int64_t)(random_part() * 2000);
			add(1, i % 3, *branch, *branch + ns, bytes[i]);
			world->kernels[world->count - 1].k.place = graph << 32 | (i + 1);
			*branch += ns;
		}
		at = (ends[0] > ends[1] ? ends[0] : ends[1]) + (int64_t)(random_part() * 20000);
	}
	return at;
}

static int64_t one_graph(void)
{
	return add_graphs(300, true);
}

static int64_t new_graphs(void)
{
	return add_graphs(300, false);
}

static int64_t many_steps(void)
{
	return add_steps(1, 30, 400, 20, 100, MS);
}

static int64_t something_flows(void)
{
	int64_t at = MS;

	world->idle = 50;
	for (uint32_t i = 0; i < 400; i++) {
		add(1, i % 4, at, at + 100000, 1e8 * (1 + i % 4));
		at += 100000 + (i % 4 == 3 ? 400000 : 1000);
	}
	return at;
}

static int64_t each_alone(void)
{
	int64_t at = MS;

	for (uint32_t i = 0; i < 1000; i++, at += 300700) {
		add(1, i % 97, at, at + 300 + i % 97, 1e6 * (1 + i % 97));
	}
	return at;
}

/* window: of samples; 0: all at once. Memory is bounded then, the values are about the same. most:
 * positions. */
static const struct {
	const char *name;
	uint64_t seed;
	int64_t (*make)(void);
	size_t window;
	double measured, within, total, weighted;
	uint32_t most;
} programs[] = {
	{ "20 to 200 us", 1, long_kernels, 0, 0.99, 0.99, 0.003, 0.015, 200 },
	{ "20 to 200 us", 4, long_kernels, 0, 0.99, 0.99, 0.003, 0.015, 200 },
	{ "2 to 15 us", 11, short_kernels, 0, 0.95, 0.95, 0.003, 0.02, 300 },
	{ "two streams at once", 21, two_streams, 0, 0.99, 0.97, 0.01, 0.1, 300 },
	{ "nothing repeats", 31, no_steps, 0, 0.99, 0.98, 0.005, 0.03, UINT32_MAX },
	{ "short, three at once, no steps", 44, short_at_once, 0, 0.85, 0.97, 0.0003, 0.01, 300 },
	{ "steps, others, other steps", 41, steps_that_stop, 0, 0.99, 0.98, 0.005, 0.03, 300 },
	{ "a graph of two branches", 45, one_graph, 0, 0.99, 0.99, 0.003, 0.02, 100 },
	{ "the same in pieces", 47, one_graph, 3000, 0.99, 0.99, 0.003, 0.02, 100 },
	{ "a graph that is made anew", 46, new_graphs, 0, 0.99, 0.99, 0.003, 0.02, 100 },
	{ "the same in pieces", 46, new_graphs, 3000, 0.99, 0.99, 0.003, 0.02, 100 },
	{ "in windows of 120 ms", 51, many_steps, 12000, 0.99, 0.98, 0.005, 0.03, 300 },
	{ "something flows always", 61, something_flows, 0, 0.99, 0.99, 0.003, 0.01, 100 },
	{ "each alone, 300 to 400 ns", 65, each_alone, 0, 0.97, 0.97, 0.01, 0.02, UINT32_MAX },
};

TEST(test_programs)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		const struct attribution_counts *c;

		begin(programs[i].seed);
		sample(programs[i].make());
		attribute(programs[i].window);
		expect(programs[i].name, programs[i].measured, programs[i].within,
		       programs[i].total, programs[i].weighted);
		c = attribution_counts(world->attribution);
		assert_true(c->positions < programs[i].most);
		assert_true(world->shift_ns == 0 ||
			    labs((long)(c->shift_ns[0] - world->shift_ns)) < 700);
		assert_true(world->idle == 0 ||
			    fabs(c->idle_per_s[0] / (1e9 * world->idle) - 1) < 0.05);
		end();
	}
}

/* In each step one kernel, of whatever place, is like no other: also in the step that all are
 * compared with, in which it has a place, but of one kernel alone little is known. */
TEST(test_one_off_kernels_have_no_position)
{
	uint32_t without = 0;
	int64_t at = MS;

	begin(42);
	for (uint32_t step = 0; step < 60; step++) {
		for (uint32_t i = 0; i < 30; i++) {
			bool one_off = i == step * 7 % 30;

			add(1, one_off ? 80000 + step : i, at, at + 30000 + i * 1000,
			    1e7 + i * 1e6);
			at += 31000 + i * 1000;
		}
	}
	sample(at);
	attribute(0);
	expect("one-off kernels in each step", 0.99, 0.99, 0.003, 0.02);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		assert_true(k->k.shape < 80000 || k->position == ATTRIBUTION_NO_POSITION);
		without += k->position == ATTRIBUTION_NO_POSITION;
	}
	assert_true(without < 4 * 60); /* of 1,800: what stands in place of one as well */
	end();
}

/* Pairs of kernels that move the same in a time, and pauses between pairs. A sample of both says
 * nothing of where one ends, and what noise leaves of it is not the uncertainty of where they end:
 * their errors would be many times their values. */
TEST(test_equal_rates)
{
	const double rate = 3e3;
	int64_t at = 5 * MS;

	begin(11);
	world->noise = 0.002;
	for (unsigned i = 0; i < 3000; i++) {
		int64_t ns = 15000 + 9000 * (i % 4);

		add(1, i % 4, at, at + ns, rate * (double)ns);
		at += ns + (i % 2 ? 30000 + (int64_t)(random_part() * 20000) : 2000);
	}
	sample(at + MS);
	attribute(4096);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		assert_int_equal(k->state, ATTRIBUTION_MEASURED);
		assert_int_equal(k->value.state, ATTRIBUTION_MEASURED);
		assert_true(fabs(k->value.value / k->truth - 1) < 0.02);
		assert_true(k->value.error < 0.1 * k->truth);
	}
	end();
}

/* In a moment without kernels something ran that has no record. That does not always flow. */
TEST(test_work_that_nobody_reports)
{
	int64_t at = MS, pause = 0;

	begin(62);
	for (uint32_t i = 0; i < 400; i++) {
		add(1, i % 4, at, at + 100000, 1e8 * (1 + i % 4));
		at += i == 200 ? MS : 101000;
		pause = i == 200 ? at : pause;
	}
	sample(at);
	for (int64_t s = (pause - MS / 2) / SAMPLE_NS; s < (pause - MS / 4) / SAMPLE_NS; s++) {
		world->samples[s] += 2e7;
	}
	attribute(0);
	expect("work that nobody reports", 0.99, 0.99, 0.003, 0.01);
	end();
}

/* Two kernels that always share their time: their sum is known, and neither of them. */
TEST(test_together)
{
	int64_t at = MS;

	begin(71);
	for (uint32_t i = 0; i < 200; i++) {
		add(1, 1, at, at + 80000, 1e8);
		add(2, 2, at, at + 80000, 2e8);
		add(1, 3, at + 81000, at + 120000, 1e8);
		at += 130000;
	}
	sample(at);
	attribute(0);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		assert_int_equal(k->state,
				 k->k.shape == 3 ? ATTRIBUTION_MEASURED : ATTRIBUTION_TOGETHER);
	}
	end();
}

/* Records of a time are missing, or may be; samples of a millisecond are, and single ones. */
static void lose(size_t window)
{
	uint32_t next = 0, hidden = 0;

	begin(81);
	sample(add_steps(1, 40, 100, 20, 300, MS));
	open_attribution(window);
	assert_int_equal(attribution_lost(world->attribution, 40 * MS, 42 * MS), 0);
	assert_int_equal(attribution_lost(world->attribution, 90 * MS, 92 * MS), 0);
	for (uint32_t s = 0; s < world->sample_count; s++) {
		for (; next < world->count &&
		       world->kernels[next].k.start_ns < (int64_t)(s + 1) * SAMPLE_NS;
		     next++) {
			const struct attribution_kernel *k = &world->kernels[next].k;

			if (k->start_ns > 40 * MS && k->end_ns < 42 * MS) {
				world->kernels[next].told = 1;
				world->kernels[next].state = ATTRIBUTION_LOST;
				hidden++;
				continue;
			}
			assert_int_equal(attribution_kernel(world->attribution, k), 0);
		}
		if ((s < 6000 || s >= 6100) && (s < 7000 || s >= 8000 || s % 50 != 0)) {
			give_sample(s);
		}
	}
	finish();
	assert_true(hidden > 10);
}

static bool runs_in(const struct attribution_kernel *k, int64_t from, int64_t to)
{
	return k->end_ns > from && k->start_ns < to;
}

TEST(test_lost_samples_and_records)
{
	static const size_t windows[] = { 0, 12000 }; /* the second ends before all of it */

	for (size_t w = 0; w < 2; w++) {
		lose(windows[w]);
		for (uint32_t i = 0; i < world->count; i++) {
			const struct attribution_kernel *k = &world->kernels[i].k;
			bool lost = runs_in(k, 60 * MS + 20000, 61 * MS - 20000) ||
				    runs_in(k, 40 * MS + 20000, 42 * MS - 20000) ||
				    runs_in(k, 90 * MS + 20000, 92 * MS - 20000);

			for (int64_t at = 70 * MS; at < 80 * MS; at += 50 * SAMPLE_NS) {
				lost = lost || runs_in(k, at + 4000, at + SAMPLE_NS - 4000);
			}
			if (lost) {
				assert_int_equal(world->kernels[i].state, ATTRIBUTION_LOST);
			}
		}
		expect("samples and records are missing", 0.75, 0.98, 0.005, 0.03);
		end();
	}
}

/* Somebody else moves far more in a third of the time, and it is known when: no kernel is given any
 * of it, nor is what is known of others worse for it. */
TEST(test_strangers_beside)
{
	for (int repeats = 0; repeats < 2; repeats++) {
		int64_t at = MS;
		uint32_t next = 0, lost = 0;

		begin(83);
		world->shift_ns = 3000;
		for (uint32_t i = 0; !repeats && i < 3000; i++) {
			int64_t ns = 20000 + (int64_t)(random_part() * 100000);

			add(1, i, at, at + ns, (double)ns * 3000 * random_part());
			at += ns + 500;
		}
		at = repeats ? add_steps(1, 40, 80, 20, 200, MS) : at;
		sample(at);
		open_attribution(0);
		for (uint32_t s = 0; s < world->sample_count; s++) {
			if (s % 300 >= 200) {
				world->samples[s] += 1e9;
			}
			if (s % 300 == 200) {
				attribution_lost(world->attribution, (int64_t)s * SAMPLE_NS,
						 (int64_t)(s + 100) * SAMPLE_NS);
			}
			give_kernels_until(&next, (int64_t)(s + 1) * SAMPLE_NS);
			give_sample(s);
		}
		finish();
		expect(repeats ? "strangers, and steps" : "strangers", 0.62, 0.98, 0.001, 0.003);
		assert_true(labs((long)(attribution_counts(world->attribution)->shift_ns[0] -
					world->shift_ns)) < 700);
		for (uint32_t i = 0; i < world->count; i++) {
			lost += world->kernels[i].state == ATTRIBUTION_LOST;
		}
		assert_true(lost > world->count / 3);
		end();
	}
}

/* More times are lost than are kept apart: whatever is between the last of them is lost as well. So
 * is what is between the last one and one that comes too late. */
TEST(test_many_lost_times)
{
	begin(84);
	sample(add_steps(1, 40, 60, 20, 100, MS));
	open_attribution(0);
	for (int64_t i = 0; i < 1024; i++) {
		attribution_lost(world->attribution, 30 * MS + i, 30 * MS + i + 1);
	}
	attribution_lost(world->attribution, 40 * MS, 42 * MS);
	attribution_lost(world->attribution, 20 * MS, 21 * MS);
	for (uint32_t i = 0; i < world->count; i++) {
		attribution_kernel(world->attribution, &world->kernels[i].k);
	}
	for (uint32_t s = 0; s < world->sample_count; s++) {
		give_sample(s);
	}
	finish();
	for (uint32_t i = 0; i < world->count; i++) {
		const struct attribution_kernel *k = &world->kernels[i].k;

		if (runs_in(k, 40 * MS, 42 * MS) || runs_in(k, 20 * MS, 21 * MS)) {
			assert_int_equal(world->kernels[i].state, ATTRIBUTION_LOST);
		}
	}
	end();
}

static uint64_t n_given_up, n_others;

static void on_given_up(void *user, const struct attribution_result *result)
{
	(void)user;
	*(result->state == ATTRIBUTION_LOST ? &n_given_up : &n_others) += 1;
}

/* --- what comes late, and twice -------------------------------------------------------------- */

/* One that comes too late is told so when it comes, and counted: who runs beside it was given what
 * it did. */
TEST(test_late_kernels_are_told_at_once)
{
	uint64_t late = 0;
	uint32_t next = 0;

	begin(22);
	sample(add_steps(1, 30, 400, 20, 100, MS));
	open_attribution(12000);
	for (uint32_t s = 0; s < world->sample_count; s++) {
		for (; next < world->count &&
		       world->kernels[next].k.start_ns < (int64_t)(s + 1) * SAMPLE_NS;
		     next++) {
			/* of some pairs, the second comes first */
			struct made_kernel *k = &world->kernels[next];
			bool is_swapped = next % 50 == 0 && next + 1 < world->count;

			if (is_swapped) {
				attribution_kernel(world->attribution, &k[1].k);
			}
			attribution_kernel(world->attribution, &k->k);
			assert_int_equal(k->told > 0, is_swapped);
			late += is_swapped;
			next += is_swapped;
		}
		give_sample(s);
	}
	finish();
	for (uint32_t i = 0; i < world->count; i++) {
		assert_true((i % 50 != 0) || world->kernels[i].state == ATTRIBUTION_LOST ||
			    i + 1 == world->count);
	}
	assert_int_equal(attribution_counts(world->attribution)->late_kernels, late);
	end();
}

/* Samples come again, at once or about when their time was attributed: their values count once. */
TEST(test_samples_that_come_twice)
{
	const struct attribution_counts *c;
	uint32_t next = 0;

	begin(23);
	sample(add_steps(1, 30, 400, 20, 100, MS));
	open_attribution(12000);
	for (uint32_t s = 0; s < world->sample_count; s++) {
		give_kernels_until(&next, (int64_t)(s + 1) * SAMPLE_NS);
		give_sample(s);
		give_sample(s < 26000 ? s : s - 8000 - s * 7919 % 18000);
	}
	finish();
	c = attribution_counts(world->attribution);
	assert_true(c->late_samples > world->sample_count / 8);
	assert_int_equal(c->late_samples + c->bad_samples, world->sample_count);
	expect("samples come twice", 0.99, 0.98, 0.005, 0.03);
	end();
}

/* Of those for which no samples come the oldest are given up. What ran beside them has no value: it
 * would be given what they did. */
TEST(test_kernels_that_are_given_up)
{
	enum { FIRST = 1, KERNELS = FIRST + (2 << 18), US = 1000 };
	struct attribution_options options = { .metrics = 1, .on_kernel = on_given_up };
	struct attribution *a = attribution_new(&options);
	const double value = 1e6;

	assert_non_null(a);
	n_given_up = n_others = 0;
	for (int64_t i = 0; i < KERNELS; i++) {
		const struct attribution_kernel k = { .id = (uint64_t)i,
						      .sequence = i < FIRST ? 2 : 1,
						      .shape = i < FIRST ? 2 : 1,
						      .start_ns = MS + i * US,
						      .end_ns = i < FIRST ? 1000 * MS
									  : MS + i * US + US - 1 };

		assert_int_equal(attribution_kernel(a, &k), 0);
	}
	assert_true(n_given_up > 0 && n_given_up < KERNELS && n_others == 0);
	for (int64_t at = 0; at < 1000 * MS; at += SAMPLE_NS) {
		assert_int_equal(attribution_sample(a, at, at + SAMPLE_NS, &value), 0);
	}
	assert_int_equal(attribution_finish(a), 0);
	assert_int_equal(n_given_up, KERNELS);
	assert_int_equal(n_others, 0);
	attribution_free(a);
}

/* By more than is looked for: far, a little, and in samples that hold several kernels. */
TEST(test_clocks_apart)
{
	static const struct {
		int64_t shift_ns, sample_ns;
	} rows[] = { { MS, SAMPLE_NS }, { -32000, SAMPLE_NS }, { MS, 20 * SAMPLE_NS } };

	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		begin(91);
		world->shift_ns = rows[row].shift_ns;
		world->sample_ns = rows[row].sample_ns;
		sample(add_steps(1, 60, 60, 20, 200, 3 * MS));
		attribute(0);
		for (uint32_t i = 0; i < world->count; i++) {
			assert_int_equal(world->kernels[i].state, ATTRIBUTION_CLOCKS);
		}
		assert_true(llabs(attribution_counts(world->attribution)->apart_ns -
				  world->shift_ns) < 2 * world->sample_ns);
		end();
	}
}

static void on_late(void *user, const struct attribution_result *result)
{
	(void)user;
	world->kernels[result->id].state = result->state;
	world->kernels[result->id].position = result->position;
}

/* Written data may reach the memory after its kernel has ended. The data that kernels read shows
 * that the clocks agree. */
TEST(test_one_metric_comes_late)
{
	enum { LATE = 100 }; /* samples */
	struct attribution_options options = { .metrics = 2, .on_kernel = on_late };
	struct attribution_value values[2];
	uint32_t next = 0, measured = 0;

	begin(92);
	sample(add_steps(1, 60, 60, 20, 200, 3 * MS));
	world->attribution = attribution_new(&options);
	for (uint32_t s = 0; s < world->sample_count; s++) {
		double both[] = { world->samples[s], s < LATE ? 0 : world->samples[s - LATE] };

		give_kernels_until(&next, (int64_t)(s + 1) * world->sample_ns);
		assert_int_equal(attribution_sample(world->attribution,
						    (int64_t)s * world->sample_ns,
						    (int64_t)(s + 1) * world->sample_ns, both),
				 0);
	}
	assert_int_equal(attribution_finish(world->attribution), 0);
	for (uint32_t i = 0; i < world->count; i++) {
		assert_int_not_equal(world->kernels[i].state, ATTRIBUTION_CLOCKS);
		if (world->kernels[i].position != ATTRIBUTION_NO_POSITION) {
			attribution_position(world->attribution, world->kernels[i].position,
					     values);
			measured += values[0].state == ATTRIBUTION_MEASURED;
			assert_int_equal(values[1].state, ATTRIBUTION_TOGETHER);
		}
	}
	assert_true(measured > world->count / 2);
	assert_int_equal(attribution_counts(world->attribution)->apart_ns, 0);
	end();
}

/* Of a tenth of a second, in which somebody else moves more, once. Some shift fits that by chance,
 * and the clocks are the same all the same. */
TEST(test_a_program_of_a_moment)
{
	uint32_t measured = 0;

	for (uint64_t round = 0; round < 30; round++) {
		int64_t at = MS;

		begin(400 + round);
		world->sample_ns = round % 2 ? SAMPLE_NS : 20 * SAMPLE_NS;
		for (uint32_t i = 0; i < 162; i++) {
			int64_t ns = 5000 + (int64_t)(random_part() * 10000);

			add(1, i % 40, at, at + ns, (double)ns * 1000 * random_part());
			at += ns + (int64_t)(random_part() * 1000000);
		}
		sample(at);
		world->samples[(int)((0.3 + 0.4 * random_part()) * world->sample_count)] += 1e9;
		attribute(0);
		for (uint32_t i = 0; i < world->count; i++) {
			assert_int_not_equal(world->kernels[i].state, ATTRIBUTION_CLOCKS);
			measured += world->kernels[i].state == ATTRIBUTION_MEASURED;
		}
		end();
	}
	printf("a moment: %u of %u have values\n", measured, 30 * 162);
	assert_true(measured > 30 * 162 / 4);
}

/* Where all kernels move as much all the time any shift fits, and none is told. */
TEST(test_a_shift_that_is_not_to_be_seen)
{
	int64_t at = MS;

	begin(92);
	for (uint32_t i = 0; i < 4000; i++) {
		int64_t ns = 20000 + (int64_t)(random_part() * 20000);

		add(1, i % 7, at, at + ns, (double)ns * 3000);
		at += ns + 1;
	}
	sample(at);
	attribute(0);
	assert_false(attribution_counts(world->attribution)->shift_known);
	assert_true(labs((long)attribution_counts(world->attribution)->shift_ns[0]) <= 1000);
	end();
}

/* What flows for so long from a time on, beside what kernels move. */
static void add_flow(int64_t at, int64_t ns, double bytes)
{
	for (int64_t t = at; t < at + ns; t += 100) {
		world->samples[t / world->sample_ns] += bytes * 100 / (double)ns;
	}
}

/* What short kernels behind a long one move, in each round more or less and a little late, looks as
 * if the long one had moved it by a clock that is 16 us late. The clocks are the same. */
TEST(test_a_burst_behind_a_long_kernel)
{
	for (uint64_t round = 0; round < 10; round++) {
		int64_t at = 3 * MS;

		begin(500 + round);
		for (uint32_t i = 0; i < 300; i++) {
			add(1, 0, at, at + 15700, 0);
			for (int64_t k = 0; k < 20; k++) {
				add(1, 1, at + 15700 + k * 1300, at + 16970 + k * 1300, 0);
			}
			at += 600000 + (int64_t)(random_part() * 1000000);
		}
		sample(at);
		for (uint32_t i = 0; i < world->count; i += 21) {
			add_flow(world->kernels[i].k.start_ns + 16500, 26600,
				 100000 * (0.2 + random_part()));
		}
		attribute(0);
		printf("a burst: shift %ld ns\n",
		       (long)attribution_counts(world->attribution)->shift_ns[0]);
		assert_true(llabs(attribution_counts(world->attribution)->shift_ns[0]) < 4000);
		end();
	}
}

/* A kernel of 16 us that moves some 2.6 kB, and 20 of 1.3 us behind it, in a graph that is made
 * anew for every fifth launch. How much each launch moves differs, so that the clocks' shift is off
 * by 0.2 to 0.3 us, by the same for all positions of the first kernel, of which there are hundreds.
 */
static void new_graphs_of_short_kernels(void)
{
	int64_t at = 3 * MS;

	for (uint64_t i = 0; i < 1500; i++) {
		int64_t burst = at + 15700;

		for (uint64_t node = 0; node < 21; node++) {
			int64_t start = node == 0 ? at : burst + ((int64_t)node - 1) * 1300;

			add(1, node > 0, start, node == 0 ? burst : start + 1270, 0);
			world->kernels[world->count - 1].k.place = (i / 5 + 1) << 32 | (node + 1);
		}
		at += 600000 + (int64_t)(random_part() * 600000);
	}
	sample(at);
	for (uint32_t i = 0; i < world->count; i += 21) {
		int64_t start = world->kernels[i].k.start_ns;

		add_flow(start, 15700, 2600 * (0.3 + 1.4 * random_part()));
		add_flow(start + 16500, 26600, 7000 * (0.2 + 2.4 * random_part() * random_part()));
	}
}

/* What a step moves depends on what the one before it moved. */
static void steps_that_drift(void)
{
	int64_t at = MS;
	double off = 0;

	for (uint32_t step = 0; step < 200; step++) {
		off = 0.9 * off + 0.08 * (random_part() - 0.5);
		for (uint32_t i = 0; i < 10; i++) {
			int64_t ns = 20000 + i * 7000;

			add(1, i, at, at + ns, (double)(ns * (i % 3 + 1)) * 1000 * (1 + off));
			at += ns + 500 + (int64_t)(random_part() * 1000);
		}
	}
	sample(at);
}

/* The mean of kernels of shape 0 with the error that reports give it: errors of a position's
 * kernels add up, and the squares of different positions' errors. */
static double mean_of_first_shape(double *ret_error)
{
	uint32_t positions = attribution_counts(world->attribution)->positions;
	double *errors = calloc(positions, sizeof(*errors)), sum = 0, squares = 0, kernels = 0;

	assert_non_null(errors);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		if (k->k.shape == 0 && k->state == ATTRIBUTION_MEASURED) {
			assert_true(k->position < positions);
			sum += k->value.value;
			errors[k->position] += k->value.error;
			kernels++;
		}
	}
	for (uint32_t i = 0; i < positions; i++) {
		squares += errors[i] * errors[i];
	}
	free(errors);
	assert_true(kernels > 190);
	*ret_error = sqrt(squares) / kernels;
	return sum / kernels;
}

TEST(test_captures_of_one_program_differ_by_their_errors)
{
	enum { CAPTURES = 16 };
	static void (*const make[])(void) = { new_graphs_of_short_kernels, steps_that_drift };

	for (size_t row = 0; row < sizeof(make) / sizeof(make[0]); row++) {
		double values[CAPTURES], mean = 0, apart = 0, told = 0, error;

		for (uint64_t i = 0; i < CAPTURES; i++) {
			begin(600 + i);
			make[row]();
			attribute(0);
			values[i] = mean_of_first_shape(&error);
			mean += values[i] / CAPTURES;
			told += error * error / CAPTURES;
			end();
		}
		for (uint64_t i = 0; i < CAPTURES; i++) {
			apart += (values[i] - mean) * (values[i] - mean) / (CAPTURES - 1);
		}
		printf("captures of one program: apart by %.2f%%, errors %.2f%%\n",
		       100 * sqrt(apart) / mean, 100 * sqrt(told) / mean);
		assert_true(told > 0.6 * 0.6 * apart);
		assert_true(told < 2 * 2 * apart);
	}
}

/* Where samples leave nothing unexplained, errors are what docs/internals/attribution.md has for
 * beginnings and ends: the clocks are not known to 100 ns, and a kernel beside another one may have
 * more or less of it by what it does in 2 % of a sample, or in 1 % of a long one. */
TEST(test_errors_that_are_left)
{
	static const int64_t sample_ns[] = { SAMPLE_NS, 40 * SAMPLE_NS };
	static const double ramp_ns[] = { 200, 4000 };

	for (size_t row = 0; row < 4; row++) {
		bool alone = row / 2;
		int64_t at = MS, gap = alone ? 10000 : 1;

		begin(93);
		world->noise = 0;
		world->sample_ns = sample_ns[row % 2];
		for (uint32_t i = 0; i < 6000; i++) {
			int64_t ns = (int64_t)((i % 3 + 1) * 100000 * (0.9 + 0.2 * random_part()));

			add(1, i % 3, at, at + ns, 1e8 * (1 + i % 3 * 2));
			at += ns + gap;
		}
		sample(at + MS);
		attribute(0);
		for (uint32_t i = 10; i < world->count - 10; i++) {
			const struct made_kernel *k = &world->kernels[i];
			double rate = k->truth / (double)(k->k.end_ns - k->k.start_ns);
			double least = rate * (alone ? 100 / sqrt(2) : ramp_ns[row % 2]);

			assert_int_equal(k->state, ATTRIBUTION_MEASURED);
			if (!(k->value.error >= 0.85 * least)) {
				fail_msg("%g, not %g", k->value.error, least);
			}
		}
		end();
	}
}

TEST(test_one_kernel_and_none)
{
	begin(101);
	sample(MS);
	attribute(0);
	end();

	begin(102);
	add(1, 1, MS, 2 * MS, 1e9);
	sample(3 * MS);
	attribute(0);
	expect("one kernel", 1, 1, 0.01, 0.01);
	end();

	begin(103);
	add(1, 1, MS, 2 * MS, 1e9);
	attribute(0);
	assert_int_equal(world->kernels[0].state, ATTRIBUTION_LOST);
	end();
}

/* Anything may come: it is counted, each kernel is told of once, and nothing is invented. */
TEST(test_hostile_input)
{
	static const int64_t times[] = { INT64_MIN, INT64_MIN + 1, -1,	     0, 1,
					 5 * MS,    INT64_MAX - 1, INT64_MAX };
	const double values[] = { NAN, INFINITY, -1, 1e300, 0, 1e9 };

	for (uint64_t round = 0; round < 8; round++) {
		begin(200 + round);
		open_attribution(4000);
		for (uint32_t i = 0; i < 30000; i++) {
			int64_t start = random_part() < 0.05 ? times[(int)(random_part() * 8)]
							     : (int64_t)(random_part() * 2e8);
			int64_t end_ns =
				random_part() < 0.05
					? times[(int)(random_part() * 8)]
					: (int64_t)((double)start + random_part() * 1e5 - 1e3);
			double value = random_part() < 0.1 ? values[(int)(random_part() * 6)] : 1e6;

			if (random_part() < 0.3) {
				add((uint64_t)(random_part() * (double)(1 << 2 * round)),
				    (uint32_t)(random_part() * 5), start, end_ns, 0);
				attribution_kernel(world->attribution,
						   &world->kernels[world->count - 1].k);
			} else {
				attribution_sample(world->attribution, start,
						   random_part() < 0.5 && start < MS * 1000
							   ? start + 10000
							   : end_ns,
						   &value);
			}
			if (random_part() < 0.001) {
				attribution_lost(world->attribution, start, end_ns);
			}
		}
		finish();
		assert_true(attribution_counts(world->attribution)->bad_samples > 0);
		assert_true(attribution_counts(world->attribution)->bad_kernels > 0);
		end();
	}
}

/* Ten thousand at once for the whole time: refused in bounded time. */
TEST(test_crowds)
{
	uint32_t crowded = 0;

	begin(301);
	for (uint32_t i = 0; i < 10000; i++) {
		add(i, i, MS + i, 100 * MS, 0);
	}
	sample(101 * MS);
	attribute(0);
	for (uint32_t i = 0; i < world->count; i++) {
		assert_true(world->kernels[i].state != ATTRIBUTION_MEASURED);
		crowded += world->kernels[i].state == ATTRIBUTION_CROWDED;
	}
	assert_true(crowded > 0);
	end();
}

/* Not only the first 64, whose shares were looked at. */
TEST(test_each_of_a_crowd_is_told)
{
	begin(303);
	for (uint32_t i = 0; i < 500; i++) {
		add(i, i, MS + i, 2 * MS, 1e6);
	}
	sample(3 * MS);
	attribute(0);
	for (uint32_t i = 0; i < world->count; i++) {
		assert_int_equal(world->kernels[i].state, ATTRIBUTION_CROWDED);
	}
	end();
}

/* Those there was no room for go on when the others have ended: what runs beside them has no value
 * either. */
TEST(test_the_rest_of_a_crowd)
{
	begin(302);
	for (uint32_t i = 0; i < 1100; i++) {
		add(i, i, MS + i, i < 1024 ? 2 * MS : 30 * MS, i < 1024 ? 0 : 1e9);
	}
	for (int64_t at = 5 * MS; at < 25 * MS; at += 51000) {
		add(5000, 1, at, at + 50000, 1e6);
	}
	sample(31 * MS);
	attribute(0);
	for (uint32_t i = 0; i < world->count; i++) {
		assert_true(world->kernels[i].state != ATTRIBUTION_MEASURED);
	}
	end();
}

/* --- positions that cannot be solved --------------------------------------------------------- */

enum { NODES = 14000, ROUNDS = 3, NODES_A_LOCAL = 100 };

static void shuffle(uint32_t *order, uint32_t n)
{
	for (uint32_t i = n; i-- > 1;) {
		uint32_t other = (uint32_t)(random_part() * (i + 1)), had = order[i];

		order[i] = order[other];
		order[other] = had;
	}
}

/* One that comes once, of a tenth of the others' rate; gap: before and behind it. */
static int64_t add_local(int64_t at, int64_t gap)
{
	int64_t start = at + gap, end = start + 35000;

	add(2, world->count, start, end, 35000 * 10);
	return end + gap;
}

/* Nodes of graphs in an order that is another each time: everyone depends on everyone. Between them
 * kernels without a position, every other one beside nodes, the others alone. */
static int64_t add_tangle(void)
{
	static uint32_t order[NODES];
	static double bytes[NODES];
	int64_t at = MS;

	for (uint32_t i = 0; i < NODES; i++) {
		order[i] = i;
		bytes[i] = (20000 + i % 20000) * 200 * random_part();
	}
	for (uint32_t i = 0; i < ROUNDS * NODES; i++) {
		uint32_t node = order[i % NODES];

		if (i % NODES == 0) {
			shuffle(order, NODES);
			node = order[0];
		}
		add(1, node, at, at + 20000 + node % 20000, bytes[node]);
		world->kernels[world->count - 1].k.place = 1 + node;
		at = world->kernels[world->count - 1].k.end_ns + 200;
		if (i % NODES_A_LOCAL == 0) {
			at = add_local(at, i % (2 * NODES_A_LOCAL) == 0 ? 0 : 40000);
		}
	}
	return at;
}

/* Those alone have their values, and those beside have nothing of what the nodes did. */
TEST(test_what_is_not_solved_is_not_given_to_others)
{
	uint32_t alone = 0, beside = 0;

	begin(91);
	sample(add_tangle());
	attribute(0);
	for (uint32_t i = 0; i < world->count; i++) {
		const struct made_kernel *k = &world->kernels[i];

		if (k->k.place != 0) {
			assert_true(k->state == ATTRIBUTION_CROWDED ||
				    k->state == ATTRIBUTION_LOST);
		} else if (k->state == ATTRIBUTION_MEASURED) {
			alone++;
			assert_true(fabs(k->value.value / k->truth - 1) < 0.02);
		} else {
			beside++;
			assert_int_equal(k->state, ATTRIBUTION_LOST);
		}
	}
	printf("of kernels without a position %u alone have values, %u beside others none\n", alone,
	       beside);
	assert_int_equal(alone, ROUNDS * NODES / NODES_A_LOCAL / 2);
	assert_int_equal(beside, ROUNDS * NODES / NODES_A_LOCAL / 2);
	end();
}
