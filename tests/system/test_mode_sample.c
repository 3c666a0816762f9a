/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "tests/system/figures.h"
#include "tests/system/lines.h"
#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* `--mode sample`: records of a trace with values from samples of the whole GPU, on the fakes,
 * where it is known what each kernel does (tests/fake/README.md). */

/* Kernels of 10 to 130 us, of 13 shapes, one each 400 us. */
#define WORK "--grids", "13", "--blocks", "6000", "--sleep-us", "400"

enum { KERNELS = 2000 };

static struct program *start_run(struct fixture *f, const char *option, const char *value)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics",
			      "dram__bytes_read.sum,dram__bytes_write.sum",
			      stream_to(fixture_path(f, "records")), "-o",
			      fixture_path(f, "run.gpuctr"), "-f", "--", FAKEAPP, "--kernels",
			      "2000", WORK, "--exit", "3", option, value, NULL);
}

/* With the sanitizer of threads a sampler falls behind where others compute, and says so. */
#ifdef __SANITIZE_THREAD__
enum { KNOWN = KERNELS / 2, KNOWN_OF_HALF = KERNELS / 20 };
#define AS_ASKED ""
#else
enum { KNOWN = KERNELS * 95 / 100, KNOWN_OF_HALF = KERNELS / 4 };
#define AS_ASKED "10.0"
#endif

static struct program *start_plain(struct fixture *f)
{
	return start_run(f, "--nvtx", NULL);
}

/* So many kernels have values, of samples as long as was asked for. A sampler that is held up for
 * longer than its buffer lasts loses some, and one that falls behind takes longer ones: then it is
 * begun anew. */
static struct program *run_enough(struct fixture *f, struct program *(*begin)(struct fixture *f),
				  int status, size_t kernels)
{
	for (int i = 0; i < 5; i++) {
		struct program *client = begin(f);
		struct figures g;

		expect_exit(client, status);
		g = figures_of(fixture_path(f, "records"));
		figures_expect(&g, 99, 0.005);
		if (g.known >= kernels &&
		    count_text(client->err, AS_ASKED " us samples of the whole GPU") > 0) {
			return client;
		}
	}
	fail_msg("%zu kernels have never had values", kernels);
	return NULL;
}

/* Of none, or of one of two metrics. */
static size_t count_lacking(const struct program *p)
{
	static const char *const texts[] = { " of 2,000 kernels have no value",
					     " of 2,000 kernels lack a value of some metric" };
	size_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		n += count_message(p->out, texts[i]) + count_message(p->err, texts[i]);
	}
	return n;
}

SAMPLING_TEST(each_kernel_has_its_value_and_its_error)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = run_enough(f, start_plain, 3, KNOWN);
	expect_output(client, "done 2000\n");
	expect_message(client, "GH100, GPU 0, sampled each 10.0 us: dram__bytes_read.sum");
	expect_message(client, "2,000 kernels seen in 1 process: 2,000 recorded, 0 dropped");
	expect_message(client, "values are SAMPLED: ");
	assert_int_equal(count_lacking(client), 1);
	expect_no_message(client, "is killed"); /* it ends when it is asked to */
	assert_true(query_run(f, "SELECT count(*) FROM sampled") == KERNELS);
	assert_true(query_run(f, "SELECT count(*) FROM record JOIN sampled ON record.id = "
				 "sampled.record WHERE (record.\"dram__bytes_read.sum\" IS NULL) "
				 "!= (sampled.\"dram__bytes_read.sum\" IS NULL)") == 0);
	client = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), NULL);
	expect_exit(client, 0);
	assert_true(count_text(client->out, "+-") > 8);
	assert_true(count_text(client->out, "values are SAMPLED") +
			    count_text(client->err, "values are SAMPLED") ==
		    1);
	assert_int_equal(count_lacking(client), 1);
	assert_true(count_text(client->out, AS_ASKED " us samples of the whole GPU") +
			    count_text(client->err, AS_ASKED " us samples of the whole GPU") ==
		    1);
	expect_no_objects(f);
}

