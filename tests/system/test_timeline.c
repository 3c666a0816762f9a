/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/sampler/stream.h"

/* Counters of a whole GPU over time: gpuctr-sampler under a lease, as an ordinary user whom the
 * driver refuses, beside programs that know nothing of it. */

enum { KERNELS = 2000, GRIDS = 97, BLOCK = 128, READ_BYTES = 16, WRITTEN_BYTES = 8 };

static int setup(void **state)
{
	int r = fixture_setup_sampling(state);

	unsetenv("GPUCTR_FAKE_RESTRICTED");
	unsetenv("COLUMNS");
	return r;
}

static void start(struct fixture *f)
{
	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
}

/* Waits until the file is larger than that. */
static void wait_for_bytes(const char *path, off_t bytes)
{
	struct stat st;

	wait_until(stat(path, &st) == 0 && st.st_size > bytes);
}

/* Samples are being written, below what they are of. */
static struct program *start_sampling(struct fixture *f, const char *gpu)
{
	const char *path = fixture_path(f, "samples");
	struct program *p;

	unlink(path);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "--devices", gpu, stream_to(path),
			   NULL);
	expect_text_soon(path, "\"type\":\"sample\"");
	assert_int_equal(
		count_text(path,
			   "\"metrics\":[\"dram__bytes_read.sum\",\"dram__bytes_write.sum\"],"),
		1);
	return p;
}

/* What fakeapp's kernels from number first on, each step-th, have as threads. */
static double threads_of(unsigned first, unsigned step)
{
	double sum = 0;

	for (unsigned i = first; i < KERNELS; i += step) {
		sum += (i % GRIDS + 1) * BLOCK;
	}
	return sum;
}

static void run_kernels(struct fixture *f, const char *devices)
{
	char kernels[16];
	struct program *p;

	snprintf(kernels, sizeof(kernels), "%d", KERNELS);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", kernels, "--sleep-us", "100",
			"--devices", devices, NULL);
	expect_exit(p, 0);
	sleep_ms(50); /* until the last of it was decoded */
}

/* The sums of both metrics over all lines, which follow each other without a gap. */
static void expect_sums(struct fixture *f, double read, double written)
{
	FILE *file = fopen(fixture_path(f, "samples"), "re");
	char line[4096];
	double sums[2] = { 0 }, values[2];
	long long start, end, before = 0;

	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line,
			   "{\"type\":\"sample\",\"gpu\":\"%*[^\"]\",\"start_ns\":%lld,\"end_ns\":"
			   "%lld,\"values\":[%lf,%lf]}",
			   &start, &end, &values[0], &values[1]) != 4) {
			assert_non_null(strstr(line, "{\"type\":\"totals\","));
			continue;
		}
		assert_true(end > start && (before == 0 || start == before));
		before = end;
		sums[0] += values[0];
		sums[1] += values[1];
	}
	fclose(file);
	if (sums[0] != read || sums[1] != written) {
		fail_msg("read %.0f, written %.0f; not %.0f and %.0f", sums[0], sums[1], read,
			 written);
	}
}

static void expect_table(struct program *p)
{
	assert_true(count_text(p->out, "dram__bytes_read.sum") >= 1);
	assert_true(count_text(p->out, "mean") >= 1);
	assert_true(count_text(p->out, "B/s") > 1);
}

/* No more of them than there was time for. */
static void expect_no_more(uint64_t samples, uint64_t began_ms, unsigned interval_ms)
{
	assert_true(samples <= (now_ms() - began_ms) / interval_ms + 10);
}

/* --- what it is for --- */

/* None of it is missing, as where a sampler is held up for longer than its buffer lasts. */
static bool end_whole(struct program *p, int signo)
{
	kill(p->pid, signo);
	expect_exit(p, 0);
	return count_text(p->out, "missing") == 0;
}

#define TIMELINE_TEST(f) TEST_WITH(f, setup, fixture_teardown)

