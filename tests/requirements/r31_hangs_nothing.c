/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clock.h"
#include "tests/requirements/requirement.h"
#include "tests/system/fixture.h"
#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* R31. Programs whose kernels wait for what is launched or written later (tests/fake/fakewait.c)
 * end measured as they end unmeasured, and do not find their CPU in our wait: the fake GPU makes
 * ranges wait as the real one does. */

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

	r->client = fixture_client(f, USER_ANN, "--metrics", metrics, "-k", kernels, "-f",
				   stream_to(fixture_path(f, "records")), "--", TEST_FAKEWAIT, name,
				   rounds, NULL);
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
	measure_some(f, r, metrics, "regex:.", name, rounds);
}

static void expect_values(const struct result *r, const char *key, double each)
{
	for (size_t i = 0; i < lines_count(&r->lines, "kernel"); i++) {
		assert_true(line_number(lines_at(&r->lines, "kernel", i), key) == each);
	}
}

/* 2 blocks of 32 threads */
enum { READ_BYTES = 16 * 64, INSTRUCTIONS = 2 * 100 };

enum { TRIES = 5, ANY = 0, ALL = 1000000 };

/* What a program of waiting kernels must come to. */
struct waiting {
	const char *name, *rounds, *metrics; /* NULL: with memory's, then with the SMs' */
	const char *kernels;		     /* that are measured */
	uint64_t least, most;		     /* of them */
	bool leaves_out;		     /* some launches are not measured, because they wait */
	const char *told, *untold;	     /* NULL: anything */
};

#define WAITS "kernel-waits"

static void expect_end(struct fixture *f, const struct waiting *w, const char *metrics)
{
	struct result r;

	measure_some(f, &r, metrics, w->kernels ? w->kernels : "regex:.", w->name, w->rounds);
	assert_in_range(total(&r, "measured"), w->least, w->most);
	assert_true(!w->leaves_out || total(&r, "unready") > 0);
	assert_int_equal(total(&r, "filtered") > 0, w->kernels != NULL);
	if (w->told) {
		expect_message(r.client, w->told);
	}
	if (w->untold) {
		expect_no_message(r.client, w->untold);
	}
	if (!w->kernels && strcmp(w->name, "devices") != 0) { /* whose kernels are different ones */
		expect_values(&r, metrics,
			      strcmp(metrics, MEMORY) == 0 ? READ_BYTES : INSTRUCTIONS);
	}
	requirement_figure("R31", "%s, %s rounds, %s: ended after %.1f s, %llu of %llu measured",
			   w->name, w->rounds, metrics, r.seconds,
			   (unsigned long long)total(&r, "measured"),
			   (unsigned long long)total(&r, "seen"));
	lines_deinit(&r.lines);
	fixture_forget_programs(f, f->n_programs - 1);
}

static void expect_ends(struct fixture *f, const struct waiting *w, size_t n)
{
	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < n; i++) {
		if (!w[i].metrics || strcmp(w[i].metrics, MEMORY) == 0) {
			expect_end(f, &w[i], MEMORY);
		}
		if (!w[i].metrics || strcmp(w[i].metrics, SM) == 0) {
			expect_end(f, &w[i], SM);
		}
	}
}

SYSTEM_TEST(kernels_that_wait_for_other_streams_and_threads)
{
	static const struct waiting programs[] = {
		{ "spin", "20", NULL, NULL, ANY, ALL, true, WAITS, NULL },
		/* It has not waited before. */
		{ "spin-late", "5", MEMORY, NULL, ANY, ALL, true, WAITS, NULL },
		{ "persistent", "1", NULL, NULL, ANY, ALL, true, WAITS, NULL },
		/* The range of the first one is left open. Were it closed while the second one
		 * runs, whatever is launched after it would wait for that, and with metrics of the
		 * SMs the thread as well. */
		{ "two", "10", NULL, NULL, ANY, 30, false, NULL, NULL },
		{ "threads", "3", NULL, NULL, ANY, ALL, false, NULL, NULL },
		/* For another context, of which CUPTI tells: the stream that waits is asked. */
		{ "foreign", "20", NULL, NULL, 1, 39, true, NULL, "stalled" },
	};

	expect_ends(*state, programs, ARRAY_SIZE(programs));
}