static void change(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* What the file keeps gives the same values to the bit, and by the same code. */
SAMPLING_TEST(values_can_be_attributed_again)
{
	struct fixture *f = *state;
	struct program *kept, *again;
	CLEAN_FREE char *of_file = NULL, *anew = NULL;
	const char *path = fixture_path(f, "run.gpuctr");

	fixture_start_daemon(f, NULL);
	run_enough(f, start_plain, 3, KNOWN);
	assert_true(query_run(f, "SELECT sum(count) FROM sample_block") > 50000);
	kept = fixture_client(f, USER_ANN, "report", path, "--by", "kernel,shape", "--json", NULL);
	expect_exit(kept, 0);
	assert_true(count_text(kept->out, "\"error\"") > 8);
	/* Whatever stands in the records. */
	change(path, "UPDATE record SET \"dram__bytes_read.sum\" = 1e9;"
		     "UPDATE sampled SET \"dram__bytes_read.sum\" = 1, alike = 7");
	again = fixture_client(f, USER_ANN, "report", path, "--by", "kernel,shape", "--json",
			       "--attribute", NULL);
	expect_exit(again, 0);
	of_file = read_file(kept->out);
	anew = read_file(again->out);
	assert_string_equal(anew, of_file);
	expect_exit(fixture_client(f, USER_ANN, "report", path, "--html",
				   fixture_path(f, "run.html"), "--attribute", NULL),
		    0);
}

static struct program *start_graphs(struct fixture *f)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			      stream_to(fixture_path(f, "records")), "-o",
			      fixture_path(f, "run.gpuctr"), "-f", "--", FAKEAPP, "--kernels", "50",
			      "--graph", "--graph-nodes", "13", "--graph-launches", "150",
			      "--grids", "13", "--blocks", "6000", "--sleep-us", "3000", NULL);
}

/* Of graphs as well, each of their kernels. */
SAMPLING_TEST(kernels_of_graphs_have_values)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;
	size_t alike = 0;

	fixture_start_daemon(f, NULL);
	client = run_enough(f, start_graphs, 0, KNOWN);
	expect_message(client, " kernels seen in 1 process: 2,000 recorded");
	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		alike += strstr(lines_at(&l, "kernel", i), "\"graph_kernel\"") != NULL;
	}
	lines_deinit(&l);
	assert_int_equal(alike, 150 * 13);
	/* One position for each node, whatever the launch. */
	assert_true(query_run(f, "SELECT count(DISTINCT alike) FROM sampled JOIN graph_kernel g ON "
				 "g.record = sampled.record WHERE alike > 0") == 13);
}

/* From the first range on launches are in it; all have values, but for samples that a sampler that
 * was held up has lost. */
SAMPLING_TEST(ranges_may_be_opened_late)
{
	struct fixture *f = *state;
	size_t known = 0;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && known < 6000; i++) {
		struct program *client;
		size_t in_range = 0;
		struct lines l;

		client = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics",
					"dram__bytes_read.sum", "-f",
					stream_to(fixture_path(f, "records")), "--", FAKEAPP,
					"--kernels", "6000", WORK, "--nvtx-from", "5000", NULL);
		expect_exit(client, 0);
		expect_message(client,
			       "6,000 kernels seen in 1 process: 6,000 recorded, 0 dropped");
		lines_load(&l, fixture_path(f, "records"));
		assert_int_equal(lines_count(&l, "kernel"), 6000);
		known = 0;
		for (size_t k = 0; k < 6000; k++) {
			const char *line = lines_at(&l, "kernel", k);

			known += !strstr(line, "\"metrics\":{\"dram__bytes_read.sum\":null");
			in_range += strstr(line, "\"message\":\"late\"") != NULL;
			assert_null(strstr(line, "\"thread\":null"));
		}
		lines_deinit(&l);
		assert_int_equal(in_range, 1000);
	}
	assert_int_equal(known, 6000);
}

