/* SPDX-License-Identifier: Apache-2.0 */

/* Records and samples that come late, too many, from the future, or never: no kernel is given what
 * another one did, each without a value is counted by its reason, and memory is bounded. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/sampled.h"
#include "client/cli/waiting.h"
#include "tests/unit/one_metric.h"

/* Kernels of 100 us, one after the other, in each process. */
enum {
	US = 1000,
	MS = 1000 * US,
	KERNEL_NS = 100 * US,
	PERIOD_NS = 120 * US,
	SAMPLE_NS = 10 * US,
	BYTES = 100000, /* of a kernel of process 1; of process 2 five times as many */
	SHAPES = 4,
	RECORDS_MOST = 1300000,
};
#define SECOND (INT64_C(1000) * MS)
#define BEGIN (INT64_C(1700000000) * SECOND)

static const struct gpuctr_device device = { .index = 0, .uuid = "GPU-0" };
static const struct gpuctr_kernel kernels[SHAPES] = {
	{ .name = "a", .mangled = "a" },
	{ .name = "b", .mangled = "b" },
	{ .name = "c", .mangled = "c" },
	{ .name = "d", .mangled = "d" },
};

static struct told {
	bool is_told;
	double value;
} told[3][RECORDS_MOST];
static uint64_t came[3], left[3]; /* records, by process */

/* By the number of the kernel, which its time says. */
static void on_record(void *user, const struct gpuctr_record *r)
{
	(void)user;
	assert_int_equal(r->index, left[r->process]); /* in their order, none twice */
	left[r->process]++;
	told[r->process][(r->start_ns - BEGIN) / PERIOD_NS] = (struct told){ true, r->values[0] };
}

static int setup(void **state)
{
	struct sampled *s = sampled_new(&plan, NULL);

	assert_non_null(s);
	memset(told, 0, sizeof(told));
	memset(came, 0, sizeof(came));
	memset(left, 0, sizeof(left));
	assert_int_equal(sampled_add_gpu(s, "GPU-0"), 0);
	for (unsigned i = 1; i <= 2; i++) {
		sampled_process(s, &(struct gpuctr_process){
					   .process = i, .devices = &device, .n_devices = 1 });
	}
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	sampled_free(*state);
	return 0;
}

#define JOIN_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static int64_t start_of(uint64_t number)
{
	return BEGIN + (int64_t)number * PERIOD_NS;
}

static void give_record(struct sampled *s, unsigned process, uint64_t number)
{
	const struct gpuctr_record r = { .process = process,
					 .index = came[process]++,
					 .kernel = &kernels[number % SHAPES],
					 .stream = process,
					 .start_ns = start_of(number),
					 .duration_ns = KERNEL_NS,
					 .clock = GPUCTR_CLOCK_GPU };

	sampled_record(s, &r, 0, on_record, NULL);
}

/* What the kernel that runs then does in a sample; those from number gap to number after are not
 * there. */
static double bytes_in(int64_t start_ns, double bytes, uint64_t gap, uint64_t after)
{
	uint64_t n = (uint64_t)(start_ns - BEGIN) / PERIOD_NS;
	int64_t ns = start_of(n) + KERNEL_NS - start_ns;

	if (ns <= 0 || (n >= gap && n < after)) {
		return 0;
	}
	return bytes * (1 + (double)(n % SHAPES)) * (double)(ns < SAMPLE_NS ? ns : SAMPLE_NS) /
	       KERNEL_NS;
}

static void end_process(struct sampled *s, unsigned process, uint64_t lost, int64_t now_ns)
{
	const struct gpuctr_process_end end = { .process = process,
						.totals = { .lost = lost },
						.clean = lost == 0 };

	sampled_process_end(s, &end, now_ns);
}

static void tell_undelivered(struct sampled *s, uint64_t n)
{
	sampled_progress(s, &(struct gpuctr_totals){ .seen = 10 + n, .measured = 10 });
}

