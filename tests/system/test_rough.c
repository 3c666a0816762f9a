/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <unistd.h>

#include "tests/system/lines.h"
#include "tests/system/recorder.h"

/* What goes wrong in a program or is given up by its user: counted for what it is, and nothing
 * else is lost by it. And how measuring grows. */

#define FAKEROUGH built_path("tests/fake/fakerough")

/* fakerough, measured; ret has its records. */
static struct program *measure_rough(struct fixture *f, const char *contexts, const char *kernels,
				     struct lines *ret)
{
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum",
				stream_to(fixture_path(f, "records")), "--", FAKEROUGH, contexts,
				kernels, NULL);
	expect_exit(client, 0);
	lines_load(ret, fixture_path(f, "records"));
	return client;
}

/* The driver gives a new context the address of one that is gone. */
SYSTEM_TEST(a_context_at_an_old_address_is_measured)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	client = measure_rough(f, "8", "12", &l);
	expect_output(client, "done 96 24 7\n"); /* all but the first */
	assert_int_equal(lines_total(&l, "seen"), 120);
	assert_int_equal(lines_total(&l, "measured"), 96);
	assert_int_equal(lines_total(&l, "failed"), 24);
	assert_int_equal(lines_count(&l, "kernel"), 96);
	lines_deinit(&l);
	expect_no_owner(f);
	expect_no_objects(f);
}

/* --- given up --- */

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
	client = fixture_client(f, USER_ANN, "--metrics", "memory",
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
				"1", "--hold", "start", NULL);
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
	assert_int_equal(lines_total(&l, "seen"), 10);
	assert_int_equal(lines_total(&l, "filtered"), 3);
	assert_int_equal(lines_total(&l, "measured"), 0);
	assert_int_equal(lines_total(&l, "lost"), 7);
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
