/* SPDX-License-Identifier: Apache-2.0 */

/* What of a record says which kernels are alike, on which GPU and when they ran: made programs in
 * which kernels that a careless look takes for the same do different work, and others of which
 * nobody knows when they ran. */

#include "tests/unit/unit.h"

#include <math.h>

#include "client/cli/sampled.h"
#include "tests/unit/one_metric.h"

enum {
	US = 1000,
	MS = 1000 * US,
	SAMPLE_NS = 10 * US,
	KERNELS_MOST = 8000,
	SAMPLES_MOST = 200000,
	GPUS = 2,
};
#define BEGIN INT64_C(1700000000000000000)
#define BYTES 1e6

static const struct gpuctr_device devices[GPUS] = { { .index = 0, .uuid = "GPU-0" },
						    { .index = 1, .uuid = "GPU-1" } };
static const struct gpuctr_kernel name = { .name = "a", .mangled = "a" };

static struct made {
	struct gpuctr_record record;
	double bytes, value, error;
	unsigned alike;
	const char *why;
} kernels[KERNELS_MOST];
static size_t n_kernels;
static double samples[GPUS][SAMPLES_MOST];
static int64_t at_ns; /* of the next kernel */
static uint64_t seed;
static struct sampled *sampled;

static int setup(void **state)
{
	(void)state;
	n_kernels = 0;
	memset(samples, 0, sizeof(samples));
	at_ns = BEGIN + MS;
	seed = 88172645463325252u;
	sampled = sampled_new(&plan, NULL);
	assert_non_null(sampled);
	for (unsigned i = 0; i < GPUS; i++) {
		assert_int_equal(sampled_add_gpu(sampled, devices[i].uuid), (int)i);
	}
	for (unsigned i = 1; i <= 2; i++) {
		sampled_process(sampled, &(struct gpuctr_process){ .process = i,
								   .devices = devices,
								   .n_devices = GPUS });
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sampled_free(sampled);
	return 0;
}

/* What was moved in this time, evenly. */
static void move(unsigned gpu, int64_t start_ns, int64_t end_ns, double bytes)
{
	for (int64_t i = (start_ns - BEGIN) / SAMPLE_NS; i * SAMPLE_NS < end_ns - BEGIN; i++) {
		int64_t from = BEGIN + i * SAMPLE_NS, to = from + SAMPLE_NS;

		from = from > start_ns ? from : start_ns;
		to = to < end_ns ? to : end_ns;
		samples[gpu][i] += bytes * (double)(to - from) / (double)(end_ns - start_ns);
	}
}

/* The next kernel, of 50 us if nothing else is said; its record is given at once. */
static struct made *add(struct gpuctr_record r, double bytes)
{
	struct made *k = &kernels[n_kernels];

	assert_true(n_kernels < KERNELS_MOST);
	r.index = n_kernels++;
	r.process = r.process ? r.process : 1;
	r.kernel = &name;
	r.start_ns = r.start_ns ? r.start_ns : at_ns;
	r.duration_ns = r.duration_ns ? r.duration_ns : 50 * US;
	*k = (struct made){ .record = r, .bytes = bytes, .value = NAN };
	move(r.device, r.start_ns, r.start_ns + (int64_t)r.duration_ns, bytes);
	at_ns = r.start_ns + (int64_t)r.duration_ns + US;
	return k;
}

static struct gpuctr_record kernel_of(unsigned stream, unsigned grid)
{
	return (struct gpuctr_record){ .stream = stream,
				       .grid = { grid, 1, 1 },
				       .block = { 128, 1, 1 },
				       .clock = GPUCTR_CLOCK_GPU };
}

static size_t n_samples(void)
{
	return (size_t)(at_ns - BEGIN) / SAMPLE_NS;
}

static void give_records(void)
{
	for (size_t i = 0; i < n_kernels; i++) {
		sampled_record(sampled, &kernels[i].record, 0);
	}
}

static void give_samples(void)
{
	size_t n = n_samples();

	assert_true(n < SAMPLES_MOST);
	for (size_t i = 0; i < n; i++) {
		int64_t start_ns = BEGIN + (int64_t)i * SAMPLE_NS;

		for (int gpu = 0; gpu < GPUS; gpu++) {
			sampled_sample(sampled, gpu, start_ns, start_ns + SAMPLE_NS,
				       &samples[gpu][i]);
		}
	}
}

static void take(void)
{
	sampled_finish(sampled);
	for (size_t i = 0; i < n_kernels; i++) {
		struct made *k = &kernels[i];

		k->why = sampled_apply(sampled, i, &k->record);
		k->value = k->record.values[0];
		k->error = k->record.errors[0];
		k->alike = k->record.alike;
	}
}

static void finish(void)
{
	give_records();
	give_samples();
	take();
}

static bool is_right(const struct made *k)
{
	return fabs(k->value / k->bytes - 1) < 0.02;
}

/* Of those that ran in this time. */
static size_t count_known(int64_t from_ns, int64_t to_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < n_kernels; i++) {
		const struct gpuctr_record *r = &kernels[i].record;

		n += !isnan(kernels[i].value) && r->start_ns < to_ns &&
		     r->start_ns + (int64_t)r->duration_ns > from_ns;
	}
	return n;
}