static void expect_right(uint64_t index)
{
	double right = BYTES * (1 + (double)(index % SHAPES));
	double value = told[1][index].value;

	if (!(fabs(value / right - 1) < 0.01)) {
		fail_msg("kernel %llu: %.0f, not %.0f", (unsigned long long)index, value, right);
	}
}

/* --- a process beside another ---------------------------------------------------------------- */

/* Both run 3 s; of the second one's last second no records came. */
static void what_a_killed_process_did_nobody_is_given(void **state)
{
	enum { ALL = 25000, LAST = 16000 };
	struct sampled *s = *state;
	int64_t end_ns = start_of(ALL);

	for (int64_t t = BEGIN; t < end_ns; t += SAMPLE_NS) {
		double value = bytes_in(t, BYTES, ALL, ALL) + bytes_in(t, 5 * BYTES, ALL, ALL);

		sampled_sample(s, 0, t, t + SAMPLE_NS, &value);
	}
	for (uint64_t i = 0; i < ALL; i++) {
		give_record(s, 1, i);
		if (i < LAST) {
			give_record(s, 2, i);
		}
	}
	end_process(s, 2, 500, end_ns);
	end_process(s, 1, 0, end_ns);
	sampled_finish(s, on_record, NULL);
	assert_int_equal(left[1], ALL);
	for (uint64_t i = LAST; i < ALL; i++) {
		assert_true(isnan(told[1][i].value));
	}
	assert_true(sampled_counts(s)->without[SAMPLED_LOST] >= ALL - LAST);
}

/* The same where nobody heard of its end: the daemon is gone. */
static void what_came_after_the_last_record_is_unknown(void **state)
{
	enum { ALL = 25000, LAST = 22000 };
	struct sampled *s = *state;

	for (uint64_t i = 0; i < ALL; i++) {
		give_record(s, 1, i);
		if (i < LAST) {
			give_record(s, 2, i);
		}
	}
	for (int64_t t = BEGIN; t < start_of(ALL); t += SAMPLE_NS) {
		double value = bytes_in(t, BYTES, ALL, ALL) + bytes_in(t, 5 * BYTES, ALL, ALL);

		sampled_sample(s, 0, t, t + SAMPLE_NS, &value);
	}
	tell_undelivered(s, 100);
	sampled_finish(s, on_record, NULL);
	for (uint64_t i = LAST; i < ALL; i++) {
		assert_true(isnan(told[1][i].value));
	}
}

/* --- late ------------------------------------------------------------------------------------ */

#define ALL_NS (40 * SECOND)

/* Kernels of process 1 from number gap to number after are not there; records of those from number
 * held to number gap come when the program goes on. */
static void run_long(struct sampled *s, uint64_t held, uint64_t gap, uint64_t after)
{
	uint64_t n = 0;

	for (int64_t t = BEGIN; t < BEGIN + ALL_NS; t += SAMPLE_NS) {
		double value = bytes_in(t, BYTES, gap, after);

		sampled_sample(s, 0, t, t + SAMPLE_NS, &value);
		for (; start_of(n) + KERNEL_NS < t; n++) {
			if (n < held || n >= after) {
				give_record(s, 1, n);
			}
			for (uint64_t i = held; n == after && i < gap; i++) {
				give_record(s, 1, i);
			}
		}
		if ((t - BEGIN) % (250 * MS) == 0) {
			tell_undelivered(s, n > held && n < after ? gap - held : 0);
			sampled_advance(s);
		}
	}
}