/* Wherever they are told. */
SAMPLING_TEST(values_are_labelled)
{
	static const struct {
		const char *to, *option, *value;
	} exports[] = { { "chrome", "--rank", "0" },
			{ "folded", "--columns", "dram__bytes_read" },
			{ "pyprof", "--columns", "kernel,bytes" },
			{ "folded", "--columns", "time" } };
	struct fixture *f = *state;
	struct program *client;
	const char *path = fixture_path(f, "run.gpuctr");

	fixture_start_daemon(f, NULL);
	expect_exit(start_run(f, "--nvtx", NULL), 3);
	for (size_t i = 0; i < 4; i++) {
		client = fixture_client(f, USER_ANN, "export", path, "--to", exports[i].to,
					exports[i].option, exports[i].value, NULL);
		expect_exit(client, 0);
		assert_int_equal(count_text(client->err, "values are SAMPLED"), i < 3);
		assert_int_equal(count_text(client->out, "\"labels\":\"values SAMPLED\""), i == 0);
	}
	client = fixture_client(f, USER_ANN, "report", "--json", path, "--against", path, NULL);
	expect_exit(client, 0);
	assert_true(count_text(client->out, "\"sampled\":true") == 1);
	client = fixture_client(f, USER_ANN, "report", path, "--against", path, NULL);
	expect_exit(client, 0);
	assert_true(count_text(client->out, "values are SAMPLED") == 2);
}

static struct program *start_filtered(struct fixture *f)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			      stream_to(fixture_path(f, "records")), "-f", "-o",
			      fixture_path(f, "run.gpuctr"), "--every", "2", "--", FAKEAPP,
			      "--kernels", "4000", "--grids", "13", "--blocks", "6000",
			      "--sleep-us", "100", NULL);
}

/* What a filter leaves out has its part of the samples all the same, also when they are divided
 * again. */
SAMPLING_TEST(launches_left_out_take_part)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_message(run_enough(f, start_filtered, 0, KNOWN),
		       "4,000 kernels seen in 1 process: 2,000 recorded, 2,000 filtered");
	figures_expect_again(f, fixture_path(f, "run.gpuctr"));
}

static void expect_refused(struct program *client, const char *text)
{
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, text);
}

/* A change of sets takes more than a second with a sanitizer on a busy machine. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TURNED "20000"
#define TURNED_TEXT "20,000"
#else
#define TURNED "6000"
#define TURNED_TEXT "6,000"
#endif

static const struct {
	const char *name;
	double of_thread;
} turned[] = { { "dram__bytes_read.sum", 16 }, { "sm__inst_executed.sum", 100.0 / 32 },
	       { "lts__t_bytes.sum", 32 },     { "lts__t_sectors_op_read.sum", 0.5 },
	       { "dram__bytes_write.sum", 8 }, { "dram__bytes.sum", 24 } };

/* Few kernels lack a value of any of these metrics, whose values are right. */
static bool has_enough_of_turns(struct fixture *f)
{
	size_t kernels = strtoul(TURNED, NULL, 10);
	bool enough = true;

	for (size_t i = 0; i < ARRAY_SIZE(turned); i++) {
		struct figures g = figures_of_metric(fixture_path(f, "records"), turned[i].name,
						     turned[i].of_thread);

		print_message("%s: ", turned[i].name);
		figures_expect(&g, 98, i == 1 ? 0.03 : 0.01);
		enough &= g.known >= kernels * (i == 1 ? 80 : 95) / 100;
	}
	return enough;
}

/* Five metrics, of which the hardware counts four at a time, and those of SMs more slowly. */
SAMPLING_TEST(metrics_of_several_passes_take_turns)
{
	struct fixture *f = *state;
	struct program *client;
	bool enough = false;

	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && !enough; i++) {
		client = fixture_client(
			f, USER_ANN, "--mode", "sample", "--metrics",
			"dram__bytes_read.sum,sm__inst_executed.sum,lts__t_bytes.sum,"
			"lts__t_sectors_op_read.sum,dram__bytes_write.sum,dram__bytes.sum",
			"-f", stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
			TURNED, WORK, NULL);
		expect_exit(client, 0);
		expect_message(client, "sampled in turns of about 500 ms (metrics: 4 each 10.0 us, "
				       "1 each 208 us, 1 each 10.0 us)");
		expect_message(client, TURNED_TEXT " kernels seen in 1 process: " TURNED_TEXT
						   " recorded, 0 dropped");
		expect_message(client, "turns of 3 sets, a change takes ");
		expect_no_objects(f);
		enough = has_enough_of_turns(f);
	}
	assert_true(enough);
}

