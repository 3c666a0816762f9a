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

SYSTEM_TEST(a_wrong_expression_is_refused)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, "-k", "regex:k(", "--", FAKEAPP, NULL),
		       "'k(' is not taken as a regular expression", "at character 2");
	expect_exit(fixture_client(f, USER_ANN, "-k", "regex:k[0-3]\\(", "--", FAKEAPP, NULL), 0);
}

/* A client that does not look itself, or of another release. */
SYSTEM_TEST(the_daemon_refuses_a_wrong_expression_too)
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

SYSTEM_TEST(options_that_cannot_work_are_refused)
{
	static const struct {
		const char *options[5], *what;
	} wrong[] = {
		{ { "-o", "run.csv" }, "`gpuctr-client export run.gpuctr -o run.csv`" },
		{ { "-o", "run.json" }, "--stream=run.json" },
		{ { "-o", "-" }, "needs a name; for a stream of records" },
		{ { "-o", "" }, "-o '': this is an SQLite file, and needs a name" },
		{ { "--stream=run.csv" }, "`gpuctr-client export run.gpuctr -o run.csv`" },
		{ { "--stream=" }, "--stream: '' is not the name of a file" },
		{ { "--stream=run.gz" }, "| gzip >run.gz" },
		{ { "--format", "csv" }, "'--format' is gone: --stream[=FILE] writes lines" },
		{ { "--stream=same", "-osame" }, "name the same file" },
		{ { "--stream=./same", "-osame" }, "name the same file" },
		{ { "--stream=/nonexistent/run" }, "No such file" },
		{ { "--stream=/tmp" }, "Is a directory" },
		{ { "--metrics", "" }, "--metrics: '' is not a list" },
		{ { "--devices", "," }, "--devices: ',' is not a list" },
		{ { "--lease", "60" }, "'--lease' is gone: a lease lasts as long as the capture" },
		{ { "--wait", "-1" }, "--wait: '-1' is not a time up to a year" },
		{ { "--duration", "0s" }, "--duration: '0s' is not a time above 0" },
		{ { "--duration", "1.0000000000000000000000000000000x" },
		  "0x' is not a time above 0" },
		{ { "--schedule", "active=0" }, "active=0 measures no step" },
		{ { "--schedule", "wait=1" }, "active=N is missing" },
		{ { "--interval", "2s" }, "a time from 1us to 1s" },
		{ { "--no-wait" }, "'--no-wait' is gone: --wait 0 does that" },
		{ { "--timeout", "5" }, "'--timeout' is gone: --wait TIME does that" },
		{ { "--duration", "1e9" }, "above 0, and up to a year" },
		{ { "--duration", "5 s" }, "such as 10s, 500ms or 5min" },
		{ { "--count", "-1" }, "'-1' is not a whole number from 0" },
		{ { "--chip", "TU102" }, "'--chip' is gone: a recording names its own chip" },
		{ { "--kernal", "k" }, "did you mean '--kernel'?" },
		{ { "--nvtx", "--nvtx-include", "a/" }, "leave ncu's flag --nvtx out" },
		{ { "--set", "full" }, "--metrics memory, compute, tensor" },
		{ { "--section=SpeedOfLight" }, "'--section' is an option of ncu" },
		{ { "--csv" }, "`gpuctr-client report FILE --csv`" },
		{ { "--query-metrics" }, "`gpuctr-client metrics` lists them" },
		{ { "--page", "raw" }, "`gpuctr-client report FILE` shows them" },
		{ { "--target-processes", "all" }, "child processes are followed" },
		{ { "--pages" }, "unknown option '--pages'" },
		{ { "--budget", "5%" }, "'--budget' is gone: --mode sample measures at little" },
		{ { "--budget=100%" }, "'--budget' is gone: " },
		{ { "--seed", "7" }, "'--seed' is gone: nothing is chosen at random" },
		{ { "-t", "cuda,nvtx" }, "'-t' is an option of nsys: kernels are measured" },
		{ { "-w", "true" }, "PROGRAM's output is its own" },
		{ { "-y", "5" }, "'-y' is an option of nsys: a program that was started" },
		{ { "-p", "A@D" }, "--within nvtx:NAME does that" },
		{ { "--sample=none" }, "'--sample' is an option of nsys: kernels are measured" },
		{ { "--kill", "none" }, "PROGRAM always runs on" },
		{ { "--cuda-graph-trace=node" }, "--graphs nodes shows a graph's kernels" },
		{ { "--gpu-metrics-devices=0" }, "`gpuctr-client capture --timeline`" },
		{ { "--pid", "1" }, "'--pid' is an option of another verb" },
		{ { "--mode", "budget" }, "--mode budget is gone: --mode sample measures" },
		{ { "--mode", "chosen" },
		  "--mode: 'chosen' is not a mode: range, sample or trace" },
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

/* What --help says of the default, of every mode or of its own. */
SAMPLING_TEST(a_default_may_be_given)
{
	static const char *const given[][2] = {
		{ "--mode=range", "--metrics=memory" }, { "--mode=range", "--graphs=whole" },
		{ "--mode=range", "--devices=0" },	{ "--mode=trace", "--graphs=nodes" },
		{ "--mode=sample", "--graphs=nodes" },	{ "--mode=sample", "--interval=10us" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
		struct program *p =
			fixture_client(f, USER_ANN, given[i][0], given[i][1], "--", FAKEAPP, NULL);

		expect_exit(p, 0);
		expect_output(p, "done 10\n");
	}
	expect_refused(
		fixture_client(f, USER_ANN, "--graphs", "nodes", "--", FAKEAPP, NULL),
		"--mode range and --graphs nodes: counters are read around a graph as a whole",
		"leave one out");
}

/* As nsys has it. */
SYSTEM_TEST(force_takes_no_value)
{
	static const char *const forces[] = { "-f", "--force", "-qf" }, *const values[] = {
		"true", "false"
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forces); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			expect_refused(fixture_client(f, USER_ANN, forces[i], values[k], FAKEAPP,
						      NULL),
				       " takes no value", " alone replaces files");
		}
	}
	expect_exit(fixture_client(f, USER_ANN, "-q", "-f", "--", "false", NULL), 1);
	expect_exit(fixture_client(f, USER_ANN, "-f", "-q", "true", NULL), 0);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, 0666), 0);
}