TIMELINE_TEST(the_sum_is_what_kernels_moved)
{
	struct fixture *f = *state;
	struct program *p;
	bool whole = false;

	start(f);
	for (int i = 0; i < 5 && !whole; i++) {
		p = start_sampling(f, "0");
		run_kernels(f, "1");
		whole = end_whole(p, SIGINT);
	}
	expect_sums(f, threads_of(0, 1) * READ_BYTES, threads_of(0, 1) * WRITTEN_BYTES);
	expect_table(p);
	assert_int_equal(count_text(p->out, "samples of 10.0 us"), 1);
	assert_int_equal(count_text(p->out, "missing"), 0);
	expect_no_owner(f);
	expect_no_objects(f);
}

TIMELINE_TEST(one_gpu_of_two)
{
	struct fixture *f = *state;
	struct program *p;
	bool whole = false;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	start(f);
	for (int i = 0; i < 5 && !whole; i++) {
		p = start_sampling(f, "1");
		run_kernels(f, "2");
		expect_exit(fixture_client(f, USER_ANN, "capture", "--timeline", "--devices", "0",
					   "--wait", "0", "-d", "0.1", NULL),
			    0);
		whole = end_whole(p, SIGTERM);
	}
	expect_sums(f, threads_of(1, 2) * READ_BYTES, threads_of(1, 2) * WRITTEN_BYTES);
}

TIMELINE_TEST(it_ends_after_its_duration)
{
	struct fixture *f = *state;
	uint64_t began = now_ms();
	struct program *p;

	start(f);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.5", "--interval", "1ms",
			   "--metrics", "dram__bytes_read.sum.per_second,sm__cycles_active.avg",
			   "--stream", NULL);
	expect_exit(p, 0);
	assert_true(now_ms() - began >= 500);
	assert_int_equal(count_text(p->out, "\"type\":\"capture\""), 1);
	assert_true(count_text(p->out, "\"type\":\"sample\"") >= 490);
	expect_no_more(count_text(p->out, "\"type\":\"sample\""), began, 1);
	assert_int_equal(count_text(p->out, "\"type\":\"totals\""), 1);
	assert_int_equal(count_text(p->out, "mean"), 0); /* the stream has standard output */
}

/* For programs: more than ten of these rows, behind this head. */
static void expect_rows(struct program *p, const char *head, const char *row)
{
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, head), 1);
	assert_true(count_text(p->out, row) > 10);
}

/* What it shows is in its file, and report shows the same of that. */
TIMELINE_TEST(a_file_keeps_it)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "samples.gpuctr");
	struct program *p, *report;
	CLEAN_FREE char *shown = NULL, *reported = NULL;

	start(f);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.5", "-o", path, NULL);
	expect_exit(p, 0);
	expect_table(p);
	expect_message(p, "next: gpuctr-client report ");
	report = fixture_client(f, USER_ANN, "report", path, NULL);
	expect_exit(report, 0);
	shown = read_file(p->out);
	reported = read_file(report->out);
	assert_true(strncmp(shown, reported, strlen(shown)) == 0);
	expect_rows(fixture_client(f, USER_ANN, "report", "--csv", path, NULL),
		    "gpu,metric,unit,start_ns,length_ns,min,mean,max\nGPU-",
		    ",dram__bytes_read.sum,byte/second,");
	expect_rows(fixture_client(f, USER_ANN, "report", "--json", path, NULL),
		    "],\"timeline\":[{",
		    "\"metric\":\"dram__bytes_read.sum\",\"unit\":\"byte/second\",\"start_ns\":");
	p = fixture_client(f, USER_ANN, "report", "--attribute", path, NULL);
	expect_exit(p, 1);
	expect_message(p, "error[no-samples]");
}

/* --- who may --- */

TIMELINE_TEST(without_a_permit_the_driver_refuses)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = fixture_run(f, USER_ANN, TEST_SAMPLER, "--metrics", "dram__bytes_read.sum",
			"--duration", "0.1", NULL);
	expect_exit(p, SAMPLER_NOT_ALLOWED);
	expect_message(p, "ERR_NVGPUCTRPERM");
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_SAMPLER, "--metrics",
			   "dram__bytes_read.sum", "--duration", "0.1", NULL);
	expect_exit(p, SAMPLER_ENDED);
}

