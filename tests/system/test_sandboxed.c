/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"

/* Programs that shut themselves in by a seccomp filter end with the output and status of an
 * unmeasured run, whatever the filter forbids, by what means, for which threads and since when. */

#define FAKESANDBOX built_path("tests/fake/fakesandbox")

#define SHUT_IN "has loaded a seccomp filter"

static const char *const forbidden[] = { "socket", "send" };

static struct program *start_standby(struct fixture *f, const char *whom, const char *what)
{
	struct program *p = fixture_client(f, USER_ANN, "standby", "--", FAKESANDBOX, whom, what,
					   "process", "later", "500", NULL);

	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	while (count_text(p->out, "shut in\n") == 0) { /* forgotten within cuInit() */
		program_kill(p, SIGUSR1);
		sleep_ms(100);
	}
	return p;
}

static void expect_own_end(struct program *p)
{
	program_kill(p, SIGTERM);
	expect_exit(p, 7);
	expect_in_output(p, "shut in\ndone\n");
}

static void restart_front(struct fixture *f)
{
	pid_t front = fixture_worker(f, "front");

	kill(front, SIGKILL);
	while (fixture_worker(f, "front") == front) {
		sleep_ms(10);
	}
	expect_service_soon(f, PATIENCE_MS);
}

static size_t kernels_of(struct fixture *f)
{
	struct lines l;
	size_t n;

	lines_load(&l, fixture_path(f, "now.jsonl"));
	n = lines_count(&l, "kernel");
	lines_deinit(&l);
	return n;
}

/* Nobody captures the program. */
SYSTEM_TEST(the_front_starts_again)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		struct program *all = start_standby(f, "tsync", forbidden[i]);
		struct program *one = start_standby(f, "thread", forbidden[i]);

		restart_front(f);
		on_demand_wait_listed(f, USER_ANN, one, "\"capture\":0");
		sleep_ms(1500); /* the other would have tried twice by now */
		assert_false(on_demand_is_listed(f, USER_ANN, all, ""));
		expect_own_end(all);
		expect_own_end(one);
	}
}

/* metrics: NULL: a trace. */
static struct program *capture_one(struct fixture *f, const struct program *p, const char *metrics)
{
	return fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p),
			      metrics ? "--metrics" : "--mode", metrics ? metrics : "trace", "-f",
			      stream_to(fixture_path(f, "now.jsonl")), NULL);
}

/* In the launching thread CUPTI would set up what counts. A trace asks nothing of that thread. */
SYSTEM_TEST(a_program_that_shut_one_thread_in_is_traced)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		p = start_standby(f, "thread", forbidden[i]);
		c = capture_one(f, p, "dram__bytes_read.sum");
		expect_text_soon(c->err, SHUT_IN);
		program_kill(c, SIGINT);
		program_wait(c);
		for (int again = 0; again < 2; again++) {
			c = capture_one(f, p, NULL);
			expect_text_soon(fixture_path(f, "now.jsonl"), "\"type\":\"kernel\"");
			program_kill(c, SIGINT);
			program_wait(c);
		}
		expect_own_end(p);
	}
}

SYSTEM_TEST(a_program_that_shut_all_in_is_left_alone)
{
	struct fixture *f = *state;
	struct program *p, *c;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		p = start_standby(f, "tsync", forbidden[i]);
		c = capture_one(f, p, i == 0 ? "dram__bytes_read.sum" : NULL);
		expect_text_soon(c->err, SHUT_IN);
		program_kill(c, SIGINT);
		program_wait(c);
		assert_int_equal(kernels_of(f), 0);
		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		expect_own_end(p);
	}
}

static void measure(struct fixture *f, const char *whom, const char *what)
{
	struct program *p =
		fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-f",
			       stream_to(fixture_path(f, "now.jsonl")), "--", FAKESANDBOX, whom,
			       what, "process", "after", "500", NULL);
	pid_t child;

	expect_text_soon(p->out, "shut in\n");
	expect_text_soon(p->err, SHUT_IN);
	child = fixture_child(p);
	kill(child, SIGTERM);
	expect_exit(p, 7);
	assert_int_equal(count_text(p->out, "shut in\ndone\n"), 1);
}

/* A driver that restricts nothing gives the counters to who does not ask for them, too. */
SYSTEM_TEST(one_that_was_started_to_be_measured)
{
	struct fixture *f = *state;

	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
		measure(f, "thread", forbidden[i]);
		measure(f, "tsync", forbidden[i]);
	}
}

/* --- the matrix --- */

static void need_no_sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	fixture_skip("the sanitizer's own calls are among those that the filters forbid");
#endif
}

/* Programs without us are the rule by which those with us are measured: status and output. All
 * cells run at once, as children of one shell. */

enum { CELLS_MAX = 64 };

