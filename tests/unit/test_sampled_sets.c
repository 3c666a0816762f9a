/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics that the hardware cannot count together are sampled in turns. A simulated program whose
 * kernels differ from step to step: what each is told, against what it did, within what errors. */

#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "client/cli/sampled.h"
#include "client/cli/text.h"
#include "client/sampler/sets.h"

enum { SETS = 3, METRICS = 4, POSITIONS = 12, STEPS = 1500, KERNELS = POSITIONS * STEPS + 2 };

#define BEGIN_NS INT64_C(1795163892970808035)
#define GAP_NS 2000
#define TURN_NS INT64_C(40000000)
#define CHANGE_NS INT64_C(3000000)

static const char *const metrics[METRICS] = { "a.sum", "b.sum", "c.sum", "d.sum" };
static const uint8_t sets[METRICS] = { 0, 1, 0, 2 };
static const int64_t intervals_ns[SETS] = { 10000, 10000, 50000 };
static const struct gpuctr_column columns[METRICS + 1] = {
	{ "a", "byte", 0 }, { "b", "byte", 0 },	  { "c", "byte", 0 },
	{ "d", "byte", 0 }, { "a+d", "byte", 0 },
};
static const struct gpuctr_term terms[] = { { 0, 0, 1 }, { 1, 1, 1 }, { 2, 2, 1 },
					    { 3, 3, 1 }, { 4, 0, 1 }, { 4, 3, 1 } };
static const struct gpuctr_plan plan = { .chip = "GH100",
					 .passes = 3,
					 .groups = 3,
					 .columns = columns,
					 .n_columns = METRICS + 1,
					 .metrics = metrics,
					 .n_metrics = METRICS,
					 .terms = terms,
					 .n_terms = ARRAY_SIZE(terms) };
static const struct gpuctr_device device = { .index = 0, .uuid = "GPU-0" };
static const struct gpuctr_process process = {
	.process = 1, .program = "net.py", .devices = &device, .n_devices = 1
};

static struct kernel {
	struct gpuctr_record record;
	double did[METRICS], told[METRICS + 1], errors[METRICS + 1];
	unsigned alike;
	const char *why;
	bool seen[SETS]; /* from its begin to its end */
} kernels[KERNELS];
static struct gpuctr_kernel names[POSITIONS + 2];
static char texts[POSITIONS + 2][8];
static size_t n_kernels;
static uint64_t seed;

static double uniform(void)
{
	return (double)(unit_random(&seed) >> 11) / 9007199254740992.0;
}

/* Of two kernels one is large; a tenth apart from step to step in one metric, and less in others.
 */
static void add_kernel(unsigned shape, int64_t *at_ns)
{
	int64_t length = (12 + 9 * (int64_t)(shape % POSITIONS)) * 1000;
	struct kernel *k = &kernels[n_kernels];

	*k = (struct kernel){ 0 };
	k->record = (struct gpuctr_record){ .process = 1,
					    .index = n_kernels++,
					    .kernel = &names[shape],
					    .stream = 7,
					    .start_ns = *at_ns,
					    .duration_ns = length,
					    .clock = GPUCTR_CLOCK_GPU };
	for (unsigned m = 0; m < METRICS; m++) {
		double rate = 1 + (shape * 7 + m * 5) % 11;

		k->did[m] = rate * (double)length * (1 + (m == 1 ? 0.1 : 0.02) * (uniform() - 0.5));
	}
	*at_ns += length + GAP_NS;
}

/* In the middle of each of the two halves a kernel that is like no other. */
static int64_t make_program(void)
{
	int64_t at_ns = BEGIN_NS + 100000;

	n_kernels = 0;
	for (unsigned i = 0; i < POSITIONS + 2; i++) {
		snprintf(texts[i], sizeof(texts[i]), "k%u", i);
		names[i] = (struct gpuctr_kernel){ .name = texts[i], .mangled = texts[i] };
	}
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned p = 0; p < POSITIONS; p++) {
			add_kernel(p, &at_ns);
		}
		if (step == STEPS / 4 || step == 3 * STEPS / 4) {
			add_kernel(POSITIONS + (step > STEPS / 2), &at_ns);
		}
	}
	return at_ns;
}

/* What all did in this time; kernels before *first are over. */
static void look(int64_t start_ns, int64_t end_ns, size_t *first, double values[METRICS])
{
	memset(values, 0, METRICS * sizeof(*values));
	for (size_t i = *first; i < n_kernels; i++) {
		const struct gpuctr_record *r = &kernels[i].record;
		int64_t over_ns = r->start_ns + r->duration_ns;
		int64_t from = r->start_ns > start_ns ? r->start_ns : start_ns;
		int64_t to = over_ns < end_ns ? over_ns : end_ns;

		*first += i == *first && over_ns <= start_ns;
		if (r->start_ns >= end_ns) {
			return;
		}
		for (unsigned m = 0; to > from && m < METRICS; m++) {
			values[m] +=
				kernels[i].did[m] * (double)(to - from) / (double)r->duration_ns;
		}
	}
}

