/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>

#include "client/sampler/stream.h"
#include "client/sampler/writer.h"

enum { SAMPLES_MAX = 20000, METRICS = 3 };

struct seen {
	unsigned begun, ended;
	uint64_t interval_ns;
	char metrics[METRICS][64], gpu[64], message[64], remedy[64];
	size_t n, n_metrics;
	struct {
		int64_t start_ns, end_ns;
		double values[METRICS];
	} samples[SAMPLES_MAX];
	uint64_t lost, gaps;
	size_t n_sets, turns;
	struct {
		struct sampler_set set;
		size_t at; /* that many samples had come */
	} sets[8];
	uint8_t numbers[METRICS];
	uint64_t intervals_ns[METRICS];
	int64_t lost_from, lost_to;
	struct sampler_end end;
};

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct seen *s = user;

	s->begun++;
	s->interval_ns = begin->interval_ns;
	s->n_metrics = begin->n_metrics;
	snprintf(s->gpu, sizeof(s->gpu), "%s", begin->gpu);
	for (size_t i = 0; i < begin->n_metrics && i < METRICS; i++) {
		snprintf(s->metrics[i], sizeof(s->metrics[i]), "%s", begin->metrics[i]);
		s->numbers[i] = begin->sets[i];
	}
	s->n_sets = begin->n_sets;
	for (size_t i = 0; i < begin->n_sets && i < METRICS; i++) {
		s->intervals_ns[i] = begin->intervals_ns[i];
	}
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct seen *s = user;

	assert_true(start_ns < end_ns);
	if (s->n < SAMPLES_MAX) {
		s->samples[s->n].start_ns = start_ns;
		s->samples[s->n].end_ns = end_ns;
		memcpy(s->samples[s->n].values, values,
		       (s->n_metrics < METRICS ? s->n_metrics : METRICS) * sizeof(*values));
		s->n++;
	}
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct seen *s = user;

	assert_true(n > 0 && start_ns <= end_ns);
	s->lost += n;
	s->gaps++;
	s->lost_from = start_ns;
	s->lost_to = end_ns;
}

static void on_end(void *user, const struct sampler_end *end)
{
	struct seen *s = user;

	s->ended++;
	s->end = *end;
	snprintf(s->message, sizeof(s->message), "%s", end->message);
	snprintf(s->remedy, sizeof(s->remedy), "%s", end->remedy);
}

static void on_set(void *user, const struct sampler_set *set)
{
	struct seen *s = user;

	if (s->turns < ARRAY_SIZE(s->sets)) {
		s->sets[s->turns].set = *set;
		s->sets[s->turns].at = s->n;
	}
	s->turns++;
}

static const struct sampler_handler handler = { on_begin, on_sample, on_lost, on_end, on_set };

static const char *const names[METRICS] = { "dram__bytes_read.sum", "b.avg", "c.sum" };
static const struct sampler_begin begin = { 10000, "GPU-1", names, METRICS, NULL, NULL, 0 };
static const uint8_t two_sets[METRICS] = { 0, 1, 0 };
static const uint64_t two_intervals_ns[] = { 10000, 500000 };
static const struct sampler_begin two = {
	0, "GPU-1", names, METRICS, two_sets, two_intervals_ns, 2
};
static const struct sampler_end asked = {
	.reason = SAMPLER_ENDED, .overflows = 2, .cpu_ns = 17, .message = "", .remedy = ""
};
static const int64_t start_ns = INT64_C(1795163892970808035);

static struct sampler_writer *writer_of(const struct sampler_begin *b, size_t limit)
{
	struct sampler_writer *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->limit = limit;
	assert_int_equal(sampler_writer_begin(w, b), 0);
	return w;
}

static struct sampler_writer *writer_new(size_t limit)
{
	return writer_of(&begin, limit);
}

static void writer_free(struct sampler_writer *w)
{
	sampler_writer_deinit(w);
	free(w);
}

static double value_of(unsigned i, unsigned k)
{
	static const double odd[] = { NAN,     INFINITY,	   -INFINITY,		0.5, 1e300,
				      -1e-300, 9007199254740992.0, -9007199254740992.0, -1,  1e15 };

	return k == 0 ? i * 31337.0 : k == 1 ? i / 3.0 : odd[i % ARRAY_SIZE(odd)];
}

static int64_t write_samples(struct sampler_writer *w, int64_t at, unsigned from, unsigned n)
{
	for (unsigned i = from; i < from + n; i++) {
		const double values[METRICS] = { value_of(i, 0), value_of(i, 1), value_of(i, 2) };
		int64_t end = at + 9984 + i % 33;

		sampler_writer_sample(w, at, end, values);
		at = end;
	}
	return at;
}