static const char *const cells_begun[] = { "parent", "before", "after", "later", NULL };

static size_t make_cells(char cells[][64], const char *const *whens)
{
	static const char *const whats[] = { "deny", "allow" };
	static const char *const actions[] = { "errno", "thread", "process" };
	static const char *const whoms[] = { "tsync", "thread" };
	size_t n = 0;

	for (size_t i = 0; i < 2 * 3 * 2; i++) {
		for (size_t k = 0; whens[k]; k++) {
			assert_true(n < CELLS_MAX);
			snprintf(cells[n++], 64, "%s %s %s %s", whoms[i % 2], whats[i / 2 % 2],
				 actions[i / 4], whens[k]);
		}
	}
	return n;
}

/* For sh -c: writes output and status of each cell into a file of its own in folder, and its pid.
 * Signals that come before a cell listens are lost. */
static char *make_script(char cells[][64], size_t n, const char *folder)
{
	char *script;
	size_t bytes;
	FILE *f = open_memstream(&script, &bytes);

	fprintf(f, "trap '' USR1\n");
	for (size_t i = 0; i < n; i++) {
		fprintf(f, "(%s %s 10000 & echo $! >%s/%zu.pid; wait $!; echo $?) >%s/%zu 2>&1 &\n",
			FAKESANDBOX, cells[i], folder, i, folder, i);
	}
	fprintf(f, "wait\n");
	fclose(f);
	return script;
}

static char *make_folder(struct fixture *f, const char *name)
{
	char *folder = strdup(fixture_path(f, name));

	assert_int_equal(mkdir(folder, 0777), 0);
	assert_int_equal(chmod(folder, 0777), 0);
	return folder;
}

struct matrix {
	char cells[CELLS_MAX][64];
	size_t n;
	char *alone, *with; /* folders */
	struct program *p;
};

static char *text_of(const char *folder, size_t i, const char *suffix)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%zu%s", folder, i, suffix);
	return read_file(path);
}

static bool is_later(const char *cell)
{
	return strcmp(strrchr(cell, ' ') + 1, "later") == 0;
}

static void signal_cell(const char *folder, size_t i, int signo)
{
	CLEAN_FREE char *pid = text_of(folder, i, ".pid");

	if (*pid) {
		kill((pid_t)strtol(pid, NULL, 10), signo);
	}
}

/* Those that have it from the beginning have their filter, or have died of it. */
static void wait_begun(const struct matrix *m, const char *folder)
{
	for (size_t i = 0; i < m->n; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%zu", folder, i);
		if (!is_later(m->cells[i])) {
			expect_text_soon(path, "shut in\n");
		}
	}
}

/* The others are told to. */
static void shut_in_later(const struct matrix *m, const char *folder)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	for (size_t i = 0; i < m->n; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%zu", folder, i);
		while (count_text(path, "shut in\n") == 0) {
			assert_true(now_ms() < by);
			signal_cell(folder, i, SIGUSR1);
			sleep_ms(20);
		}
	}
}

static bool is_listed(struct fixture *f, const struct matrix *m, size_t i)
{
	struct program *status = fixture_client(f, USER_ANN, "status", "--json", NULL);
	CLEAN_FREE char *pid = text_of(m->with, i, ".pid");
	char text[32];
	bool listed;

	expect_exit(status, 0);
	snprintf(text, sizeof(text), "\"pid\":%ld,", strtol(pid, NULL, 10));
	listed = count_text(status->out, text) > 0;
	fixture_forget_programs(f, f->n_programs - 1);
	return listed;
}

/* Those without a filter wait for captures. */
static void wait_listed(struct fixture *f, const struct matrix *m)
{
	for (size_t i = 0; i < m->n; i++) {
		wait_until(!is_later(m->cells[i]) || is_listed(f, m, i));
	}
}

static void end_all(const struct matrix *m, const char *folder)
{
	for (size_t i = 0; i < m->n; i++) {
		signal_cell(folder, i, SIGTERM);
	}
}

static void end_matrix(struct matrix *m)
{
	size_t differ = 0;

	end_all(m, m->with);
	expect_exit(m->p, 0);
	for (size_t i = 0; i < m->n; i++) {
		char *alone = text_of(m->alone, i, ""), *with = text_of(m->with, i, "");

		assert_string_equal(alone, "shut in\ndone\n7\n");
		if (strcmp(alone, with) != 0) {
			print_error("%s: \"%s\" in place of \"%s\"\n", m->cells[i], with, alone);
			differ++;
		}
		free(alone);
		free(with);
	}
	free(m->alone);
	free(m->with);
	assert_int_equal(differ, 0);
}