TIMELINE_TEST(only_one_samples)
{
	struct fixture *f = *state;
	const char *first = fixture_path(f, "first");
	char line[1024];
	struct program *p;

	start(f);
	p = start_sampling(f, "0");
	expect_exit(fixture_client(f, USER_ANN, "capture", "--timeline", "--wait", "0", NULL), 125);
	kill(p->pid, SIGINT);
	expect_exit(p, 0);
	/* Under one lease CUPTI decides. */
	snprintf(line, sizeof(line),
		 "%s --metrics dram__bytes.sum --duration 60 > %s & until test -s %s; do sleep "
		 "0.1; done; %s --metrics dram__bytes.sum > /dev/null; echo $?; kill $!; wait",
		 TEST_SAMPLER, first, first, TEST_SAMPLER);
	p = fixture_client(f, USER_ANN, "permit", "sh", "-c", line, NULL);
	expect_exit(p, 0);
	expect_output(p, "16\n");
	expect_message(p, "another profiler has the GPU's counters");
}

/* --- what cannot be sampled --- */

static void expect_refused(struct fixture *f, const char *metrics, const char *message,
			   const char *name)
{
	struct program *p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.2",
					   "--metrics", metrics, NULL);

	expect_exit(p, 125);
	expect_message(p, message);
	expect_message(p, name);
	expect_output(p, "");
}

TIMELINE_TEST(metrics_that_do_not_fit_are_named)
{
	struct fixture *f = *state;

	start(f);
	expect_refused(f,
		       "dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum,"
		       "l1tex__t_bytes.sum,sm__inst_executed.sum",
		       "error[too-many-passes]",
		       "need 2: sm__inst_executed.sum does not fit beside");
	expect_refused(f, "dram__bytes_read.sum,nonsense.sum", "error[metric-unknown]",
		       "cannot sample nonsense.sum on GH100");
}

/* Presets, globs and names without a rollup are what the daemon's plan makes of them. */
TIMELINE_TEST(names_are_those_of_a_plan)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.1", "--metrics",
			   "dram__bytes_*.sum", "--stream", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "\"dram__bytes_read.sum\",\"dram__bytes_write.sum\""),
			 1);
	assert_int_equal(count_text(p->out, "gpu__time_duration"), 0);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.1", "--metrics", "memory",
			   NULL);
	expect_exit(p, 0);
	assert_true(count_text(p->out, "lts__t_sectors_op_read.sum") >= 1);
	expect_refused(f, "memry", "error[metric-unknown]", "memory");
}

TIMELINE_TEST(wrong_command_lines)
{
	static const struct {
		const char *option, *value, *message; /* NULL: of whatever words */
	} wrong[] = {
		{ "--interval", "10", NULL },
		{ "--interval", "0.1us", NULL },
		{ "--devices", "7", NULL },
		{ "--pid", "1", "--timeline and --pid:" },
		{ "--devices", "0,1", NULL },
		{ "-o", "", NULL },
		{ "-k", "regex:k1", "--timeline and --kernel:" },
		{ "--step", "x", NULL },
		{ "--all", "-q", NULL },
		{ "-d", "0", NULL },
		{ "--mode", "range", NULL },
		{ "--mode", "sample", "--timeline and --mode:" },
		{ "--mode", "trace", NULL },
		{ "--graphs", "whole", NULL },
		{ "--here", "-q", NULL },
	};
	struct fixture *f = *state;

	start(f);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct program *p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d",
						   "0.1", wrong[i].option, wrong[i].value, NULL);

		expect_exit(p, 125);
		if (wrong[i].message) {
			expect_message(p, wrong[i].message);
		}
	}
	setenv("GPUCTR_SAMPLER", "/nowhere", 1);
	expect_exit(fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "1", NULL), 125);
}

/* --- who dies in the middle --- */

TIMELINE_TEST(the_daemon_is_killed)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = start_sampling(f, "0");
	f->daemon_ends_badly = true;
	fixture_kill_daemon(f);
	expect_exit(p, 125);
	expect_message(p, "sampling has ended early");
	expect_table(p);
}

TIMELINE_TEST(the_sampler_is_killed)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = start_sampling(f, "0");
	kill(fixture_child(p), SIGKILL);
	expect_exit(p, 125);
	expect_message(p, "ended without a last word (signal 9, Killed)");
	expect_table(p);
	expect_no_owner(f);
	expect_service(f, PATIENCE_MS);
}