SAMPLING_TEST(what_cannot_be_sampled_is_refused_as_a_whole)
{
	static const struct {
		const char *metrics, *option, *value, *text;
	} wrong[] = {
		{ "sm__throughput.avg.pct_of_peak_sustained_elapsed", "--quiet", "--quiet",
		  "is no sum over time" },
		{ "no__such.sum", "--quiet", "--quiet", "metric-unknown" },
		{ "dram__bytes_read.sum", "--raw", "-o%p.gpuctr", "--raw with several files" },
		{ "none", "--quiet", "--quiet", "--metrics none is gone: --mode trace" },
		{ "dram__bytes_read.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
		  "--quiet", "--quiet", "--mode range measures every launch instead" },
	};
	struct fixture *f = *state;
	struct program *holder, *busy;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		expect_refused(fixture_client(f, USER_ANN, "--mode", "sample", "--metrics",
					      wrong[i].metrics, "-o", fixture_path(f, "run.gpuctr"),
					      wrong[i].option, wrong[i].value, "--", FAKEAPP, NULL),
			       wrong[i].text);
	}
	holder = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", NULL);
	fixture_wait_held(f, 1);
	busy = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			      "--wait", "0", "--", FAKEAPP, NULL);
	expect_exit(busy, 125);
	expect_message(busy, "error[gpu-busy]");
	expect_no_message(busy, "--mode range"); /* which would be as busy */
	fixture_release(f);
	expect_exit(holder, 0);
	setenv("GPUCTR_SAMPLER", "/nowhere/gpuctr-sampler", 1);
	expect_refused(fixture_client(f, USER_ANN, "--mode", "sample", "--", FAKEAPP, NULL),
		       "gpuctr-sampler is not there");
}

/* In the file, in the stream, and to who reads the file. */
static void expect_ended_early(struct fixture *f, const char *code)
{
	struct program *report;
	char text[64];

	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'complete'") == 0);
	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'end_code'") > 0);
	snprintf(text, sizeof(text), "\"error\":{\"code\":\"%s\"", code);
	assert_int_equal(count_text(fixture_path(f, "records"), text), 1);
	report = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), NULL);
	expect_exit(report, 0);
	assert_true(count_text(report->out, "NOT COMPLETE") +
			    count_text(report->err, "NOT COMPLETE") ==
		    1);
}

/* What the file has. Whoever writes it may be at it. */
static bool file_says(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;
	bool yes;

	assert_int_equal(sqlite3_open(fixture_path(f, "run.gpuctr"), &db), SQLITE_OK);
	sqlite3_busy_timeout(db, PATIENCE_MS);
	yes = query(db, sql) != 0;
	sqlite3_close(db);
	return yes;
}

/* What was sampled before has come. */
static void wait_for_samples(struct fixture *f)
{
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT max(start_ns) > %llu FROM sample_block",
		 (unsigned long long)clock_wall_ns());
	wait_until(file_says(f, sql));
}

/* Half of it has run, of which all has come: if many samples are missing, it is begun anew. */
static struct program *start_half(struct fixture *f)
{
	static const char whole[] = "SELECT sum(count * interval_ns) > 0.9 * (max(start_ns) - "
				    "min(start_ns)) FROM sample_block";

	for (int i = 0;; i++) {
		struct program *client = start_run(f, "--hold", "middle");

		fixture_wait_held(f, 1);
		on_demand_wait_measured(f, KERNELS / 2);
		wait_for_samples(f);
		if (file_says(f, whole) || i == 4) {
			return client;
		}
		fixture_release(f);
		expect_exit(client, 3);
	}
}

