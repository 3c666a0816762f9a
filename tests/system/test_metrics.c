/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <unistd.h>

#include <gpuctr/gpuctr.h>

#include "proto/wire/limits.h"
#include "tests/system/raw.h"

/* Metrics and plans: what users may ask of the processes that know NVIDIA's libraries, and what it
 * costs the others. */

/* The answer to a plan of these names. */
static struct wire_message ask_plan(int socket, struct arena *a, const char *const *names, size_t n)
{
	const struct wire_message ask = {
		.type = WIRE_PLAN_REQUEST,
		.plan_request = { 1, "GH100", { n, names } },
	};

	assert_true(raw_send(socket, &ask, -1));
	return raw_receive(socket, a);
}

/* glibc's regcomp() takes 5.4 GiB and 16 s for nested repetitions, and eleven ends of a process
 * used to end the daemon. The daemon compiles no expression of a user's. */
SYSTEM_TEST(an_expensive_expression_costs_the_daemon_nothing)
{
	char nested[96] = "regex:";
	const char *const names[] = { nested };
	struct fixture *f = *state;
	uint64_t begin = now_ms();
	struct wire_message m;
	struct arena a;
	int socket;

	for (size_t i = 0; i < 20; i++) {
		nested[6 + i] = '(';
		memcpy(nested + 27 + 3 * i, "+)+", 3);
	}
	nested[26] = 'a';
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fixture_start_daemon(f, NULL);
	socket = raw_client(f, USER_ANN);
	for (int i = 0; i < 12; i++) {
		m = ask_plan(socket, &a, names, 1);
		assert_int_equal(m.type, WIRE_REFUSAL);
		assert_int_equal(m.refusal.code, GPUCTR_E_BAD_PATTERN);
		assert_true(m.refusal.remedy[0] != '\0');
	}
	assert_true(now_ms() - begin < fixture_time(2000));
	assert_int_equal(count_text(f->daemon->err, "ended ("), 0);
	close(socket);
	arena_deinit(&a);
	expect_service(f, PATIENCE_MS);
}

SYSTEM_TEST(patterns_are_expanded_by_the_client)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "metrics", "--fit",
			   "dram__bytes_*.sum,regex:^lts__t_bytes.sum$", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "dram__bytes_read.sum "), 1);
	assert_int_equal(count_text(p->out, "dram__bytes_write.sum "), 1);
	assert_int_equal(count_text(p->out, "lts__t_bytes.sum "), 1);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_re*.sum", "--stream", "--",
			   FAKEAPP, "--kernels", "3", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "\"dram__bytes_read.sum\":"), 3);
	p = fixture_client(f, USER_ANN, "metrics", "dram__bytes_reed", NULL);
	expect_exit(p, 1);
	expect_message(p, "metric-no-match");
	expect_message(p, "Did you mean dram__bytes_read");
}

/* What could be measured is no secret: CUPTI of this machine tells it too. */
SYSTEM_TEST(who_may_not_measure_is_told_so_and_lists_what_cupti_knows)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-users=1234", NULL);
	p = fixture_client(f, USER_BOB, "metrics", "dram__*", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "dram__bytes_read "), 1);
	expect_message(p, "may not measure");
	p = fixture_client(f, USER_BOB, "metrics", "--socket", f->socket, NULL);
	expect_exit(p, 1);
	expect_message(p, "may not measure");
	p = fixture_client(f, USER_BOB, "metrics", "--fit", "dram__bytes_*.sum", NULL);
	expect_exit(p, 1);
	expect_message(p, "may not measure");
	p = fixture_client(f, USER_BOB, "status", NULL);
	expect_exit(p, 1);
	expect_message(p, "may not measure");
	p = fixture_client(f, USER_BOB, "capture", "--all", NULL);
	expect_exit(p, 125);
	expect_message(p, "may not measure");
	p = fixture_client(f, USER_BOB, "--metrics", "dram__*.sum", "--", FAKEAPP, NULL);
	expect_exit(p, 125);
	expect_output(p, "");
	expect_message(p, "may not measure");
}

/* CUPTI's host library is enough, with no daemon, GPU or privilege. */
SYSTEM_TEST(without_a_daemon_cupti_answers)
{
	struct fixture *f = *state;
	struct program *p = fixture_client(f, USER_ANN, "metrics", "dram__bytes_re*", NULL);
	char folder[128], *old = strdup(getenv("LD_LIBRARY_PATH"));

	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "dram__bytes_read "), 1);
	expect_message(p,
		       "1 metric of GH100, as this machine's CUPTI knows it: no daemon says what");
	p = fixture_client(f, USER_ANN, "metrics", "dram__bytes_reed", NULL);
	expect_exit(p, 1);
	expect_message(p, "Did you mean dram__bytes_read");
	p = fixture_client(f, USER_ANN, "metrics", "dram_read_bytes", NULL);
	expect_exit(p, 0);
	expect_message(p, "dram_read_bytes, as nvprof called it, is dram__bytes_read.sum");
	assert_int_equal(count_text(p->out, "dram__bytes_read "), 1);
	p = fixture_client(f, USER_ANN, "metrics", "--chip", "XY999", NULL);
	expect_exit(p, 1);
	expect_message(p, "error[chip-unknown]: CUPTI knows no chip XY999");
	expect_message(p, "Name one of:");
	/* Who names a daemon means it. */
	p = fixture_client(f, USER_ANN, "metrics", "--socket", f->socket, NULL);
	expect_exit(p, 1);
	expect_message(p, "error[no-daemon]");
	/* Another library of CUPTI's name stands for one that is too old. */
	snprintf(folder, sizeof(folder), "%s/%s", f->folder, "old");
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(symlink("/lib/x86_64-linux-gnu/libm.so.6",
				 fixture_path(f, "old/libcupti.so.13")),
			 0);
	setenv("LD_LIBRARY_PATH", folder, 1);
	p = fixture_client(f, USER_ANN, "metrics", NULL);
	expect_exit(p, 1);
	expect_message(p, "no gpucountd answers at");
	expect_message(p, "error[cupti-too-old]");
	expect_message(p, "remedy: Use CUPTI of CUDA 12.6 or newer.");
	setenv("LD_LIBRARY_PATH", old, 1);
	free(old);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
SYSTEM_TEST(the_planner_has_bounded_memory)
{
	struct fixture *f = *state;
	CLEAN_FREE char *limits = NULL;
	unsigned long long bytes = 0;
	char path[64];
	const char *line;

	fixture_start_daemon(f, NULL);
	expect_service(f, PATIENCE_MS); /* it has entered its sandbox */
	snprintf(path, sizeof(path), "/proc/%d/limits", (int)fixture_worker(f, "planner"));
	limits = read_file(path);
	line = strstr(limits, "Max address space");
	assert_non_null(line);
	assert_int_equal(sscanf(line, "Max address space %llu", &bytes), 1);
	assert_int_equal(bytes, 1ULL << 30);
}
#endif