static void expect_right(void)
{
	for (size_t i = 0; i < n_kernels; i++) {
		const struct made *k = &kernels[i];

		if (!is_right(k)) {
			fail_msg("kernel %zu: %.0f, not %.0f", i, k->value, k->bytes);
		}
	}
}

/* --- which are alike ------------------------------------------------------------------------- */

/* One of two, at random, of which the second has five times as many bytes. */
static bool second(void)
{
	return unit_random(&seed) >> 33 & 1;
}

#define RECORDS_TEST(f) TEST_WITH(f, setup, teardown)

RECORDS_TEST(grids_and_blocks_tell_kernels_apart)
{
	for (unsigned i = 0; i < 1000; i++) {
		struct gpuctr_record r = kernel_of(7, 10);
		bool large = second();

		r.grid[1] = large && i < 500 ? 5 : 1;
		r.block[2] = large && i >= 500 ? 5 : 1;
		add(r, BYTES * (large ? 5 : 1));
	}
	finish();
	expect_right();
}

/* Contexts number their streams alike, and so do processes. What each runs recurs by itself. */
RECORDS_TEST(streams_are_of_a_context_of_a_process)
{
	unsigned next[3] = { 0 };
	size_t n = 0;

	for (unsigned i = 0; i < 3000; i++) {
		unsigned which = (unsigned)(unit_random(&seed) >> 33) % 3;
		struct gpuctr_record r = kernel_of(7, 1 + next[which]++ % 9);

		r.context = which == 1;
		r.process = which == 2 ? 2 : 1;
		add(r, BYTES * (1 + r.grid[0]) * (1 + which));
	}
	finish();
	for (size_t i = 0; i < n_kernels; i++) {
		n += kernels[i].alike > 0 && is_right(&kernels[i]);
	}
	print_message("%zu of %zu have a position\n", n, n_kernels);
	assert_true(n > n_kernels * 95 / 100);
}

/* A node is one of its graph, and another one when its kernel has been changed. */
RECORDS_TEST(nodes_are_of_their_graph_and_shape)
{
	for (unsigned i = 0; i < 900; i++) {
		bool large = second();
		struct gpuctr_record r = kernel_of(7, i / 300 == 1 && large ? 5 : 1);

		r.kind = GPUCTR_LAUNCH_GRAPH_KERNEL;
		r.graph = i / 300 == 0 && large ? 2 : 1;
		r.graph_node = 3 + i / 300 + (i / 300 == 2 && large ? 5 : 0);
		add(r, BYTES * (large ? 5 : 1));
	}
	finish();
	expect_right();
}

/* Ranks of one program number their graphs, nodes and contexts alike, and so do contexts. */
RECORDS_TEST(nodes_are_of_their_process_and_context)
{
	unsigned alike[2][2] = { 0 };

	for (unsigned i = 0; i < 900; i++) {
		unsigned large = second();
		struct gpuctr_record r = kernel_of(7, 1);

		r.kind = GPUCTR_LAUNCH_GRAPH_KERNEL;
		r.graph = 1;
		r.graph_node = 3;
		r.process = 1 + (i < 450 ? large : 0);
		r.context = i < 450 ? 0 : large;
		add(r, BYTES * (large ? 5 : 1));
	}
	finish();
	expect_right();
	for (size_t i = 0; i < n_kernels; i++) {
		const struct gpuctr_record *r = &kernels[i].record;
		unsigned *of = &alike[r->process - 1][r->context];

		assert_true(kernels[i].alike > 0 && (*of == 0 || *of == kernels[i].alike));
		*of = kernels[i].alike;
	}
	assert_true(alike[0][0] != alike[1][0] && alike[0][0] != alike[0][1] &&
		    alike[1][0] != alike[0][1]);
}

