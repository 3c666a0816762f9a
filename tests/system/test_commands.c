/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "proto/wire/status.h"
#include "tests/system/raw.h"

/* What a user types: options that cannot work are refused before the program starts, with a
 * sentence that says what would. */

static void expect_refused(struct program *client, const char *what, const char *remedy)
{
	expect_exit(client, 125);
	expect_output(client, ""); /* its program has not begun */
	expect_message(client, what);
	expect_message(client, remedy);
}

static void a_wrong_expression_is_refused(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, "--kernel", "k(", "--", FAKEAPP, NULL),
		       "'k(' is not taken as a regular expression", "at character 2");
	expect_exit(fixture_client(f, USER_ANN, "--kernel", "k[0-3]\\(", "--", FAKEAPP, NULL), 0);
}

/* A client that does not look itself, or of another release. */
static void the_daemon_refuses_a_wrong_expression_too(void **state)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	struct fixture *f = *state;
	struct wire_message m = { .type = WIRE_OPEN_CAPTURE }, answer;
	struct arena a;
	int fd;

	fixture_start_daemon(f, NULL);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fd = raw_client(f, USER_ANN);
	m.open_capture = (struct wire_open_capture){ .request = 7,
						     .metrics = { 1, metrics },
						     .chip = "",
						     .program = "raw",
						     .selection = { .kernel_regex = "k(" } };
	assert_true(raw_send(fd, &m, -1));
	answer = raw_receive(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_BAD_PATTERN);
	close(fd);
	arena_deinit(&a);
}

static void options_that_cannot_work_are_refused(void **state)
{
	static const struct {
		const char *options[5], *what;
	} wrong[] = {
		{ { "-o", "run.csv" }, "--format csv --output run.csv" },
		{ { "-o", "run.json" }, "--format jsonl --output run.json" },
		{ { "-o", "-" }, "needs a name; for a stream of records" },
		{ { "-o", "" }, "-o '': this is an SQLite file, and needs a name" },
		{ { "--output", "run.csv" }, "Add --format csv" },
		{ { "--output", "run" }, "Add --format table, jsonl or csv" },
		{ { "--format", "jsonl", "--output", "run.csv" }, "the name says csv" },
		{ { "--format", "csv", "--output", "run.json" }, "the name says jsonl" },
		{ { "--format", "csv", "--output", "same", "-osame" }, "the same file" },
		{ { "--format", "csv", "--output", "/nonexistent/run.csv" }, "No such file" },
		{ { "--format", "csv", "--output", "/tmp" }, "Is a directory" },
		{ { "--metrics", "" }, "--metrics: '' is not a list" },
		{ { "--devices", "," }, "--devices: ',' is not a list" },
		{ { "--lease", "0" }, "--lease: '0' is not a number of seconds above 0" },
		{ { "--timeout", "0" }, "--timeout: '0' is not a number of seconds above 0" },
		{ { "--duration", "0s" }, "--duration: '0s' is not a number of seconds above 0" },
		{ { "--duration", "1.0000000000000000000000000000000x" }, "0x' is not a number" },
		{ { "--schedule", "active=0" }, "active=0 measures no step" },
		{ { "--schedule", "wait=1" }, "active=N is missing" },
		{ { "--no-wait", "--timeout", "5" }, "leave one out" },
		{ { "--timeout", "1e9" }, "above 0, and up to a year" },
		{ { "--launch-count", "-1" }, "'-1' is not a whole number from 0" },
		{ { "--chip", "TU102" }, "--chip is of a recording" },
		{ { "--kernal", "k" }, "did you mean '--kernel'?" },
		{ { "--nvtx", "--nvtx-include", "a/" },
		  "'--nvtx' is an option of ncu: NVTX is always on: leave it out" },
		{ { "--set", "full" }, "--metrics memory, compute, tensor" },
		{ { "--section=SpeedOfLight" }, "'--section' is an option of ncu" },
		{ { "--csv" }, "`gpuctr-client report FILE --csv`" },
		{ { "--query-metrics" }, "`gpuctr-client metrics` lists them" },
		{ { "--page", "raw" }, "`gpuctr-client report FILE` shows them" },
		{ { "--target-processes", "all" }, "child processes are followed" },
		{ { "--pages" }, "unknown option '--pages'" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *argv[9] = { CLIENT };
		size_t n = 1;

		for (size_t k = 0; k < ARRAY_SIZE(wrong[i].options) && wrong[i].options[k]; k++) {
			argv[n++] = wrong[i].options[k];
		}
		argv[n++] = "--";
		argv[n++] = FAKEAPP;
		expect_refused(fixture_runv(f, USER_ANN, argv), wrong[i].what, "gpuctr-client: ");
	}
}

static void a_file_of_the_stream_is_not_overwritten(void **state)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.csv");
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs("precious", file);
	fclose(file);
	assert_int_equal(chmod(path, 0666), 0);
	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, "--format", "csv", "--output", path, "--",
				      FAKEAPP, NULL),
		       "the file is there", "-f replaces it");
	assert_int_equal(count_text(path, "precious"), 1);
	expect_exit(fixture_client(f, USER_ANN, "-f", "--format", "csv", "--output", path, "--",
				   FAKEAPP, NULL),
		    0);
	assert_int_equal(count_text(path, "precious"), 0);
	assert_true(count_text(path, "dram__bytes_read.sum") > 0);
}