/* --- samplers that are none --- */

/* Of the one that has ended no number is left to be killed, and 0 would be the whole process
 * group: the shell that waits for the client is in it. */
TIMELINE_TEST(what_a_sampler_leaves_behind_writes_nonsense)
{
	struct fixture *f = *state;
	const char *ready = fixture_path(f, "ready");
	char line[512], text[256];
	struct program *p;
	pid_t front;

	start(f);
	snprintf(text, sizeof(text),
		 "#!/bin/sh\necho ready > %s\n(sleep 2; printf %%100s) &\nsleep 1\n", ready);
	fixture_use_sampler(f, text);
	snprintf(line, sizeof(line), "%s capture --timeline --socket %s; echo $?", CLIENT,
		 f->socket);
	p = fixture_run(f, USER_ANN, "/usr/bin/setsid", "-w", "/bin/sh", "-c", line, NULL);
	expect_text_soon(ready, "ready");
	front = fixture_worker(f, "front"); /* the lease does not end at once */
	kill(front, SIGSTOP);
	sleep_ms(3000);
	kill(front, SIGCONT);
	expect_exit(p, 0);
	expect_output(p, "125\n");
	expect_message(p, "the sampler has written nonsense");
}

/* A stream without an end, faster than it can be read. */
TIMELINE_TEST(a_sampler_that_floods_can_be_interrupted)
{
	static const char flood[] =
		"#!/usr/bin/env python3\n"
		"import struct, sys, signal\n"
		"signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
		"metrics = sys.argv[5].encode().split(b',')\n"
		"names = b''.join(n + b'\\0' for n in [sys.argv[3].encode()] + metrics)\n"
		"body = struct.pack('=II16Q', 4, 2, 10000, *15 * [0]) + names + bytes(2)\n"
		"out = sys.stdout.buffer\n"
		"out.write(struct.pack('=II', 1, len(body)) + body)\n"
		"n = 2000\n"
		"samples = struct.pack('=Qdd', 1, 0, 0) * n\n"
		"first = 0\n"
		"while True:\n"
		"    body = struct.pack('=QQqII', first, 0, 1 + first, n, 0) + samples\n"
		"    out.write(struct.pack('=II', 2, len(body)) + body)\n"
		"    first += n\n";
	struct fixture *f = *state;
	struct program *p;

	start(f);
	fixture_use_sampler(f, flood);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "--stream=/dev/null", NULL);
	while (fixture_child(p) <= 0) {
		sleep_ms(10);
	}
	sleep_ms(1000);
	/* It does not listen: the second one ends the client, and with it what the sampler writes
	 * to. */
	for (uint64_t by = now_ms() + PATIENCE_MS; program_is_running(p) && now_ms() < by;) {
		kill(p->pid, SIGINT);
		sleep_ms(500);
	}
	expect_signal(p, SIGINT);
	fixture_wait_for_orphans(f, NULL);
}

TIMELINE_TEST(samples_without_room_cost_the_status)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = fixture_client(f, USER_ANN, "capture", "--timeline", "-d", "0.3", "--stream=/dev/full",
			   NULL);
	expect_exit(p, 125);
	expect_message(p, "warning[stream-failed]: No space left on device");
}

/* --- what is lost --- */

struct counted {
	uint64_t samples, lost, first_interval_ns, interval_ns, sets;
	int64_t last_ns; /* the end of the last sample */
	int64_t gap_ns;
	struct sampler_end end;
};

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct counted *c = user;

	c->first_interval_ns = c->interval_ns = begin->interval_ns;
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct counted *c = user;

	(void)start_ns;
	c->last_ns = end_ns;
	assert_true(values[0] ==
		    0); /* nothing runs: and the first sample after Start is left out */
	c->samples++;
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	struct counted *c = user;

	c->lost += n;
	c->gap_ns += end_ns - start_ns;
}

static void on_end(void *user, const struct sampler_end *end)
{
	((struct counted *)user)->end = *end;
}

static void on_set(void *user, const struct sampler_set *set)
{
	struct counted *c = user;

	c->sets++;
	c->interval_ns = set->interval_ns;
}

static const struct sampler_handler handler = { on_begin, on_sample, on_lost, on_end, on_set };

