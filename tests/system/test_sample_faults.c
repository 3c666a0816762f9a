/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>
#include <signal.h>
#include <time.h>

#include "tests/system/figures.h"
#include "tests/system/lines.h"
#include "tests/system/on_demand.h"
#include "tests/system/query.h"
#include "tests/system/scripted.h"

/* Samplers that hang, die or lie, strangers, and clients that are too slow, on the fakes: the
 * user's program runs on, the lease ends, the client says why, and takes bounded memory. */

#define METRICS "dram__bytes_read.sum,dram__bytes_write.sum"

static int setup(void **state)
{
	int r = fixture_setup_sampling(state);

	fixture_limit(200); /* half a minute until a sampler is given up, or of clients that have
			       enough to do */
	return r;
}

#define FAULT_TEST(f) TEST_WITH(f, setup, fixture_teardown)

static struct program *start_run(struct fixture *f, const char *kernels, const char *option,
				 const char *value)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", METRICS,
			      stream_to(fixture_path(f, "records")), "-f", "--devices", "0", "--",
			      FAKEAPP, "--kernels", kernels, "--grids", "13", "--blocks", "6000",
			      "--sleep-us", "400", "--exit", "3", option, value, NULL);
}

/* The program that is measured. */
static void wait_for_program(const struct program *client)
{
	wait_until(process_child(client->pid, "fakeapp") != 0);
}

static void expect_lacking(const struct program *client)
{
	assert_int_equal(count_message(client->err, " kernels have no value") +
				 count_message(client->err, " kernels lack a value of some metric"),
			 1);
}

static void expect_all_gone(struct fixture *f)
{
	expect_no_owner(f);
	expect_no_objects(f);
	fixture_wait_for_orphans(f, NULL);
}

/* --- samplers that hang and die -------------------------------------------------------------- */

FAULT_TEST(one_that_never_begins_is_given_up)
{
	struct fixture *f = *state;
	struct program *run, *timeline;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	fixture_use_sampler(f, "#!/bin/sh\nexec sleep 1000\n");
	run = start_run(f, "10", NULL, NULL);
	timeline = fixture_client(f, USER_ANN, "capture", "--timeline", "--devices", "1", NULL);
	expect_exit(run, 125);
	expect_output(run, "");
	expect_message(run, "has not begun for 30 s, and is given up");
	expect_message(run, "--mode range measures every launch");
	expect_exit(timeline, 125);
	expect_message(timeline, "has not begun for 30 s, and is given up");
	expect_all_gone(f);
	expect_service(f, PATIENCE_MS);
}

FAULT_TEST(one_that_ends_before_it_begins_is_told_with_its_end)
{
	static const struct {
		const char *text, *message;
	} ends[] = {
		{ "exit 3", "ended without a last word (status 3)" },
		{ "kill -9 $$", "ended without a last word (signal 9, Killed)" },
		{ "exec 1>&-; exec sleep 1000", "has closed its output" },
		{ "printf nonsense,nonsense", "has written nonsense, and is ended" },
	};
	struct fixture *f = *state;
	struct program *client;
	char text[128];

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", ends[i].text);
		fixture_use_sampler(f, text);
		client = start_run(f, "10", NULL, NULL);
		expect_exit(client, 125);
		expect_output(client, "");
		expect_message(client, ends[i].message);
		expect_message(client, "--mode range measures every launch");
		expect_all_gone(f);
	}
}

FAULT_TEST(one_that_ends_in_the_middle_is_told_with_its_end)
{
	static const struct {
		int signo;
		const char *message;
		bool told; /* how many samples were lost: some may be, on a busy machine */
	} ends[] = {
		{ SIGSEGV, "ended without a last word (signal 11, ", false },
		{ SIGTERM, "was asked to end by somebody else", true },
	};
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		client = start_run(f, "2000", "--hold", "middle");
		fixture_wait_held(f, 1);
		fixture_kill_sampler(client, ends[i].signo);
		expect_text_soon(client->err, "the program runs on, no longer measured");
		expect_no_owner(f);
		fixture_release(f);
		expect_exit(client, 3);
		expect_output(client, "done 2000\n");
		expect_message(client, ends[i].message);
		expect_message(client, "; samples lost ");
		assert_true(ends[i].told ==
			    (count_message(client->err, "; samples lost not known") +
				     count_text(client->err, " or more\n") ==
			     0));
		expect_all_gone(f);
	}
}