/* Root's -f in a folder of everybody's: the link there is a stranger's, and what it leads to is
 * not. */
static void a_link_is_not_followed_with_force(void **state)
{
	struct fixture *f = *state;
	const char *victim = fixture_path(f, "victim.csv"), *link = fixture_path(f, "run.csv");
	const char *capture = fixture_path(f, "run.gpuctr");
	FILE *file = fopen(victim, "w");

	assert_non_null(file);
	fputs("precious", file);
	fclose(file);
	assert_int_equal(symlink(victim, link), 0);
	assert_int_equal(symlink(victim, capture), 0);
	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_SELF, "-f", "--format", "csv", "--output", link, "--",
				      FAKEAPP, NULL),
		       "this is a link", "name the file itself");
	expect_refused(fixture_client(f, USER_SELF, "-f", "-o", capture, "--", FAKEAPP, NULL),
		       "this is a link", "Name the file itself");
	assert_int_equal(count_text(victim, "precious"), 1);
}

static void a_mistyped_verb_has_its_near_match(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	client = fixture_client(f, USER_ANN, "metric", "dram__*", NULL);
	expect_exit(client, 127);
	expect_message(client, "did you mean 'gpuctr-client metrics'?");
	client = fixture_client(f, USER_ANN, "--socket", f->socket, "status", NULL);
	expect_exit(client, 127);
	expect_message(client, "a verb stands first");
	expect_exit(fixture_client(f, USER_ANN, "plan", "", NULL), 2);
	expect_exit(fixture_client(f, USER_ANN, "plan", "--metrics", "", NULL), 2);
	client = fixture_client(f, USER_ANN, "metrics", "--list", NULL);
	expect_exit(client, 2);
	expect_message(client, "unknown option '--list'; --help lists them");
	client = fixture_client(f, USER_ANN, "help", "--help", NULL);
	expect_exit(client, 0);
	client = fixture_client(f, USER_ANN, "help", "foo", NULL);
	expect_exit(client, 2);
	expect_message(
		client,
		"there are run, capture, standby, permit, ps, metrics, plan, report, export");
}

