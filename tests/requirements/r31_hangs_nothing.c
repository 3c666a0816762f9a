/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clock.h"
#include "tests/requirements/requirement.h"
#include "tests/system/fixture.h"
#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* R31. Programs whose kernels wait for what is launched or written later (tests/fake/fakewait.c)
 * end measured as they end unmeasured: the fake GPU makes ranges wait as the real one does. */

#define MEMORY "dram__bytes_read.sum"
#define SM "sm__inst_executed.sum"

struct result {
	struct lines lines;
	struct program *client;
	double seconds;
};

static uint64_t total(const struct result *r, const char *key)
{
	return (uint64_t)line_number(lines_at(&r->lines, "totals", 0), key);
}

/* A program that hangs is ended by the test's limit. kernels: those that are measured. */
static void measure_some(struct fixture *f, struct result *r, const char *metrics,
			 const char *kernels, const char *name, const char *rounds)
{
	uint64_t begin_ns = clock_now_ns();

	r->client =
		fixture_client(f, USER_ANN, "--metrics", metrics, "--kernel", kernels, "--format",
			       "jsonl", "-f", "--output", fixture_path(f, "records"), "--",
			       TEST_FAKEWAIT, name, rounds, NULL);
	expect_exit(r->client, 0);
	r->seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
	lines_load(&r->lines, fixture_path(f, "records"));
	assert_int_equal(total(r, "seen"),
			 total(r, "measured") + total(r, "unready") + total(r, "filtered"));
	assert_int_equal(lines_count(&r->lines, "kernel"), total(r, "measured"));
}

static void measure(struct fixture *f, struct result *r, const char *metrics, const char *name,
		    const char *rounds)
{
	measure_some(f, r, metrics, ".", name, rounds);
}

static void expect_values(const struct result *r, const char *key, double each)
{
	for (size_t i = 0; i < lines_count(&r->lines, "kernel"); i++) {
		assert_true(line_number(lines_at(&r->lines, "kernel", i), key) == each);
	}
}

/* 2 blocks of 32 threads */
enum { READ_BYTES = 16 * 64, INSTRUCTIONS = 2 * 100 };

enum { TRIES = 5 };

static void ends(void **state, const char *metrics, const char *name, const char *rounds)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	measure(f, &r, metrics, name, rounds);
	expect_message(r.client, "kernel-waits");
	expect_message(r.client, "waits");
	assert_true(total(&r, "unready") > 0);
	if (strcmp(metrics, MEMORY) == 0) {
		expect_values(&r, MEMORY, READ_BYTES);
	} else {
		expect_values(&r, SM, INSTRUCTIONS);
	}
	requirement_figure("R31", "%s, %s rounds, %s: ended after %.1f s, %llu of %llu measured",
			   name, rounds, metrics, r.seconds,
			   (unsigned long long)total(&r, "measured"),
			   (unsigned long long)total(&r, "seen"));
	lines_deinit(&r.lines);
}

static void a_kernel_waits_for_another_stream_memory(void **state)
{
	ends(state, MEMORY, "spin", "20");
}

static void a_kernel_waits_for_another_stream_sm(void **state)
{
	ends(state, SM, "spin", "20");
}

static void a_kernel_that_did_not_wait_before(void **state)
{
	ends(state, MEMORY, "spin-late", "5");
}

static void a_persistent_kernel_memory(void **state)
{
	ends(state, MEMORY, "persistent", "1");
}

static void a_persistent_kernel_sm(void **state)
{
	ends(state, SM, "persistent", "1");
}

/* The range of the first one is left open. Were it closed while the second one runs, whatever is
 * launched after it would wait for that, and with metrics of the SMs the thread as well. */
static void a_range_is_not_closed_beside_a_kernel_that_waits(void **state)
{
	static const char *const metrics[] = { MEMORY, SM };
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		measure(f, &r, metrics[i], "two", "10");
		assert_int_equal(total(&r, "seen"), 30);
		lines_deinit(&r.lines);
	}
}

static void another_thread_lets_it_go_memory(void **state)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	measure(f, &r, MEMORY, "threads", "3");
	lines_deinit(&r.lines);
}

static void another_thread_lets_it_go_sm(void **state)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	measure(f, &r, SM, "threads", "3");
	lines_deinit(&r.lines);
}

static void the_cpu_writes_later(void **state)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	measure(f, &r, SM, "host", "20");
	assert_true(total(&r, "unready") > 0); /* what stood before the range was no kernel */
	lines_deinit(&r.lines);
	/* The GPU waits by itself here, and the CPU goes on. */
	measure(f, &r, MEMORY, "host", "20");
	assert_true(total(&r, "measured") > 0);
	expect_values(&r, MEMORY, READ_BYTES);
	lines_deinit(&r.lines);
}