static void expect_two_uses_refused(struct fixture *f, const char *capture, const char *stream)
{
	expect_refused(fixture_client(f, USER_ANN, "-f", "-o", capture, stream_to(stream), "--",
				      FAKEAPP, NULL),
		       "name the same file", "give one of them another name");
}

/* Whatever the file is called, and whether it is there. */
SYSTEM_TEST(a_file_has_one_use)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "sub/run.gpuctr"), *folder = fixture_path(f, "linked");
	const char *other = fixture_path(f, "other");

	fixture_start_daemon(f, NULL);
	assert_int_equal(mkdir(fixture_path(f, "sub"), 0777), 0);
	assert_int_equal(chmod(fixture_path(f, "sub"), 0777), 0);
	assert_int_equal(symlink("sub", folder), 0);
	for (int is_there = 0; is_there < 2; is_there++) {
		if (is_there) {
			write_file(path, "precious");
		}
		expect_two_uses_refused(f, path, path);
		expect_two_uses_refused(f, path, fixture_path(f, "sub/./run.gpuctr"));
		expect_two_uses_refused(f, fixture_path(f, "sub/../sub/run.gpuctr"), path);
		expect_two_uses_refused(f, fixture_path(f, "linked/run.gpuctr"), path);
	}
	assert_int_equal(link(path, other), 0);
	expect_two_uses_refused(f, other, path);
	assert_int_equal(count_text(path, "precious"), 1);
	expect_exit(fixture_client(f, USER_ANN, "-f", "-o", path,
				   stream_to(fixture_path(f, "run.gpuctr")), "--", FAKEAPP, NULL),
		    0); /* the same name in another folder */
}