static void run_alone(struct fixture *f, struct matrix *m)
{
	char *script = make_script(m->cells, m->n, m->alone);
	struct program *p = fixture_run(f, USER_ANN, "/bin/sh", "-c", script, NULL);

	free(script);
	wait_begun(m, m->alone);
	shut_in_later(m, m->alone);
	end_all(m, m->alone);
	expect_exit(p, 0);
}

static void begin_matrix(struct fixture *f, struct matrix *m, const char *verb)
{
	char *script;

	m->n = make_cells(m->cells, cells_begun);
	m->alone = make_folder(f, "alone");
	m->with = make_folder(f, "with");
	run_alone(f, m);
	script = make_script(m->cells, m->n, m->with);
	m->p = strcmp(verb, "standby") == 0
		       ? fixture_client(f, USER_ANN, verb, "--", "/bin/sh", "-c", script, NULL)
		       : fixture_client(f, USER_ANN, verb, "--mode", "trace", "-f",
					stream_to(fixture_path(f, "now.jsonl")), "--", "/bin/sh",
					"-c", script, NULL);
	free(script);
}

SYSTEM_TEST(in_standby_while_nobody_captures)
{
	struct fixture *f = *state;
	struct matrix m;

	need_no_sanitizer();
	fixture_start_daemon(f, NULL);
	begin_matrix(f, &m, "standby");
	wait_begun(&m, m.with);
	wait_listed(f, &m);
	shut_in_later(&m, m.with);
	sleep_ms(6000);
	restart_front(f);
	sleep_ms(2500); /* agents come back within 2.25 s */
	end_matrix(&m);
}

static struct program *capture_all(struct fixture *f)
{
	return fixture_client(f, USER_ANN, "capture", "--program", "fakesandbox", "--mode", "trace",
			      "-f", stream_to(fixture_path(f, "now.jsonl")), NULL);
}

SYSTEM_TEST(in_standby_captured)
{
	struct fixture *f = *state;
	struct matrix m;
	struct program *c;

	need_no_sanitizer();
	fixture_start_daemon(f, NULL);
	begin_matrix(f, &m, "standby");
	wait_begun(&m, m.with);
	wait_listed(f, &m);
	c = capture_all(f);
	expect_text_soon(fixture_path(f, "now.jsonl"), "\"type\":\"kernel\"");
	wait_begun(&m, m.with);
	shut_in_later(&m, m.with);
	sleep_ms(500);
	program_kill(c, SIGINT);
	program_wait(c);
	c = capture_all(f);
	expect_text_soon(c->err, SHUT_IN);
	program_kill(c, SIGINT);
	program_wait(c);
	end_matrix(&m);
}

SYSTEM_TEST(started_to_be_measured)
{
	struct fixture *f = *state;
	struct matrix m;

	need_no_sanitizer();
	fixture_start_daemon(f, NULL);
	begin_matrix(f, &m, "run");
	expect_text_soon(fixture_path(f, "now.jsonl"), "\"type\":\"kernel\"");
	wait_begun(&m, m.with);
	shut_in_later(&m, m.with);
	sleep_ms(500);
	end_matrix(&m);
}

/* Of counters one process at a time: the filter comes before CUPTI has set them up, or while they
 * are read. */
SYSTEM_TEST(measured_with_counters)
{
	static const char *const whats[] = { "deny", "allow" };
	static const char *const whens[] = { "after", "later" };
	struct fixture *f = *state;

	need_no_sanitizer();
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 2 * 2 * 2; i++) {
		struct program *p;

		unlink(fixture_path(f, "now.jsonl"));
		p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-f",
				   stream_to(fixture_path(f, "now.jsonl")), "--", FAKESANDBOX,
				   i & 4 ? "tsync" : "thread", whats[i & 1], "process",
				   whens[i >> 1 & 1], "2000", NULL);

		if (i >> 1 & 1) {
			expect_text_soon(fixture_path(f, "now.jsonl"), "\"type\":\"kernel\"");
			kill(fixture_child(p), SIGUSR1);
		}
		expect_text_soon(p->out, "shut in\n");
		sleep_ms(200);
		kill(fixture_child(p), SIGTERM);
		expect_exit(p, 7);
		assert_int_equal(count_text(p->out, "shut in\ndone\n"), 1);
		assert_true((kernels_of(f) > 0) == ((i >> 1 & 1) == 1));
	}
}

/* A container's filter forbids nothing that we call. */
SYSTEM_TEST(under_the_filter_of_a_container)
{
	struct fixture *f = *state;
	struct program *p;

	need_no_sanitizer();
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKESANDBOX, "tsync", "container", "errno",
			   "parent", "500", NULL);
	for (int again = 0; again < 2; again++) {
		on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
		on_demand_capture(f, USER_ANN, p, "dram__bytes_read.sum");
		restart_front(f);
	}
	expect_own_end(p);
}