/* A stopped one holds up neither the program nor, for long, the client. */
FAULT_TEST(one_that_is_stopped_is_killed_at_the_end)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = start_run(f, "2000", "--hold", "middle");
	fixture_wait_held(f, 1);
	fixture_kill_sampler(client, SIGSTOP);
	fixture_release(f);
	expect_exit(client, 3);
	expect_output(client, "done 2000\n");
	expect_message(client, "the sampler does not end, and is killed");
	expect_message(client, "samples missing ");
	expect_all_gone(f);
}

/* --- GPUs and turns --------------------------------------------------------------------------- */

/* Metrics of two sets. */
#define TURNS METRICS ",dram__bytes.sum,lts__t_bytes.sum,lts__t_sectors_op_read.sum"

static struct program *start_turns(struct fixture *f, const char *kernels, const char *option,
				   const char *value)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", TURNS,
			      stream_to(fixture_path(f, "records")), "-f", "--", FAKEAPP,
			      "--kernels", kernels, "--grids", "13", "--blocks", "6000",
			      "--sleep-us", "400", "--exit", "3", option, value, NULL);
}

static bool has_value(const char *line)
{
	return !strstr(line, "\"metrics\":{\"dram__bytes_read.sum\":null");
}

/* With a sanitizer a flood is read on for 42 s, where others compile. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { OVER_MS = 120000 };
#else
enum { OVER_MS = PATIENCE_MS };
#endif

/* How many kernels that began by then have a value, and as much as they read; later ones none. */
static size_t count_right(struct fixture *f, double until_ns)
{
	double told = 0, truth = 0;
	struct lines l;
	size_t n = 0;

	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);

		if (has_value(line)) {
			assert_true(line_number(line, "start_ns") < until_ns);
			told += line_number(line, "dram__bytes_read.sum");
			truth += 16 * line_number_at(line, "grid", 0) *
				 line_number_at(line, "block", 0);
			n++;
		}
	}
	lines_deinit(&l);
	print_message("%zu kernels have values; total %+.3f %%\n", n, 100 * (told / truth - 1));
	assert_true(n == 0 || fabs(told / truth - 1) < 0.01);
	return n;
}

static double wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Sampling ends while the program waits in its middle, and no longer than that. */
static void expect_ran_on(struct fixture *f, struct program *client, const char *done,
			  const char *why)
{
	fixture_wait_held(f, 1);
	expect_text_soon(client->err, "the program runs on, no longer measured");
	fixture_release(f);
	expect_exit(client, 3);
	expect_output(client, done);
	expect_message(client, why);
	assert_int_equal(count_text(client->err, "the program runs on, no longer measured"), 1);
}

static void run_changes(struct fixture *f, struct program **ret_client)
{
	*ret_client = start_turns(f, "8000", NULL, NULL);
}

/* The daemon's granter is refused by the driver. */
static void run_changes_refused(struct fixture *f, struct program **ret_client)
{
	*ret_client = start_turns(f, "8000", "--hold", "middle");
	fixture_wait_held(f, 1);
	fixture_set_knob(f, "rm_status", 0x1b);
	expect_text_soon((*ret_client)->err, "was refused the counters");
	fixture_set_knob(f, "rm_status", 0);
	fixture_release(f);
}

/* A change is tried for 2 s: where the machine stands still for as long, once more. */
static void expect_changes(struct fixture *f,
			   void (*run)(struct fixture *f, struct program **ret_client))
{
	struct program *client;
	size_t known = 0;

	for (int i = 0; i < 5 && known <= 8000 * 9 / 10; i++) {
		run(f, &client);
		expect_exit(client, 3);
		expect_output(client, "done 8000\n");
		expect_all_gone(f);
		if (count_text(client->err, "no longer measured") == 0) {
			expect_message(client, " turns of 2 sets, a change takes ");
			known = count_right(f, INFINITY);
		}
	}
	assert_true(known > 8000 * 9 / 10);
}

/* By CUPTI, and by the daemon. */
FAULT_TEST(a_change_that_fails_for_a_moment_is_tried_again)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_changes(f, run_changes_refused);
	setenv("GPUCTR_FAKE_FAIL",
	       "cuptiPmSamplingEnable:2:26,cuptiPmSamplingEnable:2:35,"
	       "cuptiPmSamplingSetConfig:2:999,cuptiPmSamplingStart:2:26",
	       1);
	expect_changes(f, run_changes);
}