static void read_stream(const char *path, struct counted *c)
{
	struct sampler_reader *r = sampler_reader_new(&handler, c);
	FILE *file = fopen(path, "re");
	char bytes[4096];
	size_t n;

	assert_non_null(file);
	while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
		assert_int_equal(sampler_reader_feed(r, bytes, n), 0);
	}
	fclose(file);
	sampler_reader_free(r);
}

/* 100 ms of samples and more: each takes 16 bytes, and there are heads. */
enum { BYTES_OF_SAMPLES = 12000 * 16 };

/* The hardware's buffer holds 41 ms here. Where others compute it runs over by itself; a sampler to
 * which that happens again and again ends: then once more. */
static struct program *sample_past_a_stop(struct fixture *f)
{
	struct program *p;

	for (int i = 0; i < 5; i++) {
		struct stat st;
		pid_t sampler;

		p = fixture_client(f, USER_ANN, "permit", "--", TEST_SAMPLER, "--metrics",
				   "dram__bytes_read.sum", "--buffer", "4", "--interval", "10us",
				   NULL);
		sampler = fixture_child(p);
		wait_for_bytes(p->out, BYTES_OF_SAMPLES);
		kill(sampler, SIGSTOP);
		sleep_ms(300);
		assert_int_equal(stat(p->out, &st), 0);
		kill(sampler, SIGCONT);
		wait_for_bytes(p->out, st.st_size + BYTES_OF_SAMPLES);
		kill(sampler, SIGHUP); /* it ends with its last word at any of these */
		program_wait(p);
		if (p->status == 0) {
			break;
		}
	}
	return p;
}

TIMELINE_TEST(a_buffer_that_runs_over_is_told)
{
	struct fixture *f = *state;
	struct counted c = { 0 };
	struct program *p;

	start(f);
	p = sample_past_a_stop(f);
	expect_exit(p, SAMPLER_ENDED);
	read_stream(p->out, &c);
	assert_int_equal(c.end.reason, SAMPLER_ENDED);
	assert_int_equal(c.interval_ns, 10000);
	assert_int_equal(c.end.samples, c.samples);
	assert_int_equal(c.end.lost, c.lost);
	assert_true(c.end.end_ns > c.last_ns);
	assert_true(c.end.overflows >= 1);
	assert_true(c.gap_ns >= 300000000);
	assert_true((int64_t)c.lost * 10000 > c.gap_ns - 100000 &&
		    (int64_t)c.lost * 10000 < c.gap_ns + 100000);
	assert_true(c.samples > 10000);
}

static struct counted sample(struct fixture *f, const char *metric, const char *duration,
			     const char *option, const char *value)
{
	struct counted c = { 0 };
	struct program *p =
		fixture_client(f, USER_ANN, "permit", "--", TEST_SAMPLER, "--metrics", metric,
			       "--buffer", "1", "--duration", duration, option, value, NULL);

	program_wait(p);
	read_stream(p->out, &c);
	expect_exit(p, (int)c.end.reason);
	print_message("%llu, then %llu ns, %llu samples\n", (unsigned long long)c.first_interval_ns,
		      (unsigned long long)c.interval_ns, (unsigned long long)c.samples);
	return c;
}

static struct counted sample_slowly(struct fixture *f, const char *evaluate_ns)
{
	setenv("GPUCTR_FAKE_EVALUATE_NS", evaluate_ns, 1);
	return sample(f, "dram__bytes_read.sum", "5s", "--interval", "200us");
}

/* Decoding and evaluation together take longer than the interval, but neither does. The hardware's
 * buffer holds 0.8 s here: where it runs over by decoding alone nothing can be told. */
TIMELINE_TEST(samples_are_evaluated_while_others_are_decoded)
{
	struct fixture *f = *state;
	struct counted c = { .end.overflows = 1 };
	bool slow = false;

	setenv("GPUCTR_FAKE_DECODE_NS", "130000", 1);
	start(f);
	for (int i = 0; i < 4 && c.end.overflows > 0; i++) {
		c = sample_slowly(f, "130000");
		slow |= c.end.overflows > 0 && sample_slowly(f, "0").end.overflows > 0;
	}
	if (slow && c.end.overflows > 0) {
		fixture_skip("the machine is too slow to decode samples in time");
	}
	assert_int_equal(c.end.reason, SAMPLER_ENDED);
	assert_int_equal(c.end.overflows, 0);
	assert_int_equal(c.lost, 0);
	assert_true(c.samples > 24000);
}