/* The name of the capture file is known when the process comes, and the stream is there. */
SYSTEM_TEST(a_file_of_a_process_does_not_replace_the_stream)
{
	struct fixture *f = *state;
	const char *stream = fixture_path(f, "3.gpuctr");
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-f", "-o", fixture_path(f, "./%r.gpuctr"),
				stream_to(stream), "--", "sh", "-c",
				"RANK=3 \"$0\" --kernels 5; RANK=4 \"$0\" --kernels 5", FAKEAPP,
				NULL);
	expect_exit(client, 0);
	expect_message(client, "name the same file");
	assert_int_equal(count_text(stream, "\"type\":\"kernel\""), 10);
	assert_int_equal(access(fixture_path(f, "4.gpuctr"), F_OK), 0);
}

SYSTEM_TEST(a_file_of_the_stream_is_not_overwritten)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.jsonl");

	write_file(path, "precious");
	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_ANN, stream_to(path), "--", FAKEAPP, NULL),
		       "the file is there", "-f replaces it");
	assert_int_equal(count_text(path, "precious"), 1);
	expect_exit(fixture_client(f, USER_ANN, "-f", stream_to(path), "--", FAKEAPP, NULL), 0);
	assert_int_equal(count_text(path, "precious"), 0);
	assert_true(count_text(path, "dram__bytes_read.sum") > 0);
}

/* Root's -f in a folder of everybody's: the link there is a stranger's, and what it leads to is
 * not. */
SYSTEM_TEST(a_link_is_not_followed_with_force)
{
	struct fixture *f = *state;
	const char *victim = fixture_path(f, "victim.jsonl"), *link = fixture_path(f, "run.jsonl");
	const char *capture = fixture_path(f, "run.gpuctr");
	FILE *file = fopen(victim, "w");

	assert_non_null(file);
	fputs("precious", file);
	fclose(file);
	assert_int_equal(symlink(victim, link), 0);
	assert_int_equal(symlink(victim, capture), 0);
	fixture_start_daemon(f, NULL);
	expect_refused(fixture_client(f, USER_SELF, "-f", stream_to(link), "--", FAKEAPP, NULL),
		       "this is a link", "name the file itself");
	expect_refused(fixture_client(f, USER_SELF, "-f", "-o", capture, "--", FAKEAPP, NULL),
		       "this is a link", "Name the file itself");
	assert_int_equal(count_text(victim, "precious"), 1);
}

SYSTEM_TEST(a_mistyped_verb_has_its_near_match)
{
	struct fixture *f = *state;
	struct program *client;

	client = fixture_client(f, USER_ANN, "metric", "dram__*", NULL);
	expect_exit(client, 127);
	expect_message(client, "did you mean 'gpuctr-client metrics'?");
	client = fixture_client(f, USER_ANN, "--socket", f->socket, "status", NULL);
	expect_exit(client, 127);
	expect_message(client, "a verb stands first");
	client = fixture_client(f, USER_ANN, "top", "--once", NULL); /* not /usr/bin/top */
	expect_exit(client, 2);
	expect_message(client, "'top' is gone: `gpuctr-client status --watch` shows the daemon");
	client = fixture_client(f, USER_ANN, "ps", NULL);
	expect_exit(client, 2);
	expect_message(client, "'ps' is gone: `gpuctr-client status` shows the programs");
	client = fixture_client(f, USER_ANN, "profile", "-o", "run", FAKEAPP, NULL);
	expect_exit(client, 2);
	expect_message(client, "'profile' is a verb of nsys: no verb is wanted: gpuctr-client -o");
	client = fixture_client(f, USER_ANN, "stats", "run.gpuctr", NULL);
	expect_exit(client, 2);
	expect_message(client, "'stats' is a verb of nsys: `gpuctr-client report FILE` does that");
	client = fixture_client(f, USER_ANN, "plan", "memory", NULL);
	expect_exit(client, 2);
	expect_message(client, "`gpuctr-client metrics --fit LIST` does that");
	expect_exit(fixture_client(f, USER_ANN, "metrics", "--fit", "", NULL), 2);
	client = fixture_client(f, USER_ANN, "metrics", "--fit", "memory", "dram", NULL);
	expect_exit(client, 2);
	expect_message(client, "--fit and dram: a list of metrics, or what to look for");
	client = fixture_client(f, USER_ANN, "metrics", "--catalogue", NULL);
	expect_exit(client, 2);
	expect_message(client, "unknown option '--catalogue'; --help lists them");
	client = fixture_client(f, USER_ANN, "help", "--help", NULL);
	expect_exit(client, 0);
	client = fixture_client(f, USER_ANN, "help", "foo", NULL);
	expect_exit(client, 2);
	expect_message(client, "there are run, capture, standby, permit, metrics, report, export");
}

