/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/agents_daemon.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

/* Agents that wait for captures, and the same program captured again and again. */

static struct agents_daemon the_daemon;

static int setup(void **state)
{
	int r = fixture_setup(state);

	setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	setenv("GPUCTR_STANDBY", "1", 1);
	setenv("CUDA_INJECTION64_PATH", TEST_AGENT, 1);
	setenv("NVTX_INJECTION64_PATH", TEST_AGENT, 1);
	return r;
}

static int teardown(void **state)
{
	unsetenv("GPUCTR_FAKE_RESTRICTED");
	unsetenv("GPUCTR_STANDBY");
	unsetenv("CUDA_INJECTION64_PATH");
	unsetenv("NVTX_INJECTION64_PATH");
	return fixture_teardown(state);
}

/* What an exit that waits for a capture's end waits (EXIT_PATIENCE_S in client/agent/agent.c). */
enum { EXIT_WAITS_MS = 10000 };

/* --- what is right --- */

/* Launch i of fakeapp is in the ranges "step <i/4>" and "layer <i%4>". */
static long launch_number(const struct taken *t)
{
	const char *step = strstr(t->path, "step "), *layer = strstr(t->path, "layer ");

	assert_non_null(step);
	assert_non_null(layer);
	return 4 * strtol(step + 5, NULL, 10) + strtol(layer + 6, NULL, 10);
}

/* One thread's launches, every one from the first to the last, with the values of their own.
 * Returns the last one's number. */
static long expect_launches_after(const struct agents_daemon *d, long before,
				  double value_of_thread)
{
	long i = launch_number(&d->taken[0]);

	assert_true(i > before);
	for (size_t k = 0; k < d->n_taken; k++, i++) {
		const struct taken *t = &d->taken[k];
		char kernel[24];

		snprintf(kernel, sizeof(kernel), "k%ld(float*)", i % 8);
		assert_int_equal(launch_number(t), i);
		assert_string_equal(t->kernel, kernel);
		assert_int_equal(t->threads, (i % 97 + 1) * 128);
		assert_true(t->value == value_of_thread * t->threads);
		assert_int_equal(t->index, k);
	}
	assert_int_equal(d->totals.measured, d->n_taken);
	assert_int_equal(d->totals.seen, d->n_taken + d->totals.unready);
	assert_int_equal(d->totals.failed + d->totals.dropped + d->totals.filtered, 0);
	return i - 1;
}

/* Nothing of a capture is left in the program. */
static void expect_standby(struct fixture *f)
{
	expect_no_owner(f);
	assert_int_equal(fixture_count(f, "objects", "b2cc"), 0);
}

enum { FEW = 20 };

#define STANDBY_TEST(f) TEST_WITH(f, setup, teardown)

STANDBY_TEST(captures_follow_one_another)
{
	static const struct {
		const char *metric;
		double value_of_thread;
	} captures[] = {
		{ "dram__bytes_read.sum", 16 },
		{ "dram__bytes_write.sum", 8 },
		{ "l1tex__t_bytes.sum", 40 },
	};
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	long last = -1;
	int agent;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "100000000", "--nvtx", "--sleep-us",
			"200", NULL);
	agent = agents_daemon_register(d, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(captures); i++) {
		long before = last;

		sleep_ms(100); /* launches that nobody measures */
		expect_standby(f);
		agents_daemon_begin(d, agent, (uint32_t)i + 1, captures[i].metric);
		agents_daemon_take(d, agent, 100);
		agents_daemon_end(d, agent);
		last = expect_launches_after(d, before, captures[i].value_of_thread);
		assert_string_equal(d->notices, "");
		/* Sites are numbered anew, and a loop has few, however many steps it takes. */
		assert_in_range(d->taken[0].site, 1, FEW);
		assert_in_range(d->taken[d->n_taken - 1].site, 1, FEW);
	}
	expect_standby(f);
	expect_running(p);
	program_kill(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
}

/* How much of libcuda the program may write to. */
static unsigned long writable_bytes(const struct program *p)
{
	char path[64], *text, *line;
	unsigned long begin, end, bytes = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->pid);
	text = read_file(path);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char rights[8];

		if (strstr(line, "/libcuda.so") &&
		    sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[1] == 'w') {
			bytes += end - begin;
		}
	}
	free(text);
	return bytes;
}

/* The loader has closed the page that holds libcuda's import of ioctl: with our hook in it, and
 * without it again, nothing there can be overwritten that could not be before. */