/* By more than the 3 s after which samples that come no more are given up. */
TIMELINE_TEST(samples_are_lost_while_the_clock_was_set_back)
{
	struct fixture *f = *state;
	struct counted c = { 0 };
	uint64_t began_ms = now_ms();
	struct program *p;

	setenv("GPUCTR_FAKE_SET_BACK_MS", "3500", 1);
	start(f);
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_SAMPLER, "--metrics",
			   "dram__bytes_read.sum", "--interval", "1ms", "--duration", "4.5s", NULL);
	expect_exit(p, SAMPLER_ENDED);
	unsetenv("GPUCTR_FAKE_SET_BACK_MS");
	read_stream(p->out, &c);
	assert_int_equal(c.end.overflows, 0);
	assert_int_equal(c.end.lost, c.lost);
	assert_in_range(c.lost, 3499, 3501);
	assert_true(c.samples + c.lost >= 4000);
	expect_no_more(c.samples + c.lost, began_ms, 1);
}

/* Metrics of the SMs take a hundred times as much. */
TIMELINE_TEST(an_interval_that_is_too_short_is_refused)
{
	struct fixture *f = *state;
	struct program *p;

	start(f);
	p = fixture_client(f, USER_ANN, "permit", "--", TEST_SAMPLER, "--metrics",
			   "sm__cycles_active.avg", "--buffer", "1", "--interval", "1us", NULL);
	expect_exit(p, SAMPLER_NO_MEMORY);
	expect_message(p, "Take a longer --interval");
}

static struct program *run_to(struct fixture *f, const char *form)
{
	char command[512], text[768];

	snprintf(command, sizeof(command), "%s --metrics dram__bytes_read.sum --interval 100us",
		 TEST_SAMPLER);
	snprintf(text, sizeof(text), form, command);
	return fixture_run(f, USER_ANN, "/bin/sh", "-c", text, NULL);
}

/* But of a reader that is gone, which is an end as any other, nobody is told. */
TIMELINE_TEST(what_cannot_be_written_is_told)
{
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	p = run_to(f, "exec %s --duration 0.3 >/dev/full");
	expect_exit(p, SAMPLER_FAILED);
	expect_message(p, "samples cannot be written: No space left on device");
	expect_message(p, "sample again");
	p = run_to(f, "exec %s >/dev/full"); /* it does not go on in vain */
	expect_exit(p, SAMPLER_FAILED);
	p = run_to(f, "{ %s; echo status $? >&2; } | true");
	expect_exit(p, 0);
	expect_message(p, "status 0");
	expect_no_message(p, "cannot be written");
}

/* Its pipe is full, and the end does not come through. */
TIMELINE_TEST(a_reader_that_stops_is_told)
{
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	p = run_to(f, "over=$(mktemp -u); { %s --interval 10us --duration 1; echo status $? >&2; "
		      "touch $over; } | until test -e $over; do sleep 0.1; done; rm $over");
	program_wait(p);
	expect_message(p, "status 19");
	expect_message(p, "samples cannot be written: the reader has stopped");
}

/* What a turn has left, because it is decoded slowly, takes longer than the first samples of the
 * next one: that is no silence, whenever sampling ends. */
TIMELINE_TEST(what_is_left_of_a_turn_may_take_long)
{
	static const char *const durations[] = { "1s", "1.2s", "1.4s", "1.6s" };
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	setenv("GPUCTR_FAKE_DECODE_NS", "20000", 1);
	setenv("GPUCTR_FAKE_SAMPLE_BYTES", "6265", 1);
	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
		p = fixture_run(f, USER_ANN, TEST_SAMPLER, "--metrics",
				"dram__bytes_read.sum,sm__inst_executed.sum", "--turns", "200ms",
				"--duration", durations[i], NULL);
		expect_exit(p, 0);
	}
	unsetenv("GPUCTR_FAKE_DECODE_NS");
	unsetenv("GPUCTR_FAKE_SAMPLE_BYTES");
}