/* Nothing was ever launched into the stream that waits. */
static void a_stream_beside_waits_for_the_cpu(void **state)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 2; i++) {
		measure(f, &r, i ? SM : MEMORY, "beside", "20");
		assert_true(total(&r, "measured") >= 20);
		assert_true(total(&r, "unready") > 0);
		lines_deinit(&r.lines);
	}
}

/* What was measured is handed over when it is a second old, by another thread, which asks first
 * whether the GPU is at work. Stop takes its time then, and in that time the program goes on. */
static void what_is_left_out_waits_for_what_is_measured(void **state)
{
	static const char *const metrics[] = { MEMORY, SM };
	struct fixture *f = *state;
	struct result r;

	setenv("GPUCTR_FAKE_STOP_US", "200000", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		measure_some(f, &r, metrics[i], "plain|sets", "left-out", "300");
		assert_int_equal(total(&r, "filtered"), 300);
		assert_true(total(&r, "measured") > 0);
		lines_deinit(&r.lines);
	}
	unsetenv("GPUCTR_FAKE_STOP_US");
}

/* A launch in one context takes the counters from another one, where the same may happen. */
static void counters_change_hands_beside_what_is_left_out(void **state)
{
	static const char *const metrics[] = { MEMORY, SM };
	struct fixture *f = *state;
	struct result r;

	setenv("GPUCTR_FAKE_STOP_US", "20000", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		measure_some(f, &r, metrics[i], "plain|sets", "two-contexts", "5");
		assert_int_equal(total(&r, "filtered"), 5 * 20);
		assert_true(total(&r, "measured") > 0);
		lines_deinit(&r.lines);
	}
	unsetenv("GPUCTR_FAKE_STOP_US");
}

/* Halves of a collective on two GPUs, launched by one thread: by its name it is known not to end by
 * itself, so nobody is patient with it, which would be told. */
static void collectives_from_one_thread(void **state)
{
	static const char *const metrics[] = { MEMORY, SM };
	struct fixture *f = *state;
	struct result r;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		measure(f, &r, metrics[i], "devices", "50");
		assert_true(total(&r, "measured") >= 100); /* the plain ones */
		expect_no_message(r.client, "kernel-waits");
		lines_deinit(&r.lines);
	}
	unsetenv("GPUCTR_FAKE_GPUS");
}

static double seconds_of(struct fixture *f, const char *rounds)
{
	struct result r;

	measure(f, &r, SM, "spin", rounds);
	lines_deinit(&r.lines);
	return r.seconds;
}

/* The patience is paid once a program, not once a launch. What else runs on the machine can only
 * make it longer: one that is too long is repeated. */
static void patience_is_paid_once(void **state)
{
	struct fixture *f = *state;
	bool once = false;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < TRIES && !once; i++) {
		double one = seconds_of(f, "1");

		once = seconds_of(f, "200") < 2 * one + 1;
	}
	assert_true(once);
}

/* A kernel whose range had to be left open counts when nothing else ran meanwhile, else not. */
static void a_range_left_open_counts_one_kernel(void **state)
{
	struct fixture *f = *state;
	struct result r;

	fixture_start_daemon(f, NULL);
	measure(f, &r, SM, "alone", "4");
	assert_int_equal(total(&r, "measured"), 4);
	expect_values(&r, SM, INSTRUCTIONS);
	lines_deinit(&r.lines);
	measure(f, &r, MEMORY, "filled", "4");
	expect_values(&r, MEMORY, READ_BYTES);
	lines_deinit(&r.lines);
}

/* A call into CUPTI that does not return: told after ten seconds, and the capture is over. */
static void a_call_that_does_not_return_is_told(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false); /* it was seen to crash over threads that end as it begins */
	setenv("GPUCTR_FAKE_START_US", "11000000", 1);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", FAKEAPP, "--kernels", "1",
				NULL);
	unsetenv("GPUCTR_FAKE_START_US");
	expect_exit(client, 0);
	expect_output(client, "done 1\n");
	expect_message(client, "stalled");
	expect_message(client, "cuptiRangeProfilerStart has not returned for 10 s");
	expect_message(client, "_Z2k0Pf");
}

/* Of the wait CUPTI tells nobody, so the GPU seems to be idle: it is the thread that hands over
 * what was measured which does not come back, and another one that tells. */
static void a_call_that_waits_for_the_program_is_told(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_UNTOLD", "cuStreamWaitValue32_v2", 1);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", TEST_FAKEWAIT, "rests",
				NULL);
	unsetenv("GPUCTR_FAKE_UNTOLD");
	expect_exit(client, 0);
	expect_output(client, "rests done 2\n");
	expect_message(client, "stalled");
	expect_message(client, "cuptiRangeProfilerStop has not returned for 10 s");
}

