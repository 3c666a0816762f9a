/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <unistd.h>

#include "tests/system/lines.h"
#include "tests/system/recorder.h"

/* What goes wrong in a program or is given up by its user: counted for what it is, and nothing
 * else is lost by it. And how measuring grows. */

#define FAKEROUGH built_path("tests/fake/fakerough")

static double threads_of(const char *line)
{
	return line_number_at(line, "grid", 0) * line_number_at(line, "block", 0);
}

static uint64_t total(const struct lines *l, const char *key)
{
	return (uint64_t)line_number(lines_at(l, "totals", 0), key);
}

/* fakerough, measured; ret has its records. */
static struct program *measure_rough(struct fixture *f, const char *contexts, const char *kernels,
				     struct lines *ret)
{
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--format",
				"jsonl", "--output", fixture_path(f, "records"), "--", FAKEROUGH,
				contexts, kernels, NULL);
	expect_exit(client, 0);
	lines_load(ret, fixture_path(f, "records"));
	return client;
}

/* It ran nothing, so there is no record of it, and the next one has its own values. */
SYSTEM_TEST(a_failed_launch_is_counted_as_failed)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	client = measure_rough(f, "1", "100", &l);
	expect_output(client, "done 100 25 0\n");
	assert_int_equal(total(&l, "seen"), 125);
	assert_int_equal(total(&l, "measured"), 100);
	assert_int_equal(total(&l, "failed"), 25);
	assert_int_equal(lines_count(&l, "kernel"), 100);
	for (size_t i = 0; i < 100; i++) {
		const char *line = lines_at(&l, "kernel", i);

		assert_true(line_number_at(line, "grid", 0) == (double)(i % 97 + 1));
		assert_true(line_number(line, "dram__bytes_read.sum") == 16 * threads_of(line));
	}
	lines_deinit(&l);
}

/* The driver gives a new context the address of one that is gone. */
SYSTEM_TEST(a_context_at_an_old_address_is_measured)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	client = measure_rough(f, "8", "12", &l);
	expect_output(client, "done 96 24 7\n"); /* all but the first */
	assert_int_equal(total(&l, "seen"), 120);
	assert_int_equal(total(&l, "measured"), 96);
	assert_int_equal(total(&l, "failed"), 24);
	assert_int_equal(lines_count(&l, "kernel"), 96);
	lines_deinit(&l);
	expect_no_owner(f);
	expect_no_objects(f);
}

/* --- given up --- */

/* Before the daemon has said a word about it: closed as soon as it is there, and the next one has
 * its turn. */
SYSTEM_TEST(a_capture_closed_before_it_was_opened_ends)
{
	const struct gpuctr_capture_options options = recorder_options();
	struct gpuctr_capture_info info;
	struct fixture *f = *state;
	struct recorder r;

	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	recorder_open(&r, &options);
	assert_false(r.opened);
	assert_int_equal(gpuctr_capture_close(r.capture), 0);
	recorder_until(&r, &r.ended);
	assert_int_equal(r.end_code, 0);
	assert_int_equal(raw_captures(f, USER_ANN, &info), 0);
	expect_service(f, 1000);
	recorder_disconnect(&r);
}

/* The token of the client's program, which waits at its start. */
static void read_token(struct program *client, char *ret, size_t size)
{
	char path[64], environment[16384];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)fixture_child(client));
	file = fopen(path, "r");
	assert_non_null(file);
	n = fread(environment, 1, sizeof(environment) - 1, file);
	fclose(file);
	environment[n] = '\0';
	for (const char *p = environment; p < environment + n; p += strlen(p) + 1) {
		if (strncmp(p, "GPUCTR_TOKEN=", 13) == 0) {
			snprintf(ret, size, "%s", p + 13);
			return;
		}
	}
	fail_msg("the program has no token");
}