SYSTEM_TEST(kernels_that_wait_for_what_the_cpu_writes)
{
	static const struct waiting programs[] = {
		/* What stood before the range was no kernel. */
		{ "host", "20", SM, NULL, ANY, ALL, true, NULL, NULL },
		/* The GPU waits by itself here, and the CPU goes on. */
		{ "host", "20", MEMORY, NULL, 1, ALL, false, NULL, NULL },
		/* Nothing was ever launched into the stream that waits. */
		{ "beside", "20", NULL, NULL, 20, ALL, true, NULL, NULL },
		/* The time of a kernel that was waited for in vain may contain the wait, so it is
		 * not counted; with SM metrics its function gets no range any more. */
		{ "alone", "4", SM, NULL, ANY, 0, true, "did not end while it was waited for",
		  NULL },
		{ "alone", "4", MEMORY, NULL, 4, 4, false, NULL, NULL }, /* nobody waits */
		{ "filled", "4", MEMORY, NULL, ANY, ALL, false, NULL, NULL },
	};

	expect_ends(*state, programs, ARRAY_SIZE(programs));
}

/* What was measured is handed over when it is a second old, by another thread, which asks first
 * whether the GPU is at work; and a launch in one context takes the counters from another one. Stop
 * takes its time then, and in that time the program goes on. */
SYSTEM_TEST(what_is_left_out_waits_for_what_is_measured)
{
	static const struct waiting left_out = { "left-out", "300", NULL,  "regex:plain|sets",
						 1,	     ALL,   false, NULL,
						 NULL };
	static const struct waiting two_contexts = {
		"two-contexts", "5", NULL, "regex:plain|sets", 1, ALL, false, NULL, NULL
	};
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_STOP_US", "200000", 1);
	expect_ends(f, &left_out, 1);
	fixture_stop_daemon(f);
	setenv("GPUCTR_FAKE_STOP_US", "20000", 1);
	expect_ends(f, &two_contexts, 1);
}

/* Halves of a collective on two GPUs, launched by one thread: by its name it is known not to end by
 * itself, so nobody is patient with it, which would be told. */
SYSTEM_TEST(collectives_from_one_thread)
{
	static const struct waiting devices = { "devices", "50",  NULL, NULL, 100, /* plain ones */
						ALL,	   false, NULL, WAITS };

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	expect_ends(*state, &devices, 1);
}

/* --- kernels that wait for the CPU (tests/fake/fakedelay.c) --- */

static void measure_delays(struct fixture *f, struct result *r, const char *how, const char *rounds,
			   const char *metrics, const char *kernels)
{
	r->client = fixture_client(f, USER_ANN, "--metrics", metrics, "-k", kernels, "-f",
				   stream_to(fixture_path(f, "records")), "--", TEST_FAKEDELAY, how,
				   rounds, NULL);
	expect_exit(r->client, 0);
	lines_load(&r->lines, fixture_path(f, "records"));
	assert_int_equal(total(r, "seen"),
			 total(r, "measured") + total(r, "unready") + total(r, "filtered"));
}

enum { DELAY_LIMIT_NS = 100000000 };

/* Nobody has waited until a kernel gave up, nor tells a time that holds such a wait. On a machine
 * with other work the CPU may be late for once. */
static void expect_no_delay(struct fixture *f, const char *how, unsigned n_cases,
			    const char *metrics, const char *kernels)
{
	bool kept = true;

	for (int i = 0; i < TRIES && kept; i++) {
		struct result r;

		measure_delays(f, &r, how, "100", metrics, kernels);
		kept = count_text(r.client->out, "limit 0\n") != n_cases;
		for (size_t k = 0; k < lines_count(&r.lines, "kernel"); k++) {
			const char *l = lines_at(&r.lines, "kernel", k);

			kept = kept || line_number(l, "duration_ns") >= DELAY_LIMIT_NS;
		}
		requirement_figure("R31", "delay, %s, %s, %s: %llu of %llu measured", how, metrics,
				   kernels, (unsigned long long)total(&r, "measured"),
				   (unsigned long long)total(&r, "seen"));
		lines_deinit(&r.lines);
	}
	assert_false(kept);
}