static struct program *start_capture(struct fixture *f, const struct program *p, const char *option,
				     const char *value)
{
	struct program *client =
		fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--mode",
			       "sample", "--metrics", "dram__bytes_read.sum", "-f",
			       stream_to(fixture_path(f, "records")), "-o",
			       fixture_path(f, "run.gpuctr"), option, value, NULL);

	expect_text_soon(client->err, "measuring 1 process");
	wait_for_samples(f);
	return client;
}

/* A capture of running programs ends with its samples, and says so. */
SAMPLING_TEST(a_capture_that_loses_its_samples_has_failed)
{
	struct fixture *f = *state;
	struct program *p, *client;

	fixture_start_daemon(f, "--set", "lease-max=6s", NULL);
	p = on_demand_start_listed(f, USER_ANN);
	client = start_capture(f, p, "--duration", "100");
	fixture_kill_sampler(client, SIGKILL);
	expect_exit(client, 125);
	expect_message(client, "ended without a last word");
	expect_message(client, "until the capture ended early");
	expect_ended_early(f, "profiler");
	client = start_capture(f, p, "--duration", "100");
	expect_exit(fixture_client(f, USER_ANN, "permit", "--", "true", NULL), 0);
	expect_exit(client, 125);
	expect_message(client, "error[lease-expired]");
	expect_ended_early(f, "lease-expired");
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* Records have their values at the end, which may be one that nobody waits for. */
SAMPLING_TEST(who_gives_up_keeps_what_has_come)
{
	struct fixture *f = *state;
	struct program *client;
	pid_t front;

	fixture_start_daemon(f, NULL);
	client = start_half(f);
	front = fixture_worker(f, "front");
	kill(front, SIGSTOP);
	fixture_release(f);
	while (process_child(client->pid, "fakeapp") > 0) {
		sleep_ms(10);
	}
	do {
		sleep_ms(500);
	} while (!process_is_asleep(client->pid)); /* it waits for what is on its way */
	kill(client->pid, SIGINT);
	expect_exit(client, 3);
	expect_message(client, "interrupted: what was still on its way is lost");
	kill(front, SIGCONT);
	assert_true(figures_of(fixture_path(f, "records")).known > KNOWN_OF_HALF);
}

/* A client that is killed leaves what it has recorded, without values, which report gives. */
SAMPLING_TEST(what_a_killed_client_recorded_can_be_attributed)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.gpuctr");
	struct program *client, *report;

	fixture_start_daemon(f, NULL);
	client = start_half(f);
	kill(client->pid, SIGKILL);
	expect_signal(client, SIGKILL);
	fixture_release(f);
	assert_true(query_run(f, "SELECT count(\"dram__bytes_read.sum\") FROM record") == 0);
	report = fixture_client(f, USER_ANN, "report", path, NULL);
	expect_exit(report, 0);
	expect_in_output(report, "of a sampled capture values are not known yet, or never were: "
				 "--attribute divides the samples");
	report = fixture_client(f, USER_ANN, "report", path, "--attribute", "--csv", NULL);
	expect_exit(report, 0);
	assert_int_equal(count_text(report->out, "or never were"), 0);
	assert_true(count_text(report->out, "\nk") > 4); /* a line for each kernel */
}

static struct program *start_each(struct fixture *f, const char *path, const char *children)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			      "-o", fixture_path(f, path), "--", FAKEAPP, "--children", children,
			      "--kernels", "1000", WORK, NULL);
}

/* A file of each process, which were sampled together, has the values of its kernels. It has no
 * samples where the other's kernels would be missing. */
