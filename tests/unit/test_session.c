/* SPDX-License-Identifier: Apache-2.0 */

/* Sampling by a made clock, on a GPU in place of CUPTI: which samples are lost, and where the
 * interval becomes longer, whatever the machine does beside. */

#include "tests/unit/unit.h"

#include "client/sampler/session.h"
#include "tests/unit/made_clock.h"

#define MS UINT64_C(1000000)
#define BEGIN_NS (UINT64_C(1700000000) * 1000 * MS)
#define SAMPLE_BYTES 4096
#define DRAIN_NS 200000 /* each, without samples */
#define CHANGE_NS (50 * MS)
#define ROOM 1024 /* of an image, in samples */

/* --- the GPU --------------------------------------------------------------------------------- */

static struct gpu {
	uint64_t interval_ns, next_ns; /* of the sample that is decoded next */
	uint64_t capacity;	       /* of the hardware's buffer, in samples */
	uint64_t decode_ns;	       /* that a sample takes */
	bool has_overflown;
} gpu;

/* An image begins with how many samples it holds, and each with its times. */
static uint64_t *count_in(const struct image *m)
{
	return (uint64_t *)(void *)m->data;
}

static int64_t *times_in(const struct image *m, size_t i)
{
	return (int64_t *)(void *)(m->data + m->layout.head + i * m->layout.sample);
}

CUptiResult pm_enable(struct pm *pm)
{
	pm->object = (CUpti_PmSampling_Object *)&gpu;
	made_clock.now_ns += CHANGE_NS;
	return CUPTI_SUCCESS;
}

CUptiResult pm_disable(struct pm *pm)
{
	pm->object = NULL;
	return CUPTI_SUCCESS;
}

CUptiResult pm_configure(struct pm *pm, const struct host_config *config, size_t buffer_bytes,
			 uint64_t interval_ns)
{
	(void)pm;
	(void)config;
	(void)buffer_bytes;
	gpu.interval_ns = interval_ns;
	return CUPTI_SUCCESS;
}

/* The first sample spans what nobody asked for. */
CUptiResult pm_start(struct pm *pm)
{
	pm->is_started = true;
	gpu.next_ns = made_clock.now_ns - gpu.interval_ns;
	gpu.has_overflown = false;
	return CUPTI_SUCCESS;
}

CUptiResult pm_stop(struct pm *pm)
{
	pm->is_started = false;
	return CUPTI_SUCCESS;
}

CUptiResult pm_layout(struct pm *pm, const struct metrics_set *metrics, uint32_t samples,
		      struct image_layout *ret)
{
	(void)metrics;
	pm->room = samples;
	*ret = (struct image_layout){ 64, SAMPLE_BYTES, samples };
	return CUPTI_SUCCESS;
}

CUptiResult pm_init_image(const struct pm *pm, struct image *image)
{
	(void)pm;
	memset(image->data, 0, image->bytes);
	return CUPTI_SUCCESS;
}