static void sample_turn(struct sampled *s, size_t set, int64_t *at_ns, int64_t until_ns,
			size_t *first)
{
	while (*at_ns < until_ns) {
		int64_t end_ns = *at_ns + intervals_ns[set];
		double values[METRICS];

		look(*at_ns, end_ns, first, values);
		for (unsigned m = 0; m < METRICS; m++) {
			values[m] = sets[m] == set ? values[m] : NAN;
		}
		sampled_sample(s, 0, *at_ns, end_ns, values);
		*at_ns = end_ns;
	}
}

static void note_turn(size_t set, int64_t start_ns, int64_t end_ns)
{
	for (size_t i = 0; i < n_kernels; i++) {
		const struct gpuctr_record *r = &kernels[i].record;

		kernels[i].seen[set] |=
			r->start_ns >= start_ns && r->start_ns + r->duration_ns <= end_ns;
	}
}

static void take(struct sampled *s)
{
	for (size_t i = 0; i < n_kernels; i++) {
		struct kernel *k = &kernels[i];
		struct gpuctr_record r = k->record;

		k->why = sampled_apply(s, i, &r);
		memcpy(k->told, r.values, sizeof(k->told));
		memcpy(k->errors, r.errors, sizeof(k->errors));
		k->alike = r.alike;
	}
}

static struct sampled *attribute(size_t turns_most)
{
	int64_t end_ns = make_program(), at_ns = BEGIN_NS;
	struct sampled *s = sampled_new(&plan, sets);
	size_t first = 0;

	assert_non_null(s);
	assert_int_equal(sampled_add_gpu(s, "GPU-0"), 0);
	sampled_process(s, &process);
	for (size_t i = 0; i < n_kernels; i++) {
		sampled_record(s, &kernels[i].record, 0);
	}
	for (size_t turn = 0; at_ns < end_ns && turn < turns_most; turn++) {
		int64_t until_ns = at_ns + TURN_NS / 2 + (int64_t)(uniform() * TURN_NS);

		int64_t begin_ns = at_ns;

		sample_turn(s, turn % SETS, &at_ns, until_ns < end_ns ? until_ns : end_ns, &first);
		note_turn(turn % SETS, begin_ns, at_ns);
		at_ns += CHANGE_NS;
	}
	sampled_finish(s);
	take(s);
	return s;
}

/* What a kernel's value should be within its errors: one that was not seen its own, and one that
 * was that of its position, as where all are seen. */
static double truth_of(const struct kernel *k, unsigned m, const double *means)
{
	return k->seen[sets[m]] ? means[k->record.kernel - names] : k->did[m];
}

static void find_means(unsigned m, double means[POSITIONS + 2])
{
	unsigned n[POSITIONS + 2] = { 0 };

	memset(means, 0, (POSITIONS + 2) * sizeof(*means));
	for (size_t i = 0; i < n_kernels; i++) {
		size_t shape = (size_t)(kernels[i].record.kernel - names);

		means[shape] += (kernels[i].did[m] - means[shape]) / ++n[shape];
	}
}

TEST(kernels_have_values_from_every_set)
{
	double means[POSITIONS + 2];
	struct sampled *s;

	seed = 88172645463325252u;
	s = attribute(SIZE_MAX);
	for (unsigned m = 0; m < METRICS; m++) {
		size_t known = 0, within = 0;
		double told = 0, did = 0, largest = 0;

		find_means(m, means);
		for (size_t i = 0; i < n_kernels; i++) {
			const struct kernel *k = &kernels[i];

			if (!isnan(k->told[m])) {
				known++;
				within += fabs(k->told[m] - truth_of(k, m, means)) <=
					  3 * k->errors[m];
				told += k->told[m];
				did += k->did[m];
				largest = fmax(largest, k->errors[m] / k->told[m]);
			}
		}
		printf("%s: %zu of %zu known, %zu within three errors, total %+.3f %%, largest "
		       "error %.1f %%\n",
		       metrics[m], known, n_kernels, within, 100 * (told / did - 1), 100 * largest);
		assert_true(known >= n_kernels * 98 / 100);
		assert_true(within >= known * 98 / 100);
		assert_true(fabs(told / did - 1) < 0.003);
		assert_true(largest < 0.2);
	}
	sampled_free(s);
}

/* One position a kernel, whatever set tells of it; a column is of metrics from two sets. */
TEST(what_sets_say_is_of_one_kernel)
{
	struct sampled *s;
	size_t sums = 0;

	seed = 88172645463325252u;
	s = attribute(SIZE_MAX);
	for (size_t i = 0; i < n_kernels; i++) {
		const struct kernel *k = &kernels[i];

		if (!isnan(k->told[METRICS])) {
			sums++;
			assert_true(fabs(k->told[METRICS] - k->told[0] - k->told[3]) <=
				    1e-9 * k->told[METRICS]);
			assert_true(fabs(k->errors[METRICS] - hypot(k->errors[0], k->errors[3])) <=
				    1e-9 * k->errors[METRICS]);
		}
	}
	assert_true(sums >= n_kernels * 98 / 100);
	for (size_t i = POSITIONS; i < POSITIONS * (STEPS / 4); i++) {
		assert_true(kernels[i].alike != 0);
		assert_int_equal(kernels[i].alike, kernels[i - POSITIONS].alike);
	}
	sampled_free(s);
}