SYSTEM_TEST(the_cpu_is_not_kept_memory)
{
	static const char *const kernels[] = { ".", "adds", "delays" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		expect_no_delay(f, "one", 4, MEMORY, kernels[i]);
		expect_no_delay(f, "several", 5, MEMORY, kernels[i]);
	}
}

SYSTEM_TEST(the_cpu_is_not_kept_sm)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_no_delay(f, "one", 4, SM, ".");
	expect_no_delay(f, "several", 5, SM, ".");
}

/* Kernels that are long and wait for nothing are measured, but for the first few: launched ahead,
 * and one by one. */
SYSTEM_TEST(long_kernels_are_measured)
{
	static const char *const metrics[] = { MEMORY, SM };
	static const char *const how[] = { "long", "long-one" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(how); k++) {
			struct result r;

			measure_delays(f, &r, how[k], "200", metrics[i], "regex:.");
			assert_true(total(&r, "measured") >= 180);
			expect_no_message(r.client, "kernel-waits");
			lines_deinit(&r.lines);
		}
	}
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
SYSTEM_TEST(patience_is_paid_once)
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

/* A call into CUPTI that does not return: told after ten seconds, and the capture is over. */
SYSTEM_TEST(a_call_that_does_not_return_is_told)
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
SYSTEM_TEST(a_call_that_waits_for_the_program_is_told)
{
	struct fixture *f = *state;
	bool checked = fixture_check_leaks(false); /* whose tracer crashes over such a thread */
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_UNTOLD", "cuStreamWaitValue32_v2", 1);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--", TEST_FAKEWAIT, "rests",
				NULL);
	unsetenv("GPUCTR_FAKE_UNTOLD");
	fixture_check_leaks(checked);
	expect_exit(client, 0);
	expect_output(client, "rests done 2\n");
	expect_message(client, "stalled");
	expect_message(client, "cuptiRangeProfilerStop has not returned for 10 s");
}

/* A range that waits for what nobody told of never begins, and everything waits for it: told after
 * ten seconds, the profiler's objects are freed, and the program goes on. */
static void expect_let_go(struct fixture *f, const char *metrics, const char *name)
{
	uint64_t begin_ns = clock_now_ns();
	struct program *client;
	char done[64];

	snprintf(done, sizeof(done), "%s done 2\n", name);
	client = fixture_client(f, USER_ANN, "--metrics", metrics, "--", TEST_FAKEWAIT, name, "1",
				NULL);
	expect_exit(client, 0);
	expect_output(client, done);
	expect_message(client, "stalled");
	expect_message(client, strcmp(metrics, MEMORY) == 0
				       ? "the range of a kernel has not begun for 10 s"
				       : "cuptiRangeProfilerPushRange has not returned for 10 s");
	requirement_figure("R31", "%s, %s, untold: ended after %.1f s", name, metrics,
			   (double)(clock_now_ns() - begin_ns) / 1e9);
}

SYSTEM_TEST(a_range_that_does_not_begin_is_told)
{
	struct fixture *f = *state;

	fixture_limit(120);
	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_UNTOLD", "cuStreamWaitEvent", 1);
	expect_let_go(f, MEMORY, "foreign");
	expect_let_go(f, SM, "foreign");
	unsetenv("GPUCTR_FAKE_UNTOLD");
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
SYSTEM_TEST(captures_end_beside_what_they_leave_out)
{
	const struct beside left_out = { "left-out", 400, 3, 3, "0.6", "-k", "regex:plain|sets" };
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
SYSTEM_TEST(a_kernel_from_before_the_capture)
{
	const struct beside resident = { "resident", 2, 602, 2, "1", "--mode", "range" };
	struct fixture *f = *state;

	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	expect_end_beside(f, &resident);
}

/* Rounds that are not measured end by the fill of each; one that is measured does not until its
 * range is given up. That it ended so often proves nothing. */
SYSTEM_TEST(a_fill_lets_the_kernel_go)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", MEMORY, "--every", "5", "--",
				TEST_FAKEWAIT, "freed", "20000", NULL);
	while (program_is_running(client)) { /* one that hangs is ended by the limit */
		sleep_ms(20);
	}
	expect_exit(client, 0);
	expect_output(client, "freed done 20000\n");
}