/* Whatever the default preset is, a recording need not hold it. */
SYSTEM_TEST(a_recording_says_what_it_holds)
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
SYSTEM_TEST(half_a_preset_is_refused)
{
	struct fixture *f = *state;
	struct program *plan;

	fixture_start_daemon(f, NULL);
	plan = fixture_client(f, USER_ANN, "metrics", "--chip", "TU102", "--fit", "tensor", NULL);
	expect_exit(plan, 1);
	expect_message(plan, "metric-other-chip");
	expect_message(plan, "needs sm__inst_executed_pipe_tensor.sum, which TU102 does not have");
	expect_message(plan, "--metrics dram__bytes_read.sum,dram__bytes_write.sum\n");
	expect_exit(fixture_client(f, USER_ANN, "metrics", "--chip", "GH100", "--fit", "tensor",
				   NULL),
		    0);
	expect_exit(fixture_client(f, USER_ANN, "metrics", "--chip", "TU102", "--fit", "memory",
				   NULL),
		    0);
}

/* --- machines that cannot be measured --- */

static void expect_no_file(const char *path)
{
	assert_int_equal(access(path, F_OK), -1);
}

SYSTEM_TEST(without_a_gpu_nothing_is_run)
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

SYSTEM_TEST(without_the_capability_nothing_is_run)
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

SYSTEM_TEST(with_the_capability_a_restricted_driver_is_measured)
{
	struct fixture *f = *state;

	fixture_need_perfmon();
	restrict_driver(f);
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
}

/* --- nothing measured --- */

SYSTEM_TEST(a_script_hears_that_nothing_was_measured)
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