/* Feeds in pieces of this size. */
static int feed(struct seen *s, const struct sampler_writer *w, size_t piece)
{
	struct sampler_reader *r = sampler_reader_new(&handler, s);
	const uint8_t *at = w->out.data + w->out.start;
	size_t left = buffer_length(&w->out);
	int result = 0;

	while (left > 0 && result == 0) {
		size_t n = left < piece ? left : piece;

		result = sampler_reader_feed(r, at, n);
		at += n;
		left -= n;
	}
	sampler_reader_free(r);
	return result;
}

static struct seen *seen_new(void)
{
	struct seen *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	return s;
}

TEST(what_is_written_is_read)
{
	static const size_t pieces[] = { 1, 7, 4096, 1 << 20 };

	for (size_t p = 0; p < ARRAY_SIZE(pieces); p++) {
		struct sampler_writer *w = writer_new(16 << 20);
		struct seen *s = seen_new();
		int64_t end = write_samples(w, start_ns, 0, 10000);

		assert_int_equal(sampler_writer_end(w, &asked), 0);
		assert_int_equal(feed(s, w, pieces[p]), 0);
		assert_int_equal(s->begun, 1);
		assert_int_equal(s->interval_ns, 10000);
		assert_string_equal(s->gpu, "GPU-1");
		assert_string_equal(s->metrics[0], names[0]);
		assert_string_equal(s->metrics[2], names[2]);
		assert_int_equal(s->n, 10000);
		for (unsigned i = 0; i < s->n; i++) {
			assert_int_equal(s->samples[i].end_ns - s->samples[i].start_ns,
					 9984 + i % 33);
			for (unsigned k = 0; k < METRICS; k++) {
				const double wanted = value_of(i, k);

				assert_memory_equal(&s->samples[i].values[k], &wanted,
						    sizeof(wanted));
			}
		}
		assert_int_equal(s->samples[0].start_ns, start_ns);
		assert_int_equal(s->samples[9999].end_ns, end);
		assert_int_equal(s->gaps, 0);
		assert_int_equal(s->ended, 1);
		assert_int_equal(s->end.samples, 10000);
		assert_int_equal(s->end.lost, 0);
		assert_int_equal(s->end.dropped, 0);
		assert_int_equal(s->end.overflows, 2);
		assert_int_equal(s->end.cpu_ns, 17);
		assert_int_equal(s->end.end_ns, end);
		free(s);
		writer_free(w);
	}
}

/* A reader that takes nothing: what is not kept for it is counted, once, and the time is right. */
TEST(what_is_dropped_is_told)
{
	struct sampler_writer *w = writer_new(100000);
	struct seen *s = seen_new();
	int64_t at = write_samples(w, start_ns, 0, 12000), from;
	size_t before;

	sampler_writer_flush(w);
	assert_true(buffer_length(&w->out) <= 100000);
	before = w->samples;
	assert_true(before > 1000 && before < 12000);
	w->limit = 10 << 20; /* the reader goes on */
	from = at;
	at = write_samples(w, at, 12000, 50);
	assert_int_equal(sampler_writer_end(w, &asked), 0);
	assert_int_equal(feed(s, w, 999), 0);
	assert_int_equal(s->n, before + 50);
	assert_int_equal(s->lost, 12000 - before);
	assert_int_equal(s->gaps, 1);
	assert_int_equal(s->lost_from, s->samples[before - 1].end_ns);
	assert_int_equal(s->lost_to, from);
	assert_int_equal(s->samples[before].start_ns, from);
	assert_int_equal(s->end.samples + s->end.lost, 12050);
	assert_int_equal(s->end.dropped, s->lost);
	free(s);
	writer_free(w);
}

TEST(what_the_hardware_lost_is_told)
{
	struct sampler_writer *w = writer_new(1 << 20);
	struct seen *s = seen_new();
	struct sampler_end end = asked;
	int64_t at = write_samples(w, start_ns, 0, 10);

	sampler_writer_lost(w, 5);
	write_samples(w, at + 50000, 10, 1);
	sampler_writer_lost(w, 3);
	end.end_ns = at + 100000;
	end.message = "taken away";
	end.remedy = "Wait.";
	end.reason = SAMPLER_CUT_OFF;
	assert_int_equal(sampler_writer_end(w, &end), 0);
	assert_int_equal(feed(s, w, 1), 0);
	assert_int_equal(s->n, 11);
	assert_int_equal(s->lost, 8);
	assert_int_equal(s->gaps, 2);
	assert_int_equal(s->lost_to, at + 100000);
	assert_int_equal(s->end.lost, 8);
	assert_int_equal(s->end.reason, SAMPLER_CUT_OFF);
	assert_string_equal(s->message, "taken away");
	assert_string_equal(s->remedy, "Wait.");
	free(s);
	writer_free(w);
}