FAULT_TEST(what_fails_for_good_ends_sampling)
{
	static const struct {
		const char *fail, *why, *remedy;
	} rows[] = {
		{ "cuptiPmSamplingEnable:2+:26",
		  "another profiler has the GPU's counters (cuptiPmSamplingEnable)",
		  "End it: ncu, nsys, DCGM" },
		{ "cuptiPmSamplingEnable:2+:35",
		  "(cuptiPmSamplingEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)",
		  "shows who has them now" },
		{ "cuptiPmSamplingSetConfig:2+:7", "(cuptiPmSamplingSetConfig: CUPTI_ERROR_INVALID",
		  "shows who has them now" },
		{ "cuptiPmSamplingStart:2+:999", "(cuptiPmSamplingStart: CUPTI_ERROR_UNKNOWN)",
		  "errors (Xid) of a GPU that is lost" },
		{ "cuptiPmSamplingDecodeData:60:999",
		  "(cuptiPmSamplingDecodeData: CUPTI_ERROR_UNKNOWN)",
		  "errors (Xid) of a GPU that is lost" },
	};
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setenv("GPUCTR_FAKE_FAIL", rows[i].fail, 1);
		client = start_turns(f, "4000", "--hold", "middle");
		expect_ran_on(f, client, "done 4000\n", rows[i].why);
		expect_message(client, rows[i].remedy);
		expect_lacking(client);
		expect_all_gone(f);
	}
}

FAULT_TEST(samples_that_do_not_come_are_told)
{
	static const char silent[] = "(cuptiPmSamplingDecodeData: no samples come)\n";
	struct fixture *f = *state;
	struct program *client, *p;

	fixture_start_daemon(f, NULL);
	setenv("GPUCTR_FAKE_SILENT", "1", 1);
	client = start_turns(f, "4000", "--hold", "middle");
	expect_ran_on(f, client, "done 4000\n", "(cuptiPmSamplingDecodeData: no samples come)");
	expect_message(client, " none has a value: the counters were taken away, or the GPU");
	expect_no_message(client, "on other GPUs");
	expect_message(client, "  remedy: Try again; --mode range measures every launch");
	expect_all_gone(f);
	/* One that ends before anybody has lost patience, but not in a change of sets. */
	p = on_demand_start_listed(f, USER_ANN);
	for (int i = 0; i < 5; i++) {
		client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "--mode",
					"sample", "--metrics", TURNS, "--duration", "1.5", NULL);
		program_wait(client);
		if (client->status == 0 && count_text(client->err, silent) > 0) {
			break;
		}
	}
	expect_exit(client, 0);
	expect_message(client, "warning[no-values]: of ");
	expect_message(client, "in turns of about 100 ms"); /* shorter ones, in so short a time */
	expect_message(client, silent);
	program_kill(p, SIGKILL);
	setenv("GPUCTR_FAKE_SILENT", "3", 1);
	client = start_turns(f, "4000", "--hold", "middle");
	expect_ran_on(f, client, "done 4000\n", "no samples come any more");
	expect_all_gone(f);
}

/* CUPTI, the driver and NVML fail at once. */
FAULT_TEST(a_gpu_that_is_lost_ends_sampling)
{
	struct fixture *f = *state;
	struct program *client;
	double lost_ns;

	f->violations_expected = true; /* Stop fails, and Disable comes all the same */
	fixture_start_daemon(f, NULL);
	client = start_run(f, "8000", "--hold", "middle");
	fixture_wait_held(f, 1);
	fixture_set_knob(f, "sampling_fail", 999);
	lost_ns = wall_ns();
	fixture_set_knob(f, "ioctl_errno", 5);
	fixture_set_knob(f, "nvml_fail", 15);
	/* Whichever call comes next says so. */
	expect_ran_on(f, client, "done 8000\n",
		      "the counters were taken away, or the GPU is lost (");
	expect_message(client, ": CUPTI_ERROR_UNKNOWN)");
	assert_int_equal(count_text(client->err, "the GPU is lost"), 1);
	expect_no_message(client, "no-values");
	assert_true(count_right(f, lost_ns) > 1000);
	expect_no_owner(f);
	fixture_set_knob(f, "sampling_fail", 0);
	fixture_set_knob(f, "ioctl_errno", 0);
	fixture_set_knob(f, "nvml_fail", 0);
	expect_all_gone(f);
	expect_service(f, PATIENCE_MS);
}

/* --- samplers that lie ----------------------------------------------------------------------- */

static long peak_mib(pid_t pid)
{
	char path[64], *text;
	long kib;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	text = read_file(path);
	assert_non_null(strstr(text, "VmHWM:"));
	kib = strtol(strstr(text, "VmHWM:") + strlen("VmHWM:"), NULL, 10);
	free(text);
	return kib >> 10;
}