/* Of two GPUs, whatever one program runs on both. */
RECORDS_TEST(what_is_alike_is_on_one_gpu)
{
	unsigned alike[GPUS] = { 0 };

	for (unsigned i = 0; i < 400; i++) {
		struct gpuctr_record r = kernel_of(7 + i % 2, 1);

		r.device = i % 2;
		r.context = i % 2;
		add(r, BYTES * (1 + 4 * r.device));
	}
	finish();
	expect_right();
	for (size_t i = 0; i < n_kernels; i++) {
		unsigned *of = &alike[kernels[i].record.device];

		assert_true(kernels[i].alike > 0 && (*of == 0 || *of == kernels[i].alike));
		*of = kernels[i].alike;
	}
	assert_true(alike[0] != alike[1]);
}

/* --- when they ran --------------------------------------------------------------------------- */

/* Of 45 to 55 us: where all take the same time no one knows by how many kernels clocks differ. */
static void add_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct gpuctr_record r = kernel_of(7, 1 + i % 5);

		r.duration_ns = 45 * US + unit_random(&seed) % (10 * US);
		add(r, BYTES * (1 + i % 5));
	}
}

/* One without a time ran at any time between those before and behind it in its stream; others are
 * not given what it did. The first one of a stream ran when it was launched, or later, and the last
 * one, up to the end. */
RECORDS_TEST(beside_kernels_without_a_time_nothing_is_known)
{
	int64_t from[3], to[3];

	add_many(200);
	for (unsigned i = 0; i < 3; i++) {
		struct gpuctr_record timeless = kernel_of(8 + i % 2, 9);

		timeless.clock = GPUCTR_CLOCK_NONE;
		from[i] = at_ns;
		if (i != 1) {
			add(kernel_of(8 + i % 2, 9), 3 * BYTES);
		}
		add_many(10);
		timeless.start_ns = i == 1 ? from[i] : 0;
		timeless.duration_ns = 0;
		add(timeless, 0)->record.duration_ns = 0;
		move(0, at_ns - 20 * US, at_ns + 200 * US, 50 * BYTES);
		add_many(10);
		if (i < 2) {
			add(kernel_of(8 + i % 2, 9), 3 * BYTES);
		}
		to[i] = at_ns;
		add_many(200);
	}
	finish();
	for (unsigned i = 0; i < 3; i++) {
		int64_t inside = i == 1 ? 0 : 60 * US; /* the one before it has a time */

		assert_int_equal(count_known(from[i] + inside, (i < 2 ? to[i] : at_ns) - 60 * US),
				 0);
		assert_int_equal(count_known(from[i] - 5 * MS, from[i] - 60 * US) > 80, true);
	}
	assert_true(count_known(to[0] + 60 * US, from[1] - 60 * US) > 190);
	assert_true(count_known(to[1] + 60 * US, from[2] - 60 * US) > 190);
	assert_int_equal(sampled_counts(sampled)->without[SAMPLED_NO_TIME], 3);
	for (size_t i = 0; i < n_kernels; i++) {
		assert_true(isnan(kernels[i].value) || is_right(&kernels[i]));
	}
}

/* Where the agent has lost copies or kernels, and knows when. */
RECORDS_TEST(beside_what_an_agent_has_lost_nothing_is_known)
{
	struct gpuctr_copy lost = { .process = 1, .kind = GPUCTR_COPY_LOST };

	add_many(200);
	lost.start_ns = at_ns;
	add_many(20);
	for (size_t i = 200; i < n_kernels; i++) {
		kernels[i].record.alike = 7; /* of the file that it is from */
	}
	lost.duration_ns = at_ns - lost.start_ns;
	add_many(200);
	sampled_copy(sampled, &lost);
	finish();
	assert_int_equal(count_known(lost.start_ns, lost.start_ns + lost.duration_ns - US), 0);
	assert_true(count_known(0, INT64_MAX) > 390);
	for (size_t i = 200; i < 220; i++) {
		assert_true(!isnan(kernels[i].value) || kernels[i].alike == 0);
	}
}

/* What nobody knows of other times than kernels' (test_unseen.c has when that is). */
RECORDS_TEST(where_nobody_knows_what_ran_nothing_is_known)
{
	int64_t from_ns, to_ns;

	add_many(200);
	from_ns = at_ns;
	add_many(20);
	to_ns = at_ns;
	add_many(200);
	sampled_unknown(sampled, 0, from_ns, to_ns);
	sampled_unknown(sampled, 1, 0, INT64_MAX);
	finish();
	assert_int_equal(count_known(from_ns, to_ns - US), 0);
	assert_true(count_known(0, INT64_MAX) > 390);
}