/* One that could not begin says why. */
TEST(an_end_alone_is_a_stream)
{
	struct sampler_writer *w = calloc(1, sizeof(*w));
	struct seen *s = seen_new();
	struct sampler_end end = asked;

	end.reason = SAMPLER_BUSY;
	assert_int_equal(sampler_writer_end(w, &end), 0);
	assert_int_equal(feed(s, w, 3), 0);
	assert_int_equal(s->begun, 0);
	assert_int_equal(s->ended, 1);
	assert_int_equal(s->end.reason, SAMPLER_BUSY);
	free(s);
	writer_free(w);
}

/* Changes a number in the first SAMPLES message of a stream. */
static int feed_changed(size_t offset, uint64_t value, size_t bytes)
{
	struct sampler_writer *w = writer_new(1 << 20);
	struct seen *s = seen_new();
	size_t first;
	int r;

	first = buffer_length(&w->out);
	write_samples(w, start_ns, 0, 100);
	sampler_writer_flush(w);
	memcpy(w->out.data + w->out.start + first + offset, &value, bytes);
	r = feed(s, w, 1 << 20);
	free(s);
	writer_free(w);
	return r;
}

#define IN_HEAD(member) offsetof(struct sampler_head, member)
#define IN_SAMPLES(member) \
	(sizeof(struct sampler_head) + offsetof(struct sampler_samples_message, member))

#define FIRST_LENGTH (sizeof(struct sampler_head) + sizeof(struct sampler_samples_message))

TEST(what_does_not_follow_is_refused)
{
	assert_int_equal(feed_changed(IN_SAMPLES(reserved), 0, 4), 0);
	assert_int_equal(feed_changed(IN_HEAD(type), 1, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_HEAD(type), 4, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_HEAD(bytes), SAMPLER_MESSAGE_MAX + 1, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_HEAD(bytes), 8, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(n), 101, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(n), 99, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(n), 0, 4), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(first), 1, 8), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(first), UINT64_MAX, 8), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(lost), 1, 8), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(start_ns), 0, 8), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(start_ns), INT64_MAX, 8), -EBADMSG);
	assert_int_equal(feed_changed(IN_SAMPLES(start_ns), UINT64_MAX, 8), -EBADMSG);
	assert_int_equal(feed_changed(FIRST_LENGTH, 0, 8), -EBADMSG);
	assert_int_equal(feed_changed(FIRST_LENGTH, UINT64_MAX, 8), -EBADMSG);
}

/* The metrics of a set, in their order, at its interval; a gap between turns is no loss. */
TEST(sets_take_turns)
{
	const struct sampler_set turns[] = { { 1, 500000, 7000 }, { 0, 10000, 9000 } };
	const double second[] = { 5.5 }, first[] = { 1, 3 };
	struct sampler_writer *w = writer_of(&two, 1 << 20);
	struct seen *s = seen_new();

	sampler_writer_sample(w, start_ns, start_ns + 10000, first);
	sampler_writer_set(w, &turns[0]);
	sampler_writer_sample(w, start_ns + 80000, start_ns + 580000, second);
	sampler_writer_sample(w, start_ns + 580000, start_ns + 1080000, second);
	sampler_writer_set(w, &turns[1]);
	sampler_writer_sample(w, start_ns + 1090000, start_ns + 1100000, first);
	assert_int_equal(sampler_writer_end(w, &asked), 0);
	assert_int_equal(feed(s, w, 1), 0);
	assert_int_equal(s->n_sets, 2);
	assert_memory_equal(s->numbers, two_sets, sizeof(two_sets));
	assert_memory_equal(s->intervals_ns, two_intervals_ns, sizeof(two_intervals_ns));
	assert_int_equal(s->interval_ns, 10000);
	assert_int_equal(s->turns, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_memory_equal(&s->sets[i].set, &turns[i], sizeof(turns[i]));
		assert_int_equal(s->sets[i].at, i == 0 ? 1 : 3);
	}
	assert_int_equal(s->n, 4);
	assert_true(s->samples[0].values[0] == 1 && s->samples[0].values[1] == 3);
	assert_true(s->samples[2].values[0] == 5.5);
	assert_int_equal(s->lost, 0);
	assert_int_equal(s->end.samples, 4);
	free(s);
	writer_free(w);
}