/* Whatever the default preset is, a recording need not hold it. */
static void a_recording_says_what_it_holds(void **state)
{
	struct fixture *f = *state;
	const char *recording = fixture_path(f, "run.gpuctr");
	struct program *client;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--raw", "-o", recording, "--metrics",
				   "lts__t_bytes.sum,sm__inst_executed.sum", "--", FAKEAPP, NULL),
		    0);
	client = fixture_client(f, USER_ANN, "--fail-if-none", "--recorded", "--", "/bin/true",
				recording, NULL);
	expect_exit(client, 124); /* it plays nothing */
	expect_message(client, "single pass: lts__t_bytes.sum, sm__inst_executed.sum");
	client = fixture_client(f, USER_ANN, "--recorded", "--metrics", "lts__t_bytes.sum", "--",
				"/bin/true", recording, NULL);
	expect_exit(client, 0);
	expect_message(client, "single pass: lts__t_bytes.sum");
	expect_no_message(client, "sm__inst_executed.sum");
}

/* Bytes alone, under the name of a preset that relates them to operations, mislead. */
static void half_a_preset_is_refused(void **state)
{
	struct fixture *f = *state;
	struct program *plan;

	fixture_start_daemon(f, NULL);
	plan = fixture_client(f, USER_ANN, "plan", "--chip", "TU102", "tensor", NULL);
	expect_exit(plan, 1);
	expect_message(plan, "metric-other-chip");
	expect_message(plan, "needs sm__inst_executed_pipe_tensor.sum, which TU102 does not have");
	expect_message(plan, "--metrics dram__bytes_read.sum,dram__bytes_write.sum\n");
	expect_exit(fixture_client(f, USER_ANN, "plan", "--chip", "GH100", "tensor", NULL), 0);
	expect_exit(fixture_client(f, USER_ANN, "plan", "--chip", "TU102", "memory", NULL), 0);
}

/* --- machines that cannot be measured --- */

static void expect_no_file(const char *path)
{
	assert_int_equal(access(path, F_OK), -1);
}

static void without_a_gpu_nothing_is_run(void **state)
{
	struct fixture *f = *state;
	const char *file = fixture_path(f, "run.gpuctr");
	struct program *status;

	setenv("GPUCTR_FAKE_GPUS", "0", 1);
	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, "-q", "-o", file, "--", FAKEAPP, NULL), "no-gpu",
		       "nvidia-smi");
	expect_no_file(file);
	status = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(status, 0);
	assert_int_equal(count_text(status->out, "nothing can be measured[no-gpu]"), 1);
}

static void restrict_driver(struct fixture *f)
{
	FILE *file;

	assert_int_equal(mkdir(fixture_path(f, "proc"), 0777), 0);
	file = fopen(fixture_path(f, "proc/params"), "w");
	assert_non_null(file);
	fputs("RmProfilingAdminOnly: 1\n", file);
	fclose(file);
}

static void without_the_capability_nothing_is_run(void **state)
{
	struct fixture *f = *state;
	const char *file = fixture_path(f, "run.gpuctr");
	struct program *status;

	fixture_need_perfmon();
	restrict_driver(f);
	f->daemon = fixture_run(f, USER_BOB, TEST_DAEMON, "-s", f->socket, "-v", "--set",
				"allow-users=*", NULL);
	expect_text_soon(f->daemon->err, "listening on");
	expect_message(f->daemon, "nothing can be measured: ");
	expect_refused(fixture_client(f, USER_ANN, "-q", "-o", file, "--", FAKEAPP, NULL),
		       "grant-refused", "CAP_PERFMON");
	expect_no_file(file);
	status = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(status, 0);
	assert_int_equal(count_text(status->out, "nothing can be measured[grant-refused]"), 1);
	assert_int_equal(count_text(status->out, "not measurable"), 1);
	assert_int_equal(count_text(status->out, "free"), 0);
}

static void with_the_capability_a_restricted_driver_is_measured(void **state)
{
	struct fixture *f = *state;

	fixture_need_perfmon();
	restrict_driver(f);
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
}

/* --- nothing measured --- */