STANDBY_TEST(libcudas_imports_stay_read_only)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	unsigned long before;
	int agent;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "100000000", "--nvtx", "--sleep-us",
			"200", NULL);
	agent = agents_daemon_register(d, NULL);
	before = writable_bytes(p); /* its data alone */
	for (uint32_t i = 1; i <= 2; i++) {
		agents_daemon_begin(d, agent, i, "dram__bytes_read.sum");
		agents_daemon_take(d, agent, 20);
		assert_true(atomic_load(&d->n_questions) >= i); /* it is in */
		assert_int_equal(writable_bytes(p), before);
		agents_daemon_end(d, agent);
		assert_int_equal(writable_bytes(p), before);
	}
	program_kill(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
}

/* --- a program that is at something --- */

/* A filter is of one capture, also for kernels that a thread knows from another. */
STANDBY_TEST(each_capture_has_its_filter)
{
	static const char *const expressions[] = { NULL, "^k[12]\\(", "^k[67]\\(", NULL };
	static const char *const kernels[] = { "01234567", "12", "67", "01234567" };
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	int agent;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "100000000", "--nvtx", "--sleep-us",
			"200", NULL);
	agent = agents_daemon_register(d, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(expressions); i++) {
		d->kernel_regex = expressions[i];
		agents_daemon_begin(d, agent, (uint32_t)i + 1, "dram__bytes_read.sum");
		agents_daemon_take(d, agent, 16);
		agents_daemon_end(d, agent);
		for (size_t k = 0; k < d->n_taken; k++) {
			assert_non_null(strchr(kernels[i], d->taken[k].kernel[1]));
		}
		assert_true((d->totals.filtered > 0) == (expressions[i] != NULL));
	}
	program_kill(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
}

/* A capture from where the program is held until it is held again, of n records at least. Returns
 * the agent's connection. */
static int capture_held(struct fixture *f, struct agents_daemon *d, size_t n)
{
	int agent = agents_daemon_register(d, NULL);

	fixture_wait_held(f, 1);
	agents_daemon_begin(d, agent, 1, "dram__bytes_read.sum");
	agents_daemon_take_start(d, agent);
	fixture_release(f);
	agents_daemon_take(d, agent, n);
	fixture_wait_held(f, 1);
	agents_daemon_end(d, agent);
	return agent;
}

/* Captures of graphs that began before ours are not disturbed until the last one has ended, what is
 * launched meanwhile is counted for what it is, and CUPTI is free for its next user. */
STANDBY_TEST(graphs_are_being_captured)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	unsigned questions;
	int agent;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, built_path("tests/system/graphing"), NULL);
	agent = capture_held(f, d, 21);
	assert_int_equal(d->totals.seen, 41);
	assert_int_equal(d->totals.capturing, 10);
	assert_int_equal(d->totals.unready, 10);
	assert_int_equal(d->totals.measured, 21);
	questions = atomic_load(&d->n_questions);
	assert_true(questions > 0);
	fixture_release(f);
	expect_exit(p, 0);
	expect_output(p, "graph launched, CUPTI 0, profiler 0\n");
	assert_int_equal(atomic_load(&d->n_questions), questions); /* its own goes to the driver */
	close(agent);
	agents_daemon_close(d);
}

/* --- a program within cuInit() --- */

/* CUPTI is not even opened before cuInit() has returned. False: it may have returned before that
 * was looked at. */
static bool is_looked_at_in_cuinit(struct fixture *f, unsigned init_ms)
{
	struct agents_daemon *d = &the_daemon;
	uint64_t begin_ms = now_ms();
	struct program *p;
	char text[16];
	bool opened, in_time;
	int agent;

	snprintf(text, sizeof(text), "%u", init_ms);
	setenv("GPUCTR_FAKE_INIT_MS", text, 1);
	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "100000000", "--nvtx", "--sleep-us",
			"200", NULL);
	agent = agents_daemon_register(d, NULL);
	agents_daemon_begin(d, agent, 1, "dram__bytes_read.sum");
	sleep_ms(300);
	opened = access(fixture_path(f, "calls.log"), F_OK) == 0;
	in_time = now_ms() - begin_ms < init_ms;
	assert_false(in_time && opened);
	agents_daemon_take(d, agent, 20);
	agents_daemon_end(d, agent);
	expect_launches_after(d, -1, 16);
	program_kill(p, SIGKILL);
	expect_signal(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
	unlink(f->socket);
	unlink(fixture_path(f, "calls.log"));
	return in_time;
}

STANDBY_TEST(a_capture_waits_for_cuinit)
{
	unsigned init_ms = 1500;

	setenv("GPUCTR_FAKE_TRACE", "1", 1);
	while (!is_looked_at_in_cuinit(*state, init_ms)) {
		init_ms *= 2;
		assert_true(init_ms < PATIENCE_MS);
	}
	unsetenv("GPUCTR_FAKE_INIT_MS");
	unsetenv("GPUCTR_FAKE_TRACE");
}