/* Of a turn whose samples are dropped a reader that is too slow needs to know nothing. */
TEST(turns_that_are_dropped_are_not_told)
{
	const struct sampler_set turns[] = { { 1, 500000, 0 }, { 0, 10000, 0 } };
	const double second[] = { 5.5 }, first[] = { 1, 3 };
	struct sampler_writer *w = writer_of(&two, 0);
	struct seen *s = seen_new();
	size_t before = buffer_length(&w->out);

	for (unsigned i = 0; i < 1000; i++) {
		sampler_writer_set(w, &turns[i % 2]);
		sampler_writer_sample(w, start_ns + i, start_ns + i + 1, i % 2 ? first : second);
	}
	sampler_writer_set(w, &turns[0]);
	assert_int_equal(buffer_length(&w->out), before);
	w->limit = 1 << 20;
	sampler_writer_sample(w, start_ns + 2000, start_ns + 2001, second);
	assert_int_equal(sampler_writer_end(w, &asked), 0);
	assert_int_equal(feed(s, w, 9), 0);
	assert_int_equal(s->turns, 1);
	assert_int_equal(s->sets[0].set.set, 1);
	assert_int_equal(s->n, 1);
	assert_int_equal(s->lost, 1000);
	free(s);
	writer_free(w);
}

static int feed_begin(const struct sampler_begin *b, const struct sampler_set *set, bool hears)
{
	struct sampler_handler deaf = handler;
	struct sampler_writer *w = writer_of(b, 1 << 20);
	struct seen *s = seen_new();
	struct sampler_reader *r;
	const double values[METRICS] = { 0 };
	int result;

	if (set) {
		sampler_writer_set(w, &(struct sampler_set){ 0 });
		w->set = *set;
		w->n_metrics[set->set] = 1;
	}
	sampler_writer_sample(w, start_ns, start_ns + 1, values);
	sampler_writer_flush(w);
	deaf.on_set = NULL;
	r = sampler_reader_new(hears ? &handler : &deaf, s);
	result = sampler_reader_feed(r, w->out.data + w->out.start, buffer_length(&w->out));
	sampler_reader_free(r);
	free(s);
	writer_free(w);
	return result;
}

TEST(sets_that_are_none_are_refused)
{
	static const uint8_t gap[METRICS] = { 0, 2, 1 }, one[METRICS] = { 0 };
	static const uint64_t none[] = { 10000, 0 };
	const struct sampler_set good = { 1, 10000, 0 }, unknown = { 2, 10000, 0 },
				 never = { 1, 0, 0 };
	struct sampler_begin b = two;

	assert_int_equal(feed_begin(&b, &good, true), 0);
	assert_int_equal(feed_begin(&b, &unknown, true), -EBADMSG);
	assert_int_equal(feed_begin(&b, &never, true), -EBADMSG);
	assert_int_equal(feed_begin(&b, NULL, false), -EBADMSG);
	assert_int_equal(feed_begin(&begin, NULL, false), 0);
	b.sets = one; /* and an interval of a set that nothing is in */
	assert_int_equal(feed_begin(&b, NULL, true), -EBADMSG);
	b.sets = gap;
	assert_int_equal(feed_begin(&b, NULL, true), -EBADMSG);
	b = two;
	b.intervals_ns = none;
	assert_int_equal(feed_begin(&b, NULL, true), -EBADMSG);
}

/* Time goes on without a gap, unless samples are lost or a set has its turn, and then once. */
TEST(gaps_are_told)
{
	const struct sampler_set turns[] = { { 1, 500000, 7000 }, { 0, 10000, 9000 } };
	const double values[METRICS] = { 1, 2, 3 };

	for (int after_turn = 0; after_turn < 2; after_turn++) {
		struct sampler_writer *w = writer_of(&two, 1 << 20);
		struct seen *s = seen_new();
		int64_t at = start_ns;

		sampler_writer_sample(w, at, at + 10, values);
		for (size_t i = 0; after_turn && i < 2; i++) {
			at += 100;
			sampler_writer_set(w, &turns[i]);
			sampler_writer_sample(w, at, at + 10, values);
		}
		sampler_writer_flush(w);
		assert_int_equal(feed(s, w, 1 << 20), 0);
		sampler_writer_sample(w, at + 20, at + 30, values);
		sampler_writer_flush(w);
		assert_int_equal(feed(s, w, 1 << 20), -EBADMSG);
		free(s);
		writer_free(w);
	}
}

TEST(nothing_follows_an_end)
{
	struct sampler_writer *w = writer_new(1 << 20);
	struct seen *s = seen_new();

	for (int i = 0; i < 2; i++) {
		sampler_writer_end(w, &asked);
	}
	assert_int_equal(feed(s, w, 1 << 20), -EBADMSG);
	assert_int_equal(s->ended, 1);
	free(s);
	writer_free(w);
	s = seen_new();
	w = writer_new(1 << 20);

	sampler_writer_end(w, &asked);
	write_samples(w, start_ns, 0, 1);
	sampler_writer_flush(w);
	assert_int_equal(feed(s, w, 1 << 20), -EBADMSG);
	assert_int_equal(s->n, 0);
	free(s);
	writer_free(w);
}