enum { PEAK_MIB = 1200 };

/* For longer than expect_exit() would. */
static void wait_over(struct program *p)
{
	uint64_t by = now_ms() + OVER_MS;

	while (program_is_running(p) && now_ms() < by) {
		sleep_ms(10);
	}
}

/* The program runs beside it for some seconds, then somebody has enough. */
static struct program *lie(struct fixture *f, const char *body)
{
	static const char deaf[] = "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
				   "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
				   "begin(gpu, len(names) * [0])\n";
	CLEAN_FREE char *text = malloc(sizeof(deaf) + strlen(body) + 1);
	struct program *client;
	uint64_t began;
	long peak;

	assert_non_null(text);
	strcpy(text, deaf);
	strcat(text, body);
	scripted_sampler(f, text);
	client = start_run(f, "400000", NULL, NULL);
	wait_for_program(client);
	sleep_ms(5000);
	expect_running(client);
	peak = peak_mib(client->pid);
	began = now_ms();
	kill(client->pid, SIGTERM);
	wait_over(client);
	expect_exit(client, 128 + SIGTERM);
	print_message("%ld MiB at most; over %u ms after the signal\n", peak,
		      (unsigned)(now_ms() - began));
	expect_lacking(client);
	assert_true(peak < PEAK_MIB);
	expect_all_gone(f);
	return client;
}

/* Samplers that do not fail; most of both parts waits. */
TEST_PART("others")

/* Sixty million a second would fit into the ten that samples wait. */
FAULT_TEST(samples_of_a_nanosecond_without_end)
{
	fixture_start_daemon(*state, NULL);
	lie(*state, "while True:\n    samples(1, 10000)\n");
}

/* And one that is endless. They are left out, and that is told. */
FAULT_TEST(values_that_are_none)
{
	struct program *client;

	fixture_start_daemon(*state, NULL);
	client = lie(*state, "while True:\n"
			     "    samples(10000, 1000, float('nan'))\n"
			     "    samples(10000, 1000, float('inf'))\n"
			     "    time.sleep(max(0, (at - time.time_ns()) / 10**9))\n");
	expect_message(client, "; samples left out ");
}

/* --- several of them ------------------------------------------------------------------------- */

/* Two metrics, each of a set of its own, on each of two GPUs. */
static struct program *start_two(struct fixture *f)
{
	return fixture_client(f, USER_ANN, "-v", "--mode", "sample", "--metrics", METRICS, "-o",
			      fixture_path(f, "run.gpuctr"), "-f", "--devices", "0,1", "--",
			      FAKEAPP, "--kernels", "2000", "--sleep-us", "400", "--exit", "3",
			      NULL);
}

/* What is told of them is of all together: losses, turns, how long a change takes on average, and
 * the longest sample. */
FAULT_TEST(several_are_told_together)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	scripted_sampler(f, "begin(gpu, [0, 1])\n"
			    "time.sleep(2)\n"
			    "at = time.time_ns()\n"
			    "samples(10000, 500)\n"
			    "turn(1, 200000, 2000000)\n"
			    "samples(200000, 50, lost=5)\n"
			    "turn(1, 300000, 0)\n"
			    "samples(300000, 50)\n"
			    "turn(0, 10000, 4000000)\n"
			    "samples(10000, 500, lost=100)\n"
			    "sys.stdin.read()\n"
			    "end()\n");
	client = start_two(f);
	expect_exit(client, 3);
	expect_message(client, "; samples lost 210; 6 turns of 2 sets, a change takes 3.00 ms");
	expect_message(client, "values are SAMPLED: 300 us samples");
	assert_true(query_run(f, "SELECT sum(count) FROM sample_block WHERE interval_ns = "
				 "200000") == 100);
	assert_true(query_run(f, "SELECT sum(count) FROM sample_block WHERE interval_ns = "
				 "300000") == 100);
	assert_true(query_run(f, "SELECT sum(count) FROM sample_block WHERE interval_ns = "
				 "10000") == 2000);
	expect_all_gone(f);
}