SAMPLING_TEST(files_of_processes_have_values)
{
	static const char without[] =
		"SELECT count(*) FROM record WHERE \"dram__bytes_read.sum\" IS NULL";
	struct fixture *f = *state;
	struct program *client;
	glob_t found;

	fixture_start_daemon(f, NULL);
	expect_exit(start_each(f, "run.%p.gpuctr", "1"), 0);
	assert_int_equal(glob(fixture_path(f, "run.*.gpuctr"), 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	for (size_t i = 0; i < 2; i++) {
		const char *path = found.gl_pathv[i];

		assert_true(query_file(path, "SELECT count(*) FROM record") == 1000);
		assert_true(query_file(path, "SELECT count(*) FROM sampled") == 1000);
		assert_true(query_file(path, without) < 500);
		assert_true(query_file(path, "SELECT count(*) FROM sample_block") == 0);
		client = fixture_client(f, USER_ANN, "report", path, "--attribute", NULL);
		expect_exit(client, 1);
		expect_message(client, "error[no-samples]");
	}
	globfree(&found);
	expect_exit(start_each(f, "one.%p.gpuctr", "0"), 0);
	assert_int_equal(glob(fixture_path(f, "one.*.gpuctr"), 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	figures_expect_again(f, found.gl_pathv[0]);
	globfree(&found);
}

/* What no file can hold is counted; what was recorded before is reported at its end, with a file of
 * the user's and without. */
SAMPLING_TEST(a_full_disk_ends_the_recording_alone)
{
	struct fixture *f = *state;
	char command[768];
	struct program *client;

	/* The fakes of devices are large files. */
	snprintf(command, sizeof(command), "#!/bin/bash\nulimit -Sf unlimited\nexec %s \"$@\"\n",
		 TEST_SAMPLER);
	fixture_use_sampler(f, command);
	fixture_start_daemon(f, NULL);
	for (int kept = 0; kept < 2; kept++) {
		snprintf(
			command, sizeof(command),
			"ulimit -Sf 1500; exec %s --mode sample --metrics dram__bytes_read.sum %s "
			"%s "
			"-- /bin/bash -c 'ulimit -Sf unlimited; exec %s --kernels 20000 --grids 13 "
			"--blocks 6000 --sleep-us 200 --exit 7'",
			CLIENT, kept ? "-o" : "", kept ? fixture_path(f, "run.gpuctr") : "",
			FAKEAPP);
		client = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
		expect_exit(client, 7);
		expect_output(client, "done 20000\n");
		expect_message(client, "warning[store-full]");
		expect_message(client, kept ? "the file keeps what was written before"
					    : "what was recorded before is reported at its end");
		expect_message(client, "not written to the file");
		expect_message(client, "values are SAMPLED");
	}
	assert_true(query_run(f, "SELECT count(*) FROM record") > 1000);
}

/* Who ends the wait for a reader has the summary all the same. */
SAMPLING_TEST(an_interrupted_stream_costs_no_summary)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "pipe");
	struct program *client;
	CLEAN_FD int fd = -1;
	char stream[256];

	snprintf(stream, sizeof(stream), "--stream=%s", path);
	fixture_start_daemon(f, NULL);
	assert_int_equal(mkfifo(path, 0666), 0);
	client =
		fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			       stream, "--", FAKEAPP, "--kernels", "4000", WORK, NULL);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	expect_text_soon(client->err, "values are SAMPLED");
	kill(client->pid, SIGINT);
	expect_signal(client, SIGINT);
	expect_message(client, "kernels seen in 1 process");
}

static size_t samplers_of(const struct program *client)
{
	return process_child(client->pid, "gpuctr-sampler") > 0;
}

/* While it waits for the GPU, and while samplers run and the program does not end. */
SAMPLING_TEST(it_can_be_interrupted)
{
	struct fixture *f = *state;
	struct program *holder, *client;

	fixture_start_daemon(f, NULL);
	holder = fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--hold",
				"middle", NULL);
	fixture_wait_held(f, 1);
	client = start_plain(f);
	expect_text_soon(client->err, "waiting");
	assert_int_equal(samplers_of(client), 0);
	kill(client->pid, SIGINT);
	expect_exit(client, 130);
	expect_output(client, "");
	expect_message(client, "interrupted: the program was not started");
	fixture_release(f);
	expect_exit(holder, 0);
	client =
		fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			       "--", FAKEAPP, "--kernels", "400000", WORK, NULL);
	on_demand_wait_measured(f, 1); /* what a killed program has not delivered is lost */
	kill(client->pid, SIGTERM);
	expect_exit(client, 128 + SIGTERM);
	expect_message(client, "values are SAMPLED");
	expect_no_objects(f);
}