RECORDS_TEST(what_was_discarded_is_nobodys)
{
	add_many(100);
	sampled_unknown(sampled, -1, BEGIN + 3 * MS, INT64_MAX);
	finish();
	assert_int_equal(count_known(BEGIN + 3 * MS, INT64_MAX), 0);
	assert_true(count_known(0, BEGIN + 3 * MS) > 20);
}

/* --- what is told ---------------------------------------------------------------------------- */

/* Kernels of 300 ns beside ones of 50 us are too short to tell one by one. */
RECORDS_TEST(what_is_too_short_is_told_with_its_part)
{
	const struct sampled_counts *c = sampled_counts(sampled);
	char wanted[100];
	struct buf b = { 0 };

	for (unsigned i = 0; i < 1000; i++) {
		struct gpuctr_record r = kernel_of(7, 3);

		r.duration_ns = i % 2 ? 50 * US : 300;
		r.grid[0] += i % 2;
		add(r, i % 2 ? BYTES : BYTES / 400);
	}
	finish();
	sampled_describe(sampled, &b);
	print_message("%s\n", buf_string(&b));
	assert_true(c->without[SAMPLED_TOO_SHORT] > 0 && c->too_short_sum > 0);
	snprintf(wanted, sizeof(wanted),
		 "too short to tell %llu (with %.2g %% of the first metric)",
		 (unsigned long long)c->without[SAMPLED_TOO_SHORT],
		 100 * c->too_short_sum / (500 * (BYTES + BYTES / 400)));
	assert_non_null(strstr(buf_string(&b), wanted));
	buf_deinit(&b);
}

/* Next to all of it, in words for people. */
RECORDS_TEST(what_is_too_short_may_be_all)
{
	const struct sampled_counts *c = sampled_counts(sampled);
	CLEAN_BUF struct buf b = { 0 };

	for (unsigned i = 0; i < 1000; i++) {
		struct gpuctr_record r = kernel_of(7, 3);

		r.duration_ns = i % 2 ? 50 * US : 300;
		r.grid[0] += i % 2;
		add(r, i % 2 ? BYTES / 100000 : BYTES);
	}
	finish();
	sampled_describe(sampled, &b);
	assert_true(c->sum > 0 && c->too_short_sum > 0.996 * c->sum);
	assert_non_null(strstr(buf_string(&b), " (with 100 % of the first metric)"));
}

/* Values that are none, and samples of a time that others were of. */
RECORDS_TEST(samples_that_are_left_out_are_told)
{
	static const double wrong[] = { NAN, -1, INFINITY };
	struct buf b = { 0 };
	double value = 0;

	add_many(1000);
	at_ns += MS; /* in which nothing runs */
	give_records();
	give_samples();
	for (unsigned i = 0; i < 3; i++) {
		sampled_sample(sampled, 0, at_ns + i * US, at_ns + (i + 1) * US, &wrong[i]);
	}
	sampled_sample(sampled, 0, at_ns - 30 * US, at_ns - 20 * US, &value);
	take();
	sampled_describe(sampled, &b);
	assert_string_equal(buf_string(&b), "0 of 1,000 kernels have no value; samples left out 4");
	assert_int_equal(sampled_counts(sampled)->samples, 4 + GPUS * n_samples());
	buf_deinit(&b);
}

/* Each sample comes once, and none is of no use. */
RECORDS_TEST(where_nothing_is_left_out_nothing_is_told)
{
	struct buf b = { 0 };

	add_many(1000);
	at_ns += MS; /* in which nothing runs */
	finish();
	sampled_describe(sampled, &b);
	assert_string_equal(buf_string(&b), "0 of 1,000 kernels have no value");
	buf_deinit(&b);
}

/* Of a file: ends for which int64_t is too small, and what is no time. */
RECORDS_TEST(times_that_cannot_be_are_none)
{
	static const int64_t wild[][2] = { { INT64_MAX, INT64_MAX },
					   { INT64_C(1) << 62, 1 },
					   { 1, INT64_MAX },
					   { INT64_MIN, 5 },
					   { 1000, -7 } };
	enum { WILD = sizeof(wild) / sizeof(wild[0]) };
	struct gpuctr_record r = kernel_of(7, 1);

	r.process = 1;
	r.kernel = &name;
	for (size_t i = 0; i < WILD; i++) {
		r.index = i;
		r.start_ns = wild[i][0];
		r.duration_ns = wild[i][1];
		kernels[n_kernels++].record = r;
	}
	give_records();
	take();
	assert_int_equal(sampled_counts(sampled)->without[SAMPLED_NO_TIME], WILD);
}