static void a_script_hears_that_nothing_was_measured(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	fixture_set_knob(f, "rm_status", 0x1b);
	client = fixture_client(f, USER_ANN, "-q", "--fail-if-none", "--", FAKEAPP, NULL);
	expect_exit(client, 124);
	expect_output(client, "done 10\n");
	expect_message(client, "Nothing was measured, though kernels ran");
	expect_message(client, "10 skipped");
	client = fixture_client(f, USER_ANN, "-q", "--", FAKEAPP, NULL);
	expect_exit(client, 0); /* nobody asked */
	expect_message(client, "Nothing was measured, though kernels ran");
	client = fixture_client(f, USER_ANN, "-q", "--fail-if-none", "--", FAKEAPP, "--exit", "3",
				NULL);
	expect_exit(client, 3); /* what the program says comes first */
	expect_message(client, "Nothing was measured");
	client = fixture_client(f, USER_ANN, "-q", "--fail-if-none", "--recorded", "--", FAKEAPP,
				NULL);
	expect_exit(client, 124);
	expect_message(client, "program played none");
}

static void a_program_that_could_not_be_joined_is_told_of(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_FAIL", "cuptiSubscribe:1:39", 1);
	client = fixture_client(f, USER_ANN, "-q", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "cupti-in-use");
	expect_message(client, "the warning above says why");
}

/* Nothing to measure, or nothing of what was asked for: the same to a script that counts on
 * records.
 */
static void a_script_hears_that_there_was_nothing_to_measure(void **state)
{
	const char *const rows[][6] = {
		{ "--", "/bin/true" },
		{ "--", FAKEAPP, "--no-cuda" },
		{ "--", FAKEAPP, "--kernels", "0" },
		{ "--kernel", "gemm", "--", FAKEAPP },
		{ "--nvtx-include", "step/", "--", FAKEAPP },
		{ "-s100", "--", FAKEAPP, "--kernels", "4" },
	};
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *argv[10] = { CLIENT, "-q", "--fail-if-none" };

		memcpy(argv + 3, rows[i], sizeof(rows[i]));
		client = fixture_runv(f, USER_ANN, argv);
		expect_exit(client, 124);
		expect_message(client, "othing was measured");
	}
	expect_exit(fixture_client(f, USER_ANN, "-q", "--fail-if-none", "--kernel", "k0", "--",
				   FAKEAPP, NULL),
		    0);
}

/* No fault of the program: its status is its own, where nobody asked for another. */
static void nothing_to_measure_is_told_and_no_failure(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-q", "--", FAKEAPP, "--no-cuda", NULL);
	expect_exit(client, 0);
	expect_message(client, "No process of the program used CUDA");
	client = fixture_client(f, USER_ANN, "-q", "--kernel", "gemm", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "no kernel was chosen");
	expect_no_message(client, "--launch-skip");
	expect_message(client, "; and others");
	expect_message(client, "do not match: k0(float*); k1(float*);");
	client = fixture_client(f, USER_ANN, "--kernel", "k3", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_no_message(client, "do not match");
}

static const char *write_script(struct fixture *f, const char *name, const char *text)
{
	const char *path = fixture_path(f, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

/* CUDA would say nothing of it, and the program would run unmeasured. */
static void an_agent_that_is_no_library_is_refused(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--metrics", "memory", "--agent", "/etc/passwd", "--",
			   FAKEAPP, NULL);
	expect_exit(p, 125);
	expect_output(p, "");
	expect_message(p, "error[no-agent]: the agent /etc/passwd is no library");
	expect_message(p, "remedy: ");
}

/* Of what was filtered, in the table and in what is made of the file. */
static void what_a_limit_left_out_is_told(void **state)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.gpuctr");
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--record-limit", "5",
			   "-o", path, "--", FAKEAPP, "--kernels", "40", NULL);
	expect_exit(p, 0);
	expect_message(p, " by --record-limit), 0 dropped");
	p = fixture_client(f, USER_ANN, "report", path, NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, " by --record-limit), 0 dropped"), 1);
}