CUptiResult pm_decode(const struct pm *pm, struct image *image, bool *ret_is_full,
		      bool *ret_overflows)
{
	uint64_t *n = count_in(image), there;

	(void)pm;
	made_clock.now_ns += DRAIN_NS;
	there = (made_clock.now_ns - gpu.next_ns) / gpu.interval_ns;
	gpu.has_overflown |= there > gpu.capacity;
	*ret_overflows = gpu.has_overflown;
	*ret_is_full = false;
	if (gpu.has_overflown) {
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	for (; there > 0 && *n < image->layout.room;
	     there = (made_clock.now_ns - gpu.next_ns) / gpu.interval_ns) {
		int64_t *times = times_in(image, (*n)++);

		times[0] = (int64_t)gpu.next_ns;
		gpu.next_ns += gpu.interval_ns;
		times[1] = (int64_t)gpu.next_ns;
		made_clock.now_ns += gpu.decode_ns;
	}
	*ret_is_full = there > 0;
	return CUPTI_SUCCESS;
}

CUptiResult pm_count(const struct pm *pm, const struct image *image, size_t *ret_complete,
		     size_t *ret_all)
{
	(void)pm;
	*ret_complete = *ret_all = *count_in(image);
	return CUPTI_SUCCESS;
}

CUptiResult pm_times(const struct pm *pm, const struct image *image, size_t sample,
		     int64_t ret_ns[2])
{
	(void)pm;
	memcpy(ret_ns, times_in(image, sample), 2 * sizeof(*ret_ns));
	return CUPTI_SUCCESS;
}

/* --- one thread ------------------------------------------------------------------------------ */

void evaluator_start(struct evaluator *e, const struct host *host)
{
	e->host = host;
}

void evaluator_end(struct evaluator *e)
{
	(void)e;
}

void evaluator_give(struct evaluator *e, struct image *image, const struct metrics_set *metrics)
{
	(void)e;
	(void)image;
	(void)metrics;
	fail_msg("there is no thread");
}

CUptiResult evaluator_wait(struct evaluator *e)
{
	(void)e;
	return CUPTI_SUCCESS;
}

CUptiResult evaluate_image(const struct host *host, struct image *m,
			   const struct metrics_set *metrics)
{
	(void)host;
	(void)metrics;
	m->evaluated = m->timed;
	return CUPTI_SUCCESS;
}

/* --- what is told ---------------------------------------------------------------------------- */

struct sampling {
	struct session_options options;
	struct session session;
	struct sampler_writer writer;
	struct sampler_reader *reader;
	struct refusal refusal;
	size_t n_sets, set;
	uint64_t intervals_ns[SAMPLER_SETS_MAX]; /* those that were told last */
	uint64_t samples[SAMPLER_SETS_MAX], lost[SAMPLER_SETS_MAX], gaps[SAMPLER_SETS_MAX];
	int code; /* of the drain that failed */
};

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct sampling *s = user;

	memcpy(s->intervals_ns, begin->intervals_ns, begin->n_sets * sizeof(*s->intervals_ns));
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct sampling *s = user;

	(void)values;
	assert_int_equal(end_ns - start_ns, s->intervals_ns[s->set]);
	s->samples[s->set]++;
}

/* As many as there was time for, each as long as this set's. */
static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct sampling *s = user;
	uint64_t gap = (uint64_t)(end_ns - start_ns), interval = s->intervals_ns[s->set];

	assert_in_range(n * interval, gap - interval / 2 - 1, gap + interval / 2 + 1);
	s->lost[s->set] += n;
	s->gaps[s->set]++;
}

static void on_set(void *user, const struct sampler_set *set)
{
	struct sampling *s = user;

	s->set = set->set;
	s->intervals_ns[set->set] = set->interval_ns;
}

static void on_end(void *user, const struct sampler_end *end)
{
	(void)user;
	(void)end;
}

static void begin(struct sampling *s, size_t n_sets, const uint64_t *intervals_ns)
{
	static const struct sampler_handler handler = { on_begin, on_sample, on_lost, on_end,
							on_set };
	static const char *const names[] = { "a", "b", "c" };
	const struct image_layout layout = { 64, SAMPLE_BYTES, ROOM };
	struct image *m = &s->session.sets[0].images[0];
	uint8_t numbers[SAMPLER_SETS_MAX];

	*s = (struct sampling){ .n_sets = n_sets, .writer = { .limit = 64 << 20 } };
	s->session.options = &s->options;
	s->session.set = s->session.sets;
	s->session.n_sets = n_sets;
	for (size_t i = 0; i < n_sets; i++) {
		s->session.sets[i].metrics.n = 1;
		s->session.sets[i].metrics.v[0] = names[i];
		s->session.sets[i].interval_ns = intervals_ns[i];
		numbers[i] = (uint8_t)i;
	}
	s->options.turn_ns = n_sets > 1 ? 400 * MS : 0;
	s->reader = sampler_reader_new(&handler, s);
	assert_non_null(s->reader);
	assert_int_equal(
		sampler_writer_begin(&s->writer,
				     &(struct sampler_begin){ .interval_ns = intervals_ns[0],
							      .gpu = "GPU-0",
							      .metrics = names,
							      .n_metrics = n_sets,
							      .sets = numbers,
							      .intervals_ns = intervals_ns,
							      .n_sets = n_sets }),
		0);
	made_clock = (struct made_clock){ .now_ns = BEGIN_NS, .step_ns = 1 };
	gpu = (struct gpu){ .capacity = 1 << 20 };
	/* As session_open() leaves it: an object for the first set. */
	assert_int_equal(pm_enable(&s->session.pm), CUPTI_SUCCESS);
	assert_int_equal(pm_configure(&s->session.pm, NULL, 0, intervals_ns[0]), CUPTI_SUCCESS);
	assert_true(image_init(m, &layout, 1));
	image_keep(m);
	image_begin(m);
	s->session.set->image = m;
	s->session.pm.room = ROOM;
	assert_int_equal(session_start(&s->session, &s->refusal), 0);
}