/* A program that goes on without a GPU: its captures end when they are ended, and so does it. */
STANDBY_TEST(a_program_whose_cuinit_fails_is_let_go)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	uint64_t begin_ms;
	int agent;

	setenv("GPUCTR_FAKE_INIT_FAILS", "1", 1);
	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--hold", "failed", NULL);
	agent = agents_daemon_register(d, NULL);
	fixture_wait_held(f, 1);
	for (uint32_t i = 1; i <= 2; i++) {
		agents_daemon_begin(d, agent, i, "dram__bytes_read.sum");
		sleep_ms(200);
		agents_daemon_end(d, agent);
		assert_int_equal(d->totals.seen, 0);
	}
	agents_daemon_begin(d, agent, 3, "dram__bytes_read.sum");
	sleep_ms(200);
	begin_ms = now_ms();
	fixture_release(f);
	expect_exit(p, 3);
	assert_true(now_ms() - begin_ms < EXIT_WAITS_MS); /* for a capture */
	unsetenv("GPUCTR_FAKE_INIT_FAILS");
	close(agent);
	agents_daemon_close(d);
}

/* --- registration --- */

static void expect_claim(const struct wire_agent_hello *h, const char *claim, bool there)
{
	bool found = false;

	for (size_t i = 0; i < h->claims.n; i++) {
		found = found || strcmp(h->claims.v[i], claim) == 0;
	}
	assert_true(found == there);
}

STANDBY_TEST(an_agent_says_who_it_is)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct wire_agent_hello hello;
	struct program *p;
	char pid[32];
	int agent;

	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("GPUCTR_CLAIM_TEAM", "vision", 1);
	setenv("GPUCTR_JOB", "nightly", 1);
	setenv("HOME_SWEET", "private", 1);
	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--hold", "init", NULL);
	agent = agents_daemon_register(d, &hello);
	assert_string_equal(hello.token, "");
	assert_string_equal(hello.program, "fakeapp");
	expect_claim(&hello, "SLURM_JOB_ID=4711", true);
	expect_claim(&hello, "GPUCTR_CLAIM_TEAM=vision", true);
	expect_claim(&hello, "GPUCTR_JOB=nightly", true);
	expect_claim(&hello, "HOME_SWEET=private", false);
	snprintf(pid, sizeof(pid), "PID=%d", p->pid);
	expect_claim(&hello, pid, true);
	unsetenv("SLURM_JOB_ID");
	unsetenv("GPUCTR_CLAIM_TEAM");
	unsetenv("GPUCTR_JOB");
	unsetenv("HOME_SWEET");
	fixture_wait_held(f, 1);
	fixture_release(f);
	expect_exit(p, 0);
	expect_output(p, "done 10\n");
	close(agent);
	agents_daemon_close(d);
}

/* The daemon registers nobody who says more: so the agent says what matters most. */
STANDBY_TEST(who_has_much_to_say_says_a_part)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct wire_agent_hello hello;
	char name[32], value[240];
	struct program *p;
	size_t bytes = 0;
	int agent;

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "GPUCTR_CLAIM_%d", i);
		setenv(name, value, 1);
	}
	setenv("RANK", "5", 1);
	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--hold", "init", NULL);
	agent = agents_daemon_register(d, &hello);
	for (size_t i = 0; i < hello.claims.n; i++) {
		bytes += strlen(hello.claims.v[i]) + 1;
	}
	assert_in_range(bytes, 1, 1024);
	expect_claim(&hello, "RANK=5", true);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "GPUCTR_CLAIM_%d", i);
		unsetenv(name);
	}
	unsetenv("RANK");
	program_kill(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
}

/* --- the program's end --- */

/* A capture begins before the program's kernels. */
static struct program *start_captured(struct fixture *f, int *ret_agent, const char *kernels)
{
	struct agents_daemon *d = &the_daemon;
	struct program *p;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", kernels, "--nvtx", "--hold", "context",
			"--exit", "7", NULL);
	*ret_agent = agents_daemon_register(d, NULL);
	fixture_wait_held(f, 1);
	agents_daemon_begin(d, *ret_agent, 1, "dram__bytes_read.sum");
	agents_daemon_take_start(d, *ret_agent);
	return p;
}

/* Of 12,000 kernels, until its end. */
static uint64_t run_captured(struct fixture *f, bool is_read)
{
	struct agents_daemon *d = &the_daemon;
	int agent;
	struct program *p = start_captured(f, &agent, "12000");
	uint64_t begin_ms = now_ms(), took_ms;

	fixture_release(f);
	if (is_read) {
		agents_daemon_take_goodbye(d, agent);
	}
	expect_exit(p, 7);
	took_ms = now_ms() - begin_ms;
	close(agent);
	agents_daemon_close(d);
	unlink(f->socket);
	return took_ms;
}

