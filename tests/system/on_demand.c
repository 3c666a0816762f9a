/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/on_demand.h"

#include <signal.h>
#include <unistd.h>

#include "tests/system/lines.h"
#include "tests/system/raw.h"

/* How an object of a process begins. */
#define PROCESS "{\"process\":"

/* A program that launches a kernel each half millisecond, for longer than any test. */
#define LONG_RUN "--kernels", "400000", "--sleep-us", "500"

struct program *on_demand_start(struct fixture *f, int uid)
{
	return fixture_client(f, uid, "standby", "--", FAKEAPP, LONG_RUN, NULL);
}

/* As the status of this user tells it: each process is an object. */
bool on_demand_is_listed(struct fixture *f, int uid, const struct program *p, const char *with)
{
	size_t first = f->n_programs;
	struct program *status = fixture_client(f, uid, "status", "--json", NULL);
	char *text, *object, *next;
	char pid[32];
	bool listed = false;

	program_wait(status);
	text = read_file(status->out);
	snprintf(pid, sizeof(pid), "\"pid\":%d,", p->pid);
	for (object = strstr(text, PROCESS); object; object = next) {
		next = strstr(object + 1, PROCESS);
		if (next) {
			next[-1] = '\0';
		}
		listed |= strstr(object, pid) && strstr(object, with);
	}
	free(text);
	fixture_forget_programs(f, first);
	return listed;
}

void on_demand_wait_listed(struct fixture *f, int uid, const struct program *p, const char *with)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (!on_demand_is_listed(f, uid, p, with)) {
		if (now_ms() > by) {
			fail_msg("process %d is not listed with %s", p->pid, with);
		}
		sleep_ms(20);
	}
}

struct program *on_demand_start_listed(struct fixture *f, int uid)
{
	struct program *p = on_demand_start(f, uid);

	on_demand_wait_listed(f, uid, p, "\"capture\":0");
	return p;
}

const char *on_demand_pid(const struct program *p)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", p->pid);
	return text;
}

double on_demand_expect_measured(const char *path, const char *metric)
{
	struct lines l;
	const char *totals;
	double missed;

	lines_load(&l, path);
	assert_true(lines_count(&l, "kernel") > 0);
	totals = lines_at(&l, "totals", 0);
	missed = line_number(totals, "seen") - (double)lines_count(&l, "kernel");
	assert_true(missed >= 0);
	assert_true(line_number(totals, "unready") == missed);
	assert_int_equal(line_number(lines_at(&l, "totals", 0), "measured"),
			 lines_count(&l, "kernel"));
	assert_true(count_text(path, metric) >= lines_count(&l, "kernel"));
	lines_deinit(&l);
	return missed;
}

/* On a busy machine more launches wait in vain, now and then. */
struct program *on_demand_capture(struct fixture *f, int uid, const struct program *p,
				  const char *metric)
{
	enum { TRIES = 5, BEGUN_MAX = 2 };
	const char *path = fixture_path(f, "now.jsonl");
	struct program *c = NULL;
	double missed = BEGUN_MAX + 1;

	for (int i = 0; i < TRIES && missed > BEGUN_MAX; i++) {
		unlink(path);
		c = fixture_client(f, uid, "capture", "--pid", on_demand_pid(p), "--metrics",
				   metric, "--mode", "range", "-f", stream_to(path), NULL);
		expect_text_soon(path, "\"type\":\"kernel\"");
		program_kill(c, SIGINT);
		expect_exit(c, 0);
		missed = on_demand_expect_measured(path, metric);
	}
	assert_true(missed <= BEGUN_MAX);
	return c;
}

static uint64_t read_measured(struct fixture *f)
{
	static const char key[] = "\"measured\":";
	struct program *status = fixture_client(f, USER_ANN, "status", "--json", NULL);
	CLEAN_FREE char *text = NULL;
	uint64_t measured = 0;

	expect_exit(status, 0);
	text = read_file(status->out);
	for (const char *at = text; (at = strstr(at, key)) != NULL; at++) {
		measured += strtoull(at + strlen(key), NULL, 10);
	}
	fixture_forget_programs(f, f->n_programs - 1);
	return measured;
}

void on_demand_wait_measured(struct fixture *f, uint64_t kernels)
{
	wait_until(read_measured(f) >= kernels);
}

void on_demand_interrupt_after(struct fixture *f, int uid, struct program *client, uint64_t kernels)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	struct gpuctr_capture_info i;

	while (program_is_running(client) &&
	       (raw_captures(f, uid, &i) == 0 || i.totals.measured < kernels)) {
		if (now_ms() > by) {
			fail_msg("less than %llu kernels are measured",
				 (unsigned long long)kernels);
		}
		sleep_ms(10);
	}
	if (program_is_running(client)) {
		program_kill(client, SIGINT);
	}
}