/* Drains until this time since the beginning, or until one fails. */
static void drain_until(struct sampling *s, uint64_t ms)
{
	while (s->code == 0 && made_clock.now_ns < BEGIN_NS + ms * MS) {
		uint64_t next_ns = session_next_ns(&s->session);

		made_clock.now_ns = next_ns > made_clock.now_ns ? next_ns : made_clock.now_ns;
		s->code = session_drain(&s->session, &s->writer, &s->refusal);
		sampler_writer_flush(&s->writer);
		assert_int_equal(sampler_reader_feed(s->reader,
						     s->writer.out.data + s->writer.out.start,
						     buffer_length(&s->writer.out)),
				 0);
		buffer_consume(&s->writer.out, buffer_length(&s->writer.out));
	}
}

static void end(struct sampling *s)
{
	session_close(&s->session);
	sampler_writer_deinit(&s->writer);
	sampler_reader_free(s->reader);
}

/* --- tests ----------------------------------------------------------------------------------- */

/* Samples take four times as long to be decoded as they are, until they are as long. */
TEST(where_nobody_asked_for_one_the_interval_becomes_longer)
{
	const uint64_t interval = 200000;
	static struct sampling s;

	begin(&s, 1, &interval);
	gpu.decode_ns = 700000;
	drain_until(&s, 20000);
	assert_int_equal(s.code, 0);
	assert_int_equal(s.intervals_ns[0], 800000);
	assert_int_equal(gpu.interval_ns, 800000);
	assert_true(s.gaps[0] >= 2);
	end(&s);
}

/* What the hardware's buffer holds is less than comes between two drains. */
TEST(where_the_buffer_runs_over_it_becomes_longer_too)
{
	const uint64_t interval = 200000;
	static struct sampling s;

	begin(&s, 1, &interval);
	gpu.capacity = 60;
	drain_until(&s, 20000);
	assert_int_equal(s.code, 0);
	assert_int_equal(s.intervals_ns[0], 16 * interval); /* 31 between two drains */
	assert_int_equal(gpu.interval_ns, s.intervals_ns[0]);
	end(&s);
}

/* The user's interval stays, and the end is told. */
TEST(an_interval_that_was_asked_for_stays)
{
	const uint64_t interval = 200000;
	static struct sampling s;

	begin(&s, 1, &interval);
	s.options.interval_ns = interval;
	gpu.capacity = 60;
	drain_until(&s, 20000);
	assert_int_equal(s.code, SAMPLER_NO_MEMORY);
	assert_int_equal(s.intervals_ns[0], interval);
	end(&s);
}

/* Whoever was held up has not decoded too slowly. */
TEST(who_is_held_up_takes_no_longer_one)
{
	const uint64_t interval = 200000;
	static struct sampling s;

	begin(&s, 1, &interval);
	gpu.capacity = 1000;
	for (uint64_t ms = 2000; ms < 20000; ms += 2000) {
		drain_until(&s, ms);
		made_clock.now_ns += 500 * MS;
	}
	assert_int_equal(s.code, 0);
	assert_int_equal(s.intervals_ns[0], interval);
	assert_int_equal(s.gaps[0], 8);
	assert_in_range(s.lost[0], 8 * 2500, 8 * 2700);
	end(&s);
}

/* Three sets take turns, each with an interval of its own, and in each of them some are lost. */
TEST(what_is_lost_is_counted_by_its_own_set)
{
	const uint64_t intervals[] = { 100000, 300000, 1000000 };
	static struct sampling s;

	begin(&s, 3, intervals);
	gpu.capacity = 1 << 20;
	for (uint64_t ms = 150; ms < 240000; ms += 150) {
		drain_until(&s, ms);
		if (ms % 3000 == 0 || ms % 3150 == 0 || ms % 3450 == 0) {
			gpu.has_overflown = true;
			made_clock.now_ns += 200 * MS;
		}
	}
	if (s.code != 0) {
		fail_msg("%s", s.refusal.message);
	}
	for (size_t i = 0; i < 3; i++) {
		printf("set %zu: %llu samples, %llu lost in %llu gaps\n", i,
		       (unsigned long long)s.samples[i], (unsigned long long)s.lost[i],
		       (unsigned long long)s.gaps[i]);
		assert_int_equal(s.intervals_ns[i], intervals[i]);
		assert_true(s.samples[i] > 0 && s.gaps[i] >= 3);
	}
	end(&s);
}