/* Exits are waited for once, though CUPTI makes us register our handler twice. */
STANDBY_TEST(a_daemon_that_does_not_read_holds_up_an_exit_once)
{
	uint64_t read_ms = run_captured(*state, true), unread_ms = run_captured(*state, false);

	print_message("the program took %llu ms, and %llu ms when nobody read\n",
		      (unsigned long long)read_ms, (unsigned long long)unread_ms);
	assert_true(unread_ms < read_ms + EXIT_WAITS_MS * 3 / 2);
}

STANDBY_TEST(a_program_in_standby_ends_as_ever)
{
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	uint64_t began_ms;
	int agent;

	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--fork", "--hold", "end", "--exit", "3", NULL);
	agent = agents_daemon_register(d, NULL);
	fixture_wait_held(f, 1);
	began_ms = now_ms();
	fixture_release(f);
	expect_exit(p, 3);
	assert_true(now_ms() - began_ms < EXIT_WAITS_MS); /* for nothing */
	raw_expect_closed(agent);
	close(agent);
	agents_daemon_close(d);
}

/* --- again and again --- */

static long of_status(pid_t pid, const char *name)
{
	char path[64], *text, *at;
	long value;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	text = read_file(path);
	at = strstr(text, name);
	assert_non_null(at);
	value = strtol(at + strlen(name), NULL, 10);
	free(text);
	return value;
}

/* The thread of a capture may be about to end when goodbye has come, and a machine that is busy
 * takes its time: the least that is seen within so long, or as soon as it is no more than expected.
 */
static long least_threads(pid_t pid, long expected, uint64_t patience_ms)
{
	uint64_t until_ms = now_ms() + patience_ms;
	long least = LONG_MAX;

	while (least > expected && now_ms() < until_ms) {
		long now = of_status(pid, "Threads:");

		least = now < least ? now : least;
		sleep_ms(10);
	}
	return least;
}

static void expect_values(const struct agents_daemon *d, double value_of_thread)
{
	for (size_t k = 0; k < d->n_taken; k++) {
		const struct taken *t = &d->taken[k];

		if (t->value != value_of_thread * t->threads) {
			fail_msg("capture %u, record %zu of %zu: %s of %u threads has %f",
				 d->welcome.capture, k, d->n_taken, t->kernel, t->threads,
				 t->value);
		}
	}
}

/* Captures of very different lengths begin and end while threads launch. */
STANDBY_TEST(captures_come_and_go)
{
	enum { THREADS = 4 };
	static const char *const metrics[] = { "dram__bytes_read.sum", "dram__bytes_write.sum" };
	struct fixture *f = *state;
	struct agents_daemon *d = &the_daemon;
	struct program *p;
	uint64_t told;
	long memory_kib = 0, threads = 0;
	size_t descriptors = 0, n = 0;
	int agent;

	fixture_limit(170);
	agents_daemon_open(d, f);
	p = fixture_run(f, USER_ANN, FAKEAPP, "--kernels", "100000000", "--nvtx", "--threads", "4",
			"--streams", "3", "--sleep-us", "100", NULL);
	agent = agents_daemon_register(d, NULL);
	for (uint32_t i = 0; i < 200; i++) {
		agents_daemon_begin(d, agent, i + 1, metrics[i % 2]);
		agents_daemon_take(d, agent, i % 5 == 0 ? 30 : 0);
		agents_daemon_end(d, agent);
		expect_values(d, i % 2 == 0 ? 16 : 8);
		assert_int_equal(d->totals.measured, d->n_taken);
		/* Where we are held up, more may come than the agent keeps; where the program is,
		 * a launch of each thread may be under way at the end. */
		told = d->n_taken + d->totals.unready + d->totals.dropped;
		assert_in_range(d->totals.seen, told, told + THREADS);
		assert_int_equal(d->totals.failed, 0);
		n += d->n_taken;
		if (i == 60) {
			memory_kib = of_status(p->pid, "RssAnon:");
			threads = least_threads(p->pid, 0, 1000);
			descriptors = process_descriptors(p->pid);
		}
	}
	expect_standby(f);
	printf("200 captures, %zu records; memory %ld and %ld KiB, threads %ld and %ld\n", n,
	       memory_kib, of_status(p->pid, "RssAnon:"), threads, of_status(p->pid, "Threads:"));
	assert_true(n > 0);
	assert_true(least_threads(p->pid, threads, PATIENCE_MS) <= threads);
	assert_true(process_descriptors(p->pid) <= descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	/* A capture that were not freed would leave 100 KiB and more each time, 14 MiB by now. What
	 * malloc() keeps grows to 6 MiB in all, and stays there for 1,000 captures; of records that
	 * waited for us it may keep 8 MiB more. */
	assert_true(of_status(p->pid, "RssAnon:") < memory_kib + 4096 + 8192);
#endif
	expect_running(p);
	program_kill(p, SIGKILL);
	close(agent);
	agents_daemon_close(d);
}