/* Whichever numbers sets and metrics have. */
FAULT_TEST(what_is_sampled_too_seldom_is_told_by_its_name)
{
	static const struct {
		const char *sets, *metric;
	} rows[] = {
		{ "[0, 0, 1, 1]", "dram__bytes.sum" },
		{ "[0, 1, 0, 1]", "dram__bytes_write.sum" },
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char body[128], wanted[128];
		struct program *client;

		snprintf(body, sizeof(body), "begin(gpu, %s, 400000)\nsys.stdin.read()\nend()\n",
			 rows[i].sets);
		snprintf(wanted, sizeof(wanted), "%s is sampled every 400 us: ", rows[i].metric);
		scripted_sampler(f, body);
		client = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics",
					METRICS ",dram__bytes.sum,lts__t_bytes.sum", "--devices",
					"0", "--", FAKEAPP, "--kernels", "1", NULL);
		expect_exit(client, 0);
		expect_message(client, wanted);
		assert_int_equal(count_text(client->err, " is sampled every "), 1);
	}
	expect_all_gone(f);
}

/* Of another GPU than asked for; and sets that the first one does not have. */
FAULT_TEST(one_that_differs_is_refused)
{
	static const char *const rows[] = {
		"begin('GPU-other', [0, 1])\nsys.stdin.read()\nend()\n",
		"begin(gpu, [0, int(gpu[-1], 16) % 2])\nsys.stdin.read()\nend()\n",
	};
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		scripted_sampler(f, rows[i]);
		client = start_two(f);
		expect_exit(client, 125);
		expect_message(client, "the sampler samples another GPU or other metrics");
		expect_all_gone(f);
	}
}

/* --- strangers ------------------------------------------------------------------------------- */

/* What was sampled since somebody last looked is nobody's; what was before stays. The first half of
 * the kernels ran in part before that. */
FAULT_TEST(a_stranger_in_the_middle)
{
	struct fixture *f = *state;
	struct program *client, *bob;
	double told_ns;

	fixture_need_two_users();
	fixture_start_daemon(f, NULL);
	bob = fixture_run(f, USER_BOB, "/bin/sleep", "1000", NULL);
	client = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", METRICS,
				stream_to(fixture_path(f, "records")), "-o",
				fixture_path(f, "run.gpuctr"), "-f", "--", FAKEAPP, "--kernels",
				"8000", "--grids", "13", "--blocks", "6000", "--sleep-us", "400",
				"--exit", "3", "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	sleep_ms(3000);
	fixture_set_process(f, 0, bob->pid);
	expect_text_soon(client->err, "what was sampled in the last 4 s is discarded");
	told_ns = wall_ns();
	expect_text_soon(client->err, "error[revoked]");
	expect_no_owner(f);
	fixture_release(f);
	expect_exit(client, 3);
	expect_output(client, "done 8000\n");
	assert_true(count_right(f, told_ns - 4e9) > 500);
	figures_expect_again(f, fixture_path(f, "run.gpuctr"));
	program_kill(bob, SIGKILL);
	program_wait(bob);
	expect_all_gone(f);
}

static size_t count_without(struct fixture *f, const char *text)
{
	struct lines l;
	size_t n = 0;

	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);

		n += strstr(line, text) && !has_value(line);
	}
	lines_deinit(&l);
	print_message("%zu kernels of the other have no value\n", n);
	return n;
}

/* What it ran before it was killed nobody knows, so others have no values then; also those that
 * are made of the file. */
FAULT_TEST(a_process_that_is_killed_beside_another)
{
	struct fixture *f = *state;
	struct program *client;
	char line[512];
	size_t without = 0;

	fixture_start_daemon(f, NULL);
	snprintf(line, sizeof(line),
		 "%s --kernels 400000 --sleep-us 400 & sleep 1; %s --kernels 4000 --grids 13 "
		 "--blocks 6000 --sleep-us 400 & sleep 1; kill -9 %%1; wait %%2",
		 FAKEAPP, FAKEAPP);
	for (int i = 0; i < 5 && without <= 10; i++) {
		client = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", METRICS,
					stream_to(fixture_path(f, "records")), "-o",
					fixture_path(f, "run.gpuctr"), "-f", "--", "bash", "-c",
					line, NULL);
		expect_exit(client, 0);
		without = count_without(f, "\"process\":2");
		figures_expect_again(f, fixture_path(f, "run.gpuctr"));
	}
	assert_true(without > 10);
}

/* --- slow ones ------------------------------------------------------------------------------- */

/* While the client is stopped the sampler drops what its buffers cannot hold, and says how much. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAST "5us"	    /* more it cannot decode beside others, and ends */
enum { FILLED_MS = 40000 }; /* until a sampler has nowhere to put samples */
#else
#define FAST "2us"
enum { FILLED_MS = 20000 };
#endif