/* A kernel that comes once has a value of the set that saw it, and of no other. */
TEST(what_ran_in_anothers_turn_alone_is_not_told)
{
	struct sampled *s;
	size_t seen = 0, unseen = 0;

	seed = 88172645463325252u;
	s = attribute(SIZE_MAX);
	for (size_t i = 0; i < n_kernels; i++) {
		const struct kernel *k = &kernels[i];

		if (k->record.kernel >= &names[POSITIONS]) {
			for (unsigned m = 0; m < METRICS; m++) {
				seen += !isnan(k->told[m]);
				unseen += isnan(k->told[m]);
			}
			assert_non_null(k->why);
		}
	}
	assert_true(seen <= 4 && unseen >= 4);
	assert_true(sampled_counts(s)->without[SAMPLED_AWAY] >= 1);
	sampled_free(s);
}

/* The second set has no turn: its metric has no value, the first one's have. */
TEST(a_set_without_a_turn_has_no_values)
{
	struct sampled *s;
	size_t known[METRICS] = { 0 };
	CLEAN_BUF struct buf told = { 0 }, wanted = { 0 };

	seed = 88172645463325252u;
	s = attribute(1);
	for (size_t i = 0; i < n_kernels; i++) {
		for (unsigned m = 0; m < METRICS; m++) {
			known[m] += !isnan(kernels[i].told[m]);
		}
	}
	assert_true(known[0] > 100 && known[0] == known[2]);
	assert_int_equal(known[1] + known[3], 0);
	sampled_describe(s, &told);
	text_count(&wanted, n_kernels);
	buf_text(&wanted, " of ");
	text_count(&wanted, n_kernels);
	buf_text(&wanted, " kernels lack a value of some metric (without any: ");
	text_count(&wanted, n_kernels - known[0]);
	buf_text(&wanted, "): ");
	assert_memory_equal(buf_string(&told), buf_string(&wanted), wanted.n);
	sampled_free(s);
}

/* --- which metrics were sampled together ----------------------------------------------------- */

TEST(sets_are_found_in_samples)
{
	static const double samples[][5] = { { 1, NAN, NAN, NAN, NAN },
					     { NAN, 2, NAN, NAN, 3 },
					     { NAN, NAN, NAN, 4, NAN },
					     { 1, NAN, 5, NAN, NAN } };
	static const uint8_t wanted[] = { 0, 1, 0, 2, 1 };
	struct sampler_sets found;

	sampler_sets_init(&found, 5);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		sampler_sets_add(&found, samples[i]);
	}
	sampler_sets_finish(&found);
	assert_int_equal(found.n, 3);
	assert_memory_equal(found.of, wanted, sizeof(wanted));
	sampler_sets_init(&found, 2);
	sampler_sets_add(&found, (const double[]){ NAN, 1 });
	sampler_sets_add(&found, (const double[]){ 1, 1 });
	assert_int_equal(found.n, 1);
	sampler_sets_finish(&found);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.of[1], 0);
	sampler_sets_init(&found, 4); /* sets that become one */
	sampler_sets_add(&found, (const double[]){ NAN, NAN, 1, 1 });
	sampler_sets_add(&found, (const double[]){ NAN, 1, 1, NAN });
	assert_int_equal(found.n, 2);
	sampler_sets_add(&found, (const double[]){ 1, 1, NAN, NAN });
	sampler_sets_finish(&found);
	assert_int_equal(found.n, 1);
	assert_memory_equal(found.of, ((const uint8_t[]){ 0, 0, 0, 0 }), 4);
	sampler_sets_init(&found, SAMPLER_METRICS_MAX + 1);
	assert_int_equal(found.n, 1);
	sampler_sets_init(&found, 0);
	sampler_sets_finish(&found);
	assert_int_equal(found.n, 1);
	sampler_sets_init(&found, SAMPLER_METRICS_MAX); /* more sets than there are */
	sampler_sets_finish(&found);
	assert_int_equal(found.n, 1);
}

/* A set with more metrics than the attribution takes. */
TEST(a_set_that_is_too_large_is_refused)
{
	enum { MANY = 17 };
	const char *many[MANY];
	struct gpuctr_plan large = { .metrics = many, .n_metrics = MANY };

	for (size_t i = 0; i < MANY; i++) {
		many[i] = "a.sum";
	}
	errno = 0;
	assert_null(sampled_new(&large, NULL));
	assert_int_equal(errno, E2BIG);
}