/* Its variables, but for those that name the agent and the capture; and the status that a shell
 * would have given. */
/* Each would wait for the other: the outer one for the program's end, the inner one for the lease.
 */
static void a_client_within_a_client_does_not_wait_for_it(void **state)
{
	static const char *const outer[] = { "run", "permit" };
	static const char script[] = "c=$(readlink /proc/$PPID/exe); "
				     "\"$c\" --metrics dram__bytes_read.sum -- true; echo inner $?";
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(outer) / sizeof(outer[0]); i++) {
		struct program *p = i == 0 ? fixture_client(f, USER_ANN, outer[i], "--metrics",
							    "dram__bytes_read.sum", "--", "sh",
							    "-c", script, NULL)
					   : fixture_client(f, USER_ANN, outer[i], "--", "sh", "-c",
							    script, NULL);

		expect_exit(p, 0);
		expect_output(p, "inner 125\n");
		expect_message(p, "error[held-by-parent]");
		expect_message(p, "remedy: ");
	}
}

/* The inner one has said what it is; the outer one does not call it something else. */
static void a_refusal_within_is_not_told_as_another(void **state)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--", CLIENT,
			   "--metrics", "dram__bytes_read.sum", "--", "true", NULL);
	expect_exit(p, 125);
	expect_message(p, "error[held-by-parent]");
	expect_message(p, "gpuctr-client in it does that is refused, with its reason above");
	expect_no_message(p, "No process of the program used CUDA");
}

static void a_program_has_its_own_environment_and_status(void **state)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_TOK", "7", 1); /* ours begins like it */
	expect_exit(fixture_client(f, USER_ANN, "-q", "--metrics", "memory", "--", "sh", "-c",
				   "exit ${GPUCTR_TOK:-9}", NULL),
		    7);
	unsetenv("GPUCTR_TOK");
	expect_exit(fixture_client(f, USER_ANN, "-q", "--metrics", "memory", "--",
				   write_script(f, "plain", "exit 5\n"), NULL),
		    5);
	expect_exit(fixture_client(f, USER_ANN, "-q", "--metrics", "memory", "--",
				   write_script(f, "script", "#!/nonexistent/interpreter\n"), NULL),
		    127);
	expect_exit(fixture_client(f, USER_ANN, "-q", "--metrics", "memory", "--", "/etc/passwd",
				   NULL),
		    126);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(a_wrong_expression_is_refused),
		SYSTEM_TEST(the_daemon_refuses_a_wrong_expression_too),
		SYSTEM_TEST(options_that_cannot_work_are_refused),
		SYSTEM_TEST(a_file_of_the_stream_is_not_overwritten),
		SYSTEM_TEST(a_link_is_not_followed_with_force),
		SYSTEM_TEST(a_mistyped_verb_has_its_near_match),
		SYSTEM_TEST(a_recording_says_what_it_holds),
		SYSTEM_TEST(half_a_preset_is_refused),
		SYSTEM_TEST(without_a_gpu_nothing_is_run),
		SYSTEM_TEST(without_the_capability_nothing_is_run),
		SYSTEM_TEST(with_the_capability_a_restricted_driver_is_measured),
		SYSTEM_TEST(a_script_hears_that_nothing_was_measured),
		SYSTEM_TEST(a_program_that_could_not_be_joined_is_told_of),
		SYSTEM_TEST(a_script_hears_that_there_was_nothing_to_measure),
		SYSTEM_TEST(nothing_to_measure_is_told_and_no_failure),
		SYSTEM_TEST(a_client_within_a_client_does_not_wait_for_it),
		SYSTEM_TEST(what_a_limit_left_out_is_told),
		SYSTEM_TEST(a_refusal_within_is_not_told_as_another),
		SYSTEM_TEST(an_agent_that_is_no_library_is_refused),
		SYSTEM_TEST(a_program_has_its_own_environment_and_status),
	};

	return SYSTEM_RUN(tests);
}