/* Of a process beside one that has told all of that time. */
static void late_records_leave_no_value_beside_them(void **state)
{
	enum { FROM = 40000, TO = 48000, BESIDE = 100 };
	struct sampled *s = *state;

	run_long(s, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	for (uint64_t i = FROM; i < TO; i++) {
		give_record(s, 2, i);
	}
	end_process(s, 1, 0, BEGIN + ALL_NS);
	end_process(s, 2, 0, BEGIN + ALL_NS);
	sampled_finish(s, on_record, NULL);
	assert_int_equal(sampled_counts(s)->without[SAMPLED_LATE], TO - FROM);
	for (uint64_t i = FROM; i < TO; i++) {
		assert_true(told[2][i].is_told && isnan(told[2][i].value));
		assert_true(told[1][i].is_told && isnan(told[1][i].value));
	}
	expect_right(FROM - BESIDE);
	expect_right(TO + BESIDE);
}

/* It launches for a second, is stopped before these are told, and goes on after 20. What they did
 * is not what flows while nothing runs. */
static void a_program_that_was_stopped_has_its_other_values(void **state)
{
	enum { HELD = 40000, GAP = 48000, AFTER = 200000 };
	struct sampled *s = *state;
	const struct sampled_counts *c = sampled_counts(s);

	run_long(s, HELD, GAP, AFTER);
	end_process(s, 1, 0, BEGIN + ALL_NS);
	end_process(s, 2, 0, BEGIN + ALL_NS);
	sampled_finish(s, on_record, NULL);
	assert_int_equal(c->without[SAMPLED_LATE] + c->without[SAMPLED_LOST], GAP - HELD);
	for (uint64_t i = HELD; i < GAP; i++) {
		assert_true(told[1][i].is_told && isnan(told[1][i].value));
	}
	for (uint64_t i = SHAPES; i < HELD; i += 1001) {
		expect_right(i);
	}
	for (uint64_t i = AFTER + 1; start_of(i) < BEGIN + ALL_NS - SECOND; i += 1001) {
		expect_right(i);
	}
}

/* --- too many, from the future, and never ---------------------------------------------------- */

/* The oldest are told, with their values. */
static void more_records_than_are_kept(void **state)
{
	struct sampled *s = *state;
	uint64_t n = 0;

	for (int64_t t = BEGIN; n < RECORDS_MOST; t += SAMPLE_NS) {
		double value = bytes_in(t, BYTES, RECORDS_MOST, RECORDS_MOST);

		sampled_sample(s, 0, t, t + SAMPLE_NS, &value);
		for (; n < RECORDS_MOST && start_of(n) + KERNEL_NS < t; n++) {
			give_record(s, 1, n);
		}
		if ((t - BEGIN) % (250 * MS) == 0) {
			sampled_advance(s);
		}
	}
	assert_true(left[1] > 0);
	end_process(s, 1, 0, start_of(n));
	end_process(s, 2, 0, start_of(n));
	sampled_finish(s, on_record, NULL);
	assert_int_equal(left[1], RECORDS_MOST);
	assert_int_equal(sampled_counts(s)->without[SAMPLED_TOO_MANY], 0);
	for (uint64_t i = SHAPES; i < RECORDS_MOST - SHAPES; i += 101) {
		expect_right(i);
	}
}

struct bounded {
	struct waiting waiting;
	uint64_t told, given;
};

static void on_kernel(void *user, const struct attribution_result *result)
{
	(void)result;
	((struct bounded *)user)->told++;
}

static void on_late(void *user, uint64_t kernel)
{
	(void)user;
	(void)kernel;
}

static void on_given(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	(void)start_ns;
	(void)end_ns;
	(void)values;
	((struct bounded *)user)->given++;
}

static const struct waiting_handler handler = { on_late, on_given };

static void bounded_init(struct bounded *b)
{
	const struct attribution_options options = { .metrics = 1,
						     .on_kernel = on_kernel,
						     .user = b };

	memset(b, 0, sizeof(*b));
	assert_int_equal(waiting_init(&b->waiting, &options, &handler), 0);
}

static void add_kernel(struct bounded *b, uint64_t i, int64_t end_ns)
{
	assert_int_equal(waiting_kernel(&b->waiting,
					&(struct attribution_kernel){ .id = i,
								      .sequence = 1,
								      .shape = 1 + i % SHAPES,
								      .start_ns = start_of(i),
								      .end_ns = end_ns }),
			 0);
}

/* A sampler that is stopped, or has told a time in an hour: kernels are told all the same. */
/* As sampled_advance() does it. */
static int advance(struct waiting *w)
{
	int64_t until_ns = waiting_last_sample(w) - WAITING_NS;

	return until_ns < waiting_first_sample(w) + WAITING_NS
		       ? 0
		       : waiting_advance(w, until_ns, false);
}

static void kernels_without_samples_do_not_pile_up(void **state)
{
	enum { KERNELS = 5000000, WAIT = 3 << 20 };
	const double value = 1;
	struct bounded b;

	(void)state;
	for (int with_ends = 0; with_ends < 2; with_ends++) {
		bounded_init(&b);
		waiting_sample(&b.waiting, start_of(0), start_of(1), &value);
		waiting_sample(&b.waiting, start_of(0) + 3600 * SECOND, start_of(1) + 3600 * SECOND,
			       &value);
		for (uint64_t i = 0; i < KERNELS; i++) {
			add_kernel(&b, i,
				   with_ends ? start_of(i) + KERNEL_NS : BEGIN + 9000 * SECOND);
			if (i % 8192 == 0) {
				assert_int_equal(advance(&b.waiting), 0);
			}
		}
		assert_true(b.told > KERNELS - WAIT);
		assert_int_equal(waiting_finish(&b.waiting), 0);
		assert_int_equal(b.told, KERNELS);
		waiting_deinit(&b.waiting);
	}
}

/* Of a nanosecond each, with a value that is none in every third: ten million are a hundredth of a
 * second. */
static void samples_without_kernels_do_not_pile_up(void **state)
{
	enum { SAMPLES = 25000000 };
	const struct attribution_counts *c;
	struct bounded b;
	size_t most = 0;

	(void)state;
	bounded_init(&b);
	c = attribution_counts(b.waiting.attribution);
	for (int64_t t = BEGIN; t < BEGIN + SAMPLES; t++) {
		double value = t % 3 == 0 ? NAN : t % 3 == 1 ? -INFINITY : 7;

		assert_int_equal(waiting_sample(&b.waiting, t, t + 1, &value), 0);
		most = b.waiting.n_samples > most ? b.waiting.n_samples : most;
	}
	assert_true(most * (sizeof(struct waiting_span) + sizeof(double)) <= 256 << 20);
	assert_int_equal(waiting_finish(&b.waiting), 0);
	assert_int_equal(c->samples, SAMPLES);
	assert_true(c->bad_samples >= SAMPLES / 3 * 2);
	waiting_deinit(&b.waiting);
}

/* Not even in the file. */
static void discarded_samples_are_given_to_nobody(void **state)
{
	enum { SAMPLES = 1000, GOOD = 700 };
	struct bounded b;

	(void)state;
	bounded_init(&b);
	for (int i = 0; i < SAMPLES; i++) {
		double value = 1;

		if (i == SAMPLES - 100) {
			waiting_discard(&b.waiting, BEGIN + GOOD * SAMPLE_NS);
			/* which a later time does not change */
			waiting_discard(&b.waiting, BEGIN + SAMPLES * SAMPLE_NS);
		}
		waiting_sample(&b.waiting, BEGIN + i * SAMPLE_NS, BEGIN + (i + 1) * SAMPLE_NS,
			       &value);
	}
	assert_int_equal(waiting_finish(&b.waiting), 0);
	assert_int_equal(b.given, GOOD);
	waiting_deinit(&b.waiting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOIN_TEST(what_a_killed_process_did_nobody_is_given),
		JOIN_TEST(what_came_after_the_last_record_is_unknown),
		JOIN_TEST(late_records_leave_no_value_beside_them),
		JOIN_TEST(a_program_that_was_stopped_has_its_other_values),
		JOIN_TEST(more_records_than_are_kept),
		cmocka_unit_test(kernels_without_samples_do_not_pile_up),
		cmocka_unit_test(samples_without_kernels_do_not_pile_up),
		cmocka_unit_test(discarded_samples_are_given_to_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