SYSTEM_TEST(a_program_that_could_not_be_joined_is_told_of)
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
SYSTEM_TEST(a_script_hears_that_there_was_nothing_to_measure)
{
	const char *const rows[][6] = {
		{ "--", "/bin/true" },
		{ "--", FAKEAPP, "--no-cuda" },
		{ "--", FAKEAPP, "--kernels", "0" },
		{ "-k", "regex:gemm", "--", FAKEAPP },
		{ "--nvtx", "step/", "--", FAKEAPP },
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
	expect_exit(fixture_client(f, USER_ANN, "-q", "--fail-if-none", "-k", "regex:k0", "--",
				   FAKEAPP, NULL),
		    0);
}

/* No fault of the program: its status is its own, where nobody asked for another. */
SYSTEM_TEST(nothing_to_measure_is_told_and_no_failure)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-q", "--", FAKEAPP, "--no-cuda", NULL);
	expect_exit(client, 0);
	expect_message(client, "No process of the program used CUDA");
	client = fixture_client(f, USER_ANN, "-q", "-k", "regex:gemm", "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_message(client, "no kernel was chosen");
	expect_no_message(client, "--skip");
	expect_message(client, "; and others");
	expect_message(client, "do not match: k0(float*); k1(float*);");
	client = fixture_client(f, USER_ANN, "-k", "regex:k3", "--", FAKEAPP, NULL);
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
SYSTEM_TEST(an_agent_that_is_no_library_is_refused)
{
	struct fixture *f = *state;
	/* Text, a program, a folder, another library, nothing. */
	const struct {
		const char *path, *says;
	} agents[] = { { "/etc/passwd", "error[no-agent]: /etc/passwd is no agent library" },
		       { "/bin/sh", "error[no-agent]: /bin/sh is no agent library" },
		       { "/tmp", "error[no-agent]: /tmp is no agent library" },
		       { built_path("tests/fake/libcuda.so.1"),
			 "/tests/fake/libcuda.so.1 is no agent library" },
		       { "/nowhere/agent.so", "error[no-agent]: the agent /nowhere/agent.so cannot "
					      "be read (No such file or directory)" } };

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(agents); i++) {
		expect_refused(fixture_client(f, USER_ANN, "--metrics", "memory", "--agent",
					      agents[i].path, "--", FAKEAPP, NULL),
			       agents[i].says, "remedy: ");
		expect_refused(fixture_client(f, USER_ANN, "standby", "--agent", agents[i].path,
					      "--", FAKEAPP, NULL),
			       agents[i].says, "remedy: ");
	}
}

/* Neither how it goes nor that it ended as it was asked to. */
SAMPLING_TEST(quiet_is_quiet)
{
	static const char *const ways[][2] = {
		{ "--duration=0.3", "--mode=range" }, { "--duration=0.3", "--mode=sample" },
		{ "--duration=0.3", "--mode=trace" }, { "--count=5", "--mode=trace" },
		{ "--count=5", "--mode=range" },      { "--count=5", "--mode=sample" },
		{ "--verbose", "--wait=0" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct program *p =
			fixture_client(f, USER_ANN, "-q", ways[i][0], ways[i][1], "-f", "-o",
				       fixture_path(f, "run.gpuctr"), "--", FAKEAPP, "--kernels",
				       "2000", "--sleep-us", "400", NULL);
		CLEAN_FREE char *said = NULL;

		expect_exit(p, 0);
		expect_output(p, "done 2000\n");
		said = read_file(p->err);
		if (said[0]) {
			fail_msg("%s %s -q: %s", ways[i][0], ways[i][1], said);
		}
	}
}

/* Its variables, but for those that name the agent and the capture; and the status that a shell
 * would have given. */
/* Each would wait for the other: the outer one for the program's end, the inner one for the lease.
 */
SYSTEM_TEST(a_client_within_a_client_does_not_wait_for_it)
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
SYSTEM_TEST(a_refusal_within_is_not_told_as_another)
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

SYSTEM_TEST(a_program_has_its_own_environment_and_status)
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

/* --- another tool's library --- */

static void expect_replaced(struct fixture *f, const char *cuda, const char *nvtx,
			    const char *message)
{
	struct program *run, *standby;

	setenv("CUDA_INJECTION64_PATH", cuda, 1);
	setenv("NVTX_INJECTION64_PATH", nvtx, 1);
	run = fixture_client(f, USER_ANN, "--mode", "trace", "--", "/bin/true", NULL);
	standby = fixture_client(f, USER_ANN, "standby", "--", "/bin/true", NULL);
	unsetenv("CUDA_INJECTION64_PATH");
	unsetenv("NVTX_INJECTION64_PATH");
	expect_exit(run, 0);
	expect_exit(standby, 0);
	for (int i = 0; i < 2; i++) {
		struct program *p = i ? standby : run;

		assert_int_equal(count_text(p->err, "warning[replaced]"), message ? 1 : 0);
		if (message) {
			expect_message(p, message);
		}
	}
}

/* Whichever of the two variables it is in; the agent itself is no other tool. */
SYSTEM_TEST(a_tool_that_the_agent_replaces_is_told)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_replaced(f, "/opt/fault/libfault.so", "",
			"CUDA_INJECTION64_PATH=/opt/fault/libfault.so is replaced by the agent");
	expect_replaced(f, "/else/libgpuctr-agent.so", "/opt/mark/libmark.so",
			"NVTX_INJECTION64_PATH=/opt/mark/libmark.so is replaced by the agent");
	expect_replaced(f, "/opt/a.so", "/opt/b.so",
			"CUDA_INJECTION64_PATH=/opt/a.so and NVTX_INJECTION64_PATH=/opt/b.so are "
			"replaced");
	expect_replaced(f, "/else/libgpuctr-agent.so", "/else/libgpuctr-agent.so", NULL);
	expect_replaced(f, "", "", NULL);
}