/* Captures that begin and end beside a program in standby. */
struct beside {
	const char *name;	  /* of what it does */
	unsigned rounds, kernels; /* of each round */
	int captures;
	const char *duration, *option, *value;
};

/* False: the program was over before they were. */
static bool end_beside(struct fixture *f, const struct beside *b, unsigned rounds)
{
	char text[16], done[64];
	struct program *p, *client;
	bool beside = true;

	snprintf(text, sizeof(text), "%u", rounds);
	snprintf(done, sizeof(done), "%s done %u\n", b->name, rounds * b->kernels);
	p = fixture_client(f, USER_ANN, "standby", "--", TEST_FAKEWAIT, b->name, text, NULL);
	on_demand_wait_listed(f, USER_ANN, p, "");
	for (int i = 0; i < b->captures && beside; i++) {
		client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
					"--duration", b->duration, "--metrics", i % 2 ? SM : MEMORY,
					b->option, b->value, NULL);
		expect_exit(client, 0);
		beside = program_is_running(p);
		if (beside) {
			expect_no_message(client, "not delivered by their process");
		}
	}
	expect_exit(p, 0);
	expect_output(p, done);
	return beside;
}

/* On a busy machine captures take longer than the program that is beside them: then it has more to
 * do. */
static void expect_end_beside(struct fixture *f, const struct beside *b)
{
	enum { ATTEMPTS = 3 };
	unsigned rounds = b->rounds;
	bool beside = false;

	for (int i = 0; i < ATTEMPTS && !beside; i++) {
		beside = end_beside(f, b, rounds);
		rounds *= 4;
	}
	assert_true(beside);
}

/* Kernels that they leave out, and that wait for those they measure. */
static void captures_end_beside_what_they_leave_out(void **state)
{
	const struct beside left_out = { "left-out", 400, 3, 3, "0.6", "--kernel", "plain|sets" };
	struct fixture *f = *state;

	fixture_limit(600);
	setenv("GPUCTR_FAKE_STOP_US", "200000", 1);
	setenv("GPUCTR_FAKE_LATE_US", "20", 1);
	fixture_start_daemon(f, NULL);
	expect_end_beside(f, &left_out);
	unsetenv("GPUCTR_FAKE_STOP_US");
	unsetenv("GPUCTR_FAKE_LATE_US");
}

/* Of a kernel that was launched before the capture nobody has told, nor of its stream. */
static void a_kernel_from_before_the_capture(void **state)
{
	const struct beside resident = { "resident", 2, 602, 2, "1", "--budget", "100%" };
	struct fixture *f = *state;

	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	expect_end_beside(f, &resident);
}

/* Rounds that are not measured end by the fill of each; one that is measured does not until its
 * range is given up. That it ended so often proves nothing. */
static void a_fill_lets_the_kernel_go(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--budget", "20%", "--",
				TEST_FAKEWAIT, "freed", "20000", NULL);
	while (program_is_running(client)) { /* one that hangs is ended by the limit */
		sleep_ms(20);
	}
	expect_exit(client, 0);
	expect_output(client, "freed done 20000\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(a_kernel_waits_for_another_stream_memory),
		SYSTEM_TEST(a_kernel_waits_for_another_stream_sm),
		SYSTEM_TEST(a_kernel_that_did_not_wait_before),
		SYSTEM_TEST(a_persistent_kernel_memory),
		SYSTEM_TEST(a_persistent_kernel_sm),
		SYSTEM_TEST(a_range_is_not_closed_beside_a_kernel_that_waits),
		SYSTEM_TEST(another_thread_lets_it_go_memory),
		SYSTEM_TEST(another_thread_lets_it_go_sm),
		SYSTEM_TEST(the_cpu_writes_later),
		SYSTEM_TEST(a_stream_beside_waits_for_the_cpu),
		SYSTEM_TEST(what_is_left_out_waits_for_what_is_measured),
		SYSTEM_TEST(counters_change_hands_beside_what_is_left_out),
		SYSTEM_TEST(collectives_from_one_thread),
		SYSTEM_TEST(patience_is_paid_once),
		SYSTEM_TEST(a_range_left_open_counts_one_kernel),
		SYSTEM_TEST(a_call_that_does_not_return_is_told),
		SYSTEM_TEST(a_call_that_waits_for_the_program_is_told),
		SYSTEM_TEST(captures_end_beside_what_they_leave_out),
		SYSTEM_TEST(a_kernel_from_before_the_capture),
		SYSTEM_TEST(a_fill_lets_the_kernel_go),
	};

	return SYSTEM_RUN(tests);
}
