/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/front/stats.h"
#include "proto/base/clock.h"

static struct arena arena;

static int setup(void **state)
{
	(void)state;
	arena_init(&arena, 64 * 1024);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_deinit(&arena);
	return 0;
}

static uint64_t count_of(const struct gpuctr_code_count *counts, size_t n, int code)
{
	for (size_t i = 0; i < n; i++) {
		if (counts[i].code == code) {
			return counts[i].count;
		}
	}
	return 0;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(a_lease_begins_once_and_ends_once)
{
	struct stats s = { 0 };
	struct gpuctr_counts c;

	for (int i = 0; i < 5; i++) {
		stats_note_decision(&s, AUDIT_LEASE_GRANTED, 0);
	}
	stats_note_decision(&s, AUDIT_LEASE_ENDED, 0);
	stats_note_decision(&s, AUDIT_LEASE_ENDED, GPUCTR_E_DISCONNECTED);
	stats_note_decision(&s, AUDIT_LEASE_EXPIRED, GPUCTR_E_LEASE_EXPIRED);
	stats_note_decision(&s, AUDIT_LEASE_REVOKED, GPUCTR_E_STALLED);
	c = stats_describe(&s, &arena);
	assert_int_equal(c.leases, 5);
	assert_int_equal(c.n_lease_ends, 4);
	assert_int_equal(count_of(c.lease_ends, c.n_lease_ends, 0), 1);
	assert_int_equal(count_of(c.lease_ends, c.n_lease_ends, GPUCTR_E_DISCONNECTED), 1);
	assert_int_equal(count_of(c.lease_ends, c.n_lease_ends, GPUCTR_E_LEASE_EXPIRED), 1);
	assert_int_equal(count_of(c.lease_ends, c.n_lease_ends, GPUCTR_E_STALLED), 1);
	assert_int_equal(c.n_refusals, 0);
}

/* Every number that an answer may hold fits into it. */
FIXTURE_TEST(every_code_fits_into_an_answer)
{
	struct stats s = { 0 };
	struct gpuctr_counts c;

	for (int code = 0; code < LIMIT_CODES; code++) {
		stats_note_refusal(&s, code);
	}
	c = stats_describe(&s, &arena);
	assert_int_equal(c.n_refusals, LIMIT_CODES);
	for (uint32_t code = 0; code < LIMIT_CODES; code++) {
		assert_int_equal(count_of(c.refusals, c.n_refusals, code), 1);
	}
}

FIXTURE_TEST(waits_fall_into_their_buckets)
{
	static const uint64_t waits_ms[] = { 0, 100, 101, 1000, 9000, 60000, 60001, 4000000 };
	static const uint64_t expected[STATS_WAITS] = { 2, 2, 1, 1, 1, 0, 1 };
	struct stats s = { 0 };
	struct gpuctr_counts c;
	uint64_t sum_ms = 0;

	for (size_t i = 0; i < ARRAY_SIZE(waits_ms); i++) {
		stats_note_wait(&s, waits_ms[i] * CLOCK_NS_PER_MS);
		sum_ms += waits_ms[i];
	}
	c = stats_describe(&s, &arena);
	assert_int_equal(c.n_waits, STATS_WAITS);
	assert_int_equal(c.waited_ns, sum_ms * CLOCK_NS_PER_MS);
	for (size_t i = 0; i < STATS_WAITS; i++) {
		assert_int_equal(c.waits[i].count, expected[i]);
		assert_true(i == 0 || c.waits[i].up_to_ns == 0 ||
			    c.waits[i].up_to_ns > c.waits[i - 1].up_to_ns);
	}
	assert_int_equal(c.waits[STATS_WAITS - 1].up_to_ns, 0);
}

FIXTURE_TEST(what_a_program_tells_moves_no_count_back_or_far)
{
	const struct gpuctr_totals none = { 0 }, few = { .seen = 5 },
				   absurd = { .seen = UINT64_MAX };
	struct stats s = { 0 };

	stats_note_kernels(&s, &none, &few);
	stats_note_kernels(&s, &few, &none);
	assert_int_equal(s.kernels.seen, 5);
	stats_note_kernels(&s, &few, &absurd);
	assert_int_equal(s.kernels.seen, 5 + STATS_KERNELS_AT_ONCE);
}

FIXTURE_TEST(a_process_that_is_gone_leaves_what_was_lost)
{
	struct process p = { .totals = { .seen = 10, .measured = 2, .filtered = 1 }, .records = 4 };
	struct stats s = { 0 };

	stats_note_kernels(&s, &(struct gpuctr_totals){ 0 }, &p.totals);
	stats_settle(&s, &p);
	assert_int_equal(s.kernels.seen, p.totals.seen);
	assert_int_equal(s.kernels.measured, 4);
	assert_int_equal(s.kernels.lost, 5);
	assert_int_equal(p.totals.lost, 5);
}

FIXTURE_TEST(records_are_counted_with_their_bytes)
{
	struct stats s = { 0 };
	struct gpuctr_counts c;

	stats_note_records(&s, 64, 5000);
	stats_note_records(&s, 1, 90);
	c = stats_describe(&s, &arena);
	assert_int_equal(c.records, 65);
	assert_int_equal(c.record_bytes, 5090);
}