/* The daemon is killed after it has told of ten launches and before their records came. */
SYSTEM_TEST(what_was_told_of_and_did_not_come_is_lost)
{
	struct wire_message progress = { .type = WIRE_PROGRESS };
	struct wire_message notice = { .type = WIRE_NOTICE };
	struct gpuctr_capture_info info;
	struct fixture *f = *state;
	struct program *client;
	uint32_t process;
	char token[128];
	struct lines l;
	int agent;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "memory", "--format", "jsonl", "--output",
				fixture_path(f, "records"), "--", FAKEAPP, "--kernels", "1",
				"--hold", "start", NULL);
	fixture_wait_held(f, 1);
	read_token(client, token, sizeof(token));
	assert_int_equal(raw_captures(f, USER_ANN, &info), 1);
	agent = raw_agent(f, USER_ANN, token, &process);
	progress.progress =
		(struct wire_progress){ info.capture, process, { .seen = 10, .filtered = 3 } };
	notice.notice =
		(struct wire_notice){ info.capture, process, GPUCTR_E_PROFILER, "told so far", "" };
	assert_true(raw_send(agent, &progress, -1));
	assert_true(raw_send(agent, &notice, -1));
	expect_text_soon(client->err, "told so far");
	fixture_kill_daemon(f);
	expect_text_soon(client->err, "the daemon is gone");
	fixture_release(f);
	program_wait(client);
	lines_load(&l, fixture_path(f, "records"));
	assert_int_equal(total(&l, "seen"), 10);
	assert_int_equal(total(&l, "filtered"), 3);
	assert_int_equal(total(&l, "measured"), 0);
	assert_int_equal(total(&l, "lost"), 7);
	lines_deinit(&l);
	close(agent);
}

/* --- batches --- */

/* A batch that does not fill does not wait for the program's next launch either. */
SYSTEM_TEST(what_was_launched_is_delivered_soon)
{
	struct fixture *f = *state;
	struct recorder r;
	struct program *p;

	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	p = recorder_start(&r, f, FAKEAPP, "--kernels", "20", "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	recorder_until_records(&r, 10);
	fixture_release(f);
	expect_exit(p, 0);
	recorder_close(&r);
	assert_int_equal(r.records, 20);
	assert_int_equal(r.totals.measured, 20);
	recorder_disconnect(&r);
}

struct batches {
	size_t ranges[64]; /* of each */
	size_t n;
};

/* From CUPTI's calls, as the fake has noted them. */
static void read_batches(struct fixture *f, struct batches *ret)
{
	CLEAN_FREE char *text = read_file(fixture_path(f, "calls.log"));
	char *save = NULL;

	*ret = (struct batches){ 0 };
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strstr(line, "cuptiRangeProfilerStart")) {
			assert_true(ret->n < ARRAY_SIZE(ret->ranges));
			ret->n++;
		} else if (strstr(line, "cuptiRangeProfilerPushRange")) {
			assert_true(ret->n > 0);
			ret->ranges[ret->n - 1]++;
		}
	}
}

/* A machine that stands still makes turns dear and batches end early: then it is measured anew. */
static void expect_batches(struct fixture *f, const char *start_us, const char *kernels,
			   bool (*are_right)(const struct batches *b))
{
	struct batches b;

	setenv("GPUCTR_FAKE_START_US", start_us, 1);
	setenv("GPUCTR_FAKE_TRACE", "1", 1);
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5; i++) {
		unlink(fixture_path(f, "calls.log"));
		expect_exit(fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP,
					   "--kernels", kernels, NULL),
			    0);
		read_batches(f, &b);
		if (are_right(&b)) {
			return;
		}
	}
	for (size_t i = 0; i < b.n; i++) {
		print_error("%zu ranges\n", b.ranges[i]);
	}
	fail_msg("batches are not as large as they should be");
}

static bool grow_once(const struct batches *b)
{
	size_t small = 0, most = 0;

	while (small < b->n && b->ranges[small] == 64) {
		small++;
	}
	for (size_t i = 0; i < b->n; i++) {
		most = b->ranges[i] > most ? b->ranges[i] : most;
	}
	return small >= 2 && small <= 4 && small + 1 < b->n && b->ranges[small] == 256 &&
	       most == 256; /* the next step costs 922 ms */
}

/* A step to 256 ranges costs 230 ms and is made when turns have cost as much: with 100 ms for each,
 * at the fourth turn, and at the first only if the machine stood still for long. */
SYSTEM_TEST(batches_grow_by_what_turns_cost)
{
	expect_batches(*state, "100000", "600", grow_once);
}

static bool stay_small(const struct batches *b)
{
	for (size_t i = 0; i + 1 < b->n; i++) {
		if (b->ranges[i] != 64) {
			return false;
		}
	}
	return b->n == 6 && b->ranges[5] == 10;
}

/* Where turns cost nothing there is nothing to gain. */
SYSTEM_TEST(batches_stay_small_where_turns_are_cheap)
{
	expect_batches(*state, "0", "330", stay_small);
}
