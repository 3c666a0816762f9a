/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/budget_fixture.h"

/* Launches chosen at random under a budget. What fakeapp launches, and what the fakes count for it,
 * is known (tests/fake/README.md): so all totals are, whatever was measured. */

/* Is it within three of its own errors? *error_sum adds up what part of the truth they are. */
static bool check_estimate(const char *line, double *error_sum)
{
	double truth, value = line_number(line, "value");
	double error = line_number(line, "standard_error");
	long count = launches_of(kernel_of(line), LAUNCHES, &truth);

	print_message("k%ld: truth %.6g, off %.2f errors, which are %.1f %%, measured %g of %g\n",
		      kernel_of(line), truth, (value - truth) / error, 100 * error / truth,
		      line_number(line, "measured"), line_number(line, "launches"));
	assert_int_equal((long)line_number(line, "launches"), count);
	assert_true(line_number(line, "measured") < (double)count / 2);
	assert_true(line_number(line, "unknown") == 0);
	assert_true(error > 0);
	assert_true(fabs(value - truth) <= 5 * error);
	*error_sum += error / truth;
	return fabs(value - truth) <= 3 * error;
}

static void check_totals(const struct lines *l, long n)
{
	check_totals_of(l, n);
	assert_true(line_number(lines_at(l, "totals", 0), "unchosen") > 0.5 * (double)n);
}

/* The first second is a loan, and so are the first batches: over the whole it is half paid back.
 * The cost is what the fakes make a range cost, not what was noted of it. */
static void check_cost(const struct lines *l)
{
	size_t n = lines_count(l, "kernel");
	double begin = line_number(lines_at(l, "kernel", 0), "start_ns");
	double end = line_number(lines_at(l, "kernel", n - 1), "start_ns");
	double part = (double)n * 2 * PUSH_US * 1e3 / (end - begin);

	print_message("ranges took %.2f %% of %.1f s\n", 100 * part, (end - begin) * 1e-9);
	assert_true(part < 1.2 * BUDGET);
}

/* A record stands for 1 / chance launches: together for all of them, but for those that passed
 * while nothing could be paid for, and for chance. */
static void check_chances(const struct lines *l)
{
	double sum = 0;

	for (size_t i = 0; i < lines_count(l, "kernel"); i++) {
		sum += 1 / line_number(lines_at(l, "kernel", i), "chance");
	}
	print_message("records stand for %.0f launches\n", sum);
	assert_true(sum > 0.4 * LAUNCHES && sum < 1.6 * LAUNCHES);
}

/* Where the machine does not get to this program, pauses count as costs, and little is measured: of
 * so little no error can be told. */
static void measure_enough(struct fixture *f, struct lines *l)
{
	for (int i = 0;; i++) {
		measure(f, "5%", "30000", "3", l);
		if (lines_count(l, "kernel") >= ENOUGH || i == 4) {
			break;
		}
		lines_deinit(l);
	}
	assert_true(lines_count(l, "kernel") >= ENOUGH);
}

static void totals_are_right_within_their_errors(void **state)
{
	struct fixture *f = *state;
	struct lines l;
	size_t within = 0;
	double errors = 0;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	setenv("GPUCTR_FAKE_PUSH_US", "100", 1);
	setenv("GPUCTR_FAKE_UNEVEN", "7", 1);
	fixture_start_daemon(f, NULL);
	measure_enough(f, &l);
	check_totals(&l, LAUNCHES);
	check_cost(&l);
	check_chances(&l);
	assert_int_equal(lines_count(&l, "estimate"), KINDS);
	for (size_t i = 0; i < KINDS; i++) {
		within += check_estimate(lines_at(&l, "estimate", i), &errors);
	}
	assert_true(within >= KINDS - 1);
	/* Not so large that anything is within them: 7 % where there was time for many turns. */
	assert_true(errors < KINDS);
	lines_deinit(&l);
}

static const char *line_of_kernel(const struct lines *l, const char *kernel)
{
	char name[64];

	for (size_t i = 0; i < lines_count(l, "estimate"); i++) {
		const char *line = lines_at(l, "estimate", i);

		line_text(line, "kernel", name, sizeof(name));
		if (strncmp(name, kernel, strlen(kernel)) == 0) {
			return line;
		}
	}
	fail_msg("nothing is told of %s", kernel);
	return NULL;
}

static void the_file_keeps_counts_and_chances(void **state)
{
	struct fixture *f = *state;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, "20%", "4000", "3", &l);
	assert_true(query_run(f, "SELECT sum(seen) FROM stratum") == 4000);
	/* A kernel and shape is always come to by the same eight launches, but for the first eight.
	 */
	assert_true(query_run(f, "SELECT count(*) FROM stratum") == 24 + 8);
	assert_true(query_run(f, "SELECT count(*) FROM stratum WHERE seen = 1") == 8);
	assert_true(
		query_run(f,
			  "SELECT count(*) FROM stratum s JOIN kernel k ON k.process = s.process "
			  "AND k.id = s.kernel WHERE k.name LIKE 'k%' AND s.grid_x BETWEEN 1 AND "
			  "3 AND s.block_x = 128 AND s.merged = 0") == 24 + 8);
	assert_true(query_run(f,
			      "SELECT count(*) FROM choice c JOIN record r ON r.id = c.record JOIN "
			      "stratum s ON s.process = r.process AND s.id = c.stratum WHERE "
			      "c.chance > 0 AND c.chance <= 1 AND s.grid_x = r.grid_x") ==
		    (double)lines_count(&l, "kernel"));
	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'seed'") == 7);
	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'budget_ppm'") == 200000);
	assert_true(query_run(f, "SELECT sum(seen) FROM strata WHERE measured <= seen") == 4000);
	assert_true(query_run(f, "SELECT sum(measured) FROM strata") ==
		    (double)lines_count(&l, "kernel"));
	assert_true(query_run(f, "SELECT sum(launches) FROM estimate") == 4000);
	assert_true(query_run(f, "SELECT value FROM estimate WHERE kernel LIKE 'k0%'") ==
		    line_number(line_of_kernel(&l, "k0"), "value"));
	assert_true(query_run(f, "SELECT unchosen FROM process") ==
		    line_number(lines_at(&l, "totals", 0), "unchosen"));
	lines_deinit(&l);
}

/* Eight kernels in turn, each in one of four ranges. */
static void strata_tell_their_range(void **state)
{
	static const char layers[] = "FROM stratum s JOIN range r ON r.process = s.process AND "
				     "r.id = s.range WHERE r.message LIKE 'layer %' AND s.seen > 1";
	char sql[256];
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget",
				   "20%", "-o", fixture_path(f, "run.gpuctr"), "--", FAKEAPP,
				   "--kernels", "2400", "--grids", "1", "--nvtx", NULL),
		    0);
	snprintf(sql, sizeof(sql), "SELECT count(*) %s", layers);
	assert_true(query_run(f, sql) == KINDS);
	snprintf(sql, sizeof(sql), "SELECT count(DISTINCT r.message) %s", layers);
	assert_true(query_run(f, sql) == LAYERS);
	assert_true(query_run(f, "SELECT sum(seen) FROM stratum") == 2400);
	/* Each as often, but for the first, which came by a path of its own. */
	assert_true(query_run(f, "SELECT min(seen) FROM stratum WHERE seen > 1") ==
		    2400 / KINDS - 1);
}

/* Launches go to two devices in turn, and each kernel to one of them only. */
static void strata_tell_their_device(void **state)
{
	struct fixture *f = *state;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget",
				   "20%", "-o", fixture_path(f, "run.gpuctr"), "--", FAKEAPP,
				   "--kernels", "2400", "--grids", "1", "--devices", "2", NULL),
		    0);
	assert_true(query_run(f, "SELECT sum(seen) FROM stratum WHERE device = 0") == 1200);
	assert_true(query_run(f, "SELECT sum(seen) FROM stratum WHERE device = 1") == 1200);
	assert_true(query_run(f,
			      "SELECT count(*) FROM choice c JOIN record r ON r.id = c.record JOIN "
			      "stratum s ON s.process = r.process AND s.id = c.stratum WHERE "
			      "s.device <> r.device") == 0);
	assert_true(query_run(f, "SELECT count(DISTINCT device) FROM record") == 2);
}

/* Of its value; where the machine does not get to the program so little is measured that there is
 * none. */
static const char *error_of_kernel(const struct lines *l, const char *kernel)
{
	static const char key[] = "\"standard_error\":";
	const char *at = strstr(line_of_kernel(l, kernel), key);

	return at && strncmp(at + strlen(key), "null", 4) != 0 ? at + strlen(key) : NULL;
}

/* What is read from the file is what was told live, with its error, and is nowhere without. */
static void a_report_has_the_errors(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	char value[64];
	struct lines l;

	setenv("GPUCTR_FAKE_UNEVEN", "7", 1);
	fixture_start_daemon(f, NULL);
	measure(f, "5%", "4000", "3", &l);
	for (int i = 0; i < 4 && !error_of_kernel(&l, "k0"); i++) {
		lines_deinit(&l);
		measure(f, "5%", "4000", "3", &l);
	}
	assert_non_null(error_of_kernel(&l, "k0"));
	/* The first digits: each writes as many as it takes. */
	snprintf(value, sizeof(value), "\"error\":%.6s", error_of_kernel(&l, "k0"));
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	expect_in_output(client, "\"seeds\":[\"7\"]");
	expect_in_output(client, "\"kind\":\"");
	expect_in_output(client, value);
	client = report(f, "--csv", NULL);
	expect_in_output(client, "kernel,launches,launches_error,measured,time:");
	expect_in_output(client, "dram__bytes_read.sum:error,dram__bytes_read.sum:kind");
	client = report(f, "--columns", "dram__bytes_read");
	expect_in_output(client, "launches measured");
	client = report(f, "-v", NULL);
	expect_in_output(client, "seed 7");
	client = report(f, "--against", fixture_path(f, "run.gpuctr"));
	expect_in_output(client, "differs");
	lines_deinit(&l);
}

/* --- beside others --- */

/* Nobody adds an estimate to what was measured in full. */
static void a_report_mixes_nothing(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, "20%", "400", "3", &l);
	lines_deinit(&l);
	client = fixture_client(f, USER_ANN, "-o", fixture_path(f, "full.gpuctr"), "--", FAKEAPP,
				"--kernels", "20", NULL);
	expect_exit(client, 0);
	client = report(f, fixture_path(f, "full.gpuctr"), NULL);
	assert_int_not_equal(client->status, 0);
	expect_message(client, "budget-clash");
}

/* All of the time is no budget: what comes out is as without the option. */
static void all_of_it_is_everything(void **state)
{
	struct fixture *f = *state;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, "100%", "200", "97", &l);
	assert_int_equal(lines_count(&l, "kernel"), 200);
	assert_int_equal(lines_count(&l, "estimate"), 0);
	assert_null(strstr(lines_at(&l, "kernel", 0), "chance"));
	assert_true(line_number(lines_at(&l, "totals", 0), "unchosen") == 0);
	assert_true(query_run(f, "SELECT count(*) FROM stratum") == 0);
	assert_true(query_run(f, "SELECT count(*) FROM choice") == 0);
	lines_deinit(&l);
}

static void what_was_spent_is_told(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	setenv("GPUCTR_FAKE_START_US", "50000", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget", "5%",
				"--", FAKEAPP, "--kernels", "500", "--sleep-us", "100", NULL);
	expect_exit(client, 0);
	expect_message(client, "(5 % granted)");
	expect_message(client, "too short for its budget");
	expect_message(client, "not sampled");
	expect_message(client, "; ESTIMATED: 95 % within 2 x error; ");
	expect_no_message(client, "seed ");
	expect_no_message(client, "assumed");
	expect_no_message(client, "standard error");
	client = fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum", "--budget",
				"5%", "--", FAKEAPP, "--kernels", "500", "--sleep-us", "100", NULL);
	expect_exit(client, 0);
	expect_message(client, "assumed");
	expect_message(client,
		       "sums, means and shares are ESTIMATED from launches chosen at random: 95 % "
		       "within 2 x error; --budget 5%, seed ");
	expect_message(client, "standard error");
}

/* Where Push and Pop wait for the GPU, what they take is all that a range costs. */
static void what_waits_is_counted_once(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	setenv("GPUCTR_FAKE_PUSH_US", "100", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-v", "--metrics", "sm__inst_executed.sum", "--budget",
				"20%", "--", FAKEAPP, "--kernels", "500", NULL);
	expect_exit(client, 0);
	expect_message(client, "ranges on the GPU 0.0 ms (");
}

/* What is behind it in what the client said, which is *ret_text. */
static char *find_message(struct program *client, const char *name, char **ret_text)
{
	size_t n = 0;
	FILE *file = fopen(client->err, "re");
	char *at;

	*ret_text = NULL;
	assert_non_null(file);
	assert_true(getdelim(ret_text, &n, '\0', file) > 0);
	fclose(file);
	at = strstr(*ret_text, name);
	if (!at) {
		fail_msg("no \"%s\" in %s", name, *ret_text);
		return *ret_text;
	}
	return at + strlen(name);
}

/* Counters that go from context to context cost a first Start each time: not at every launch. Where
 * a Start waits for the machine as well it is as if it had cost more. */
static void contexts_that_alternate_keep_the_budget(void **state)
{
	struct fixture *f = *state;
	double spent = 100;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	setenv("GPUCTR_FAKE_START_US", "50000", 1);
	fixture_start_daemon(f, NULL);
	/* 10 %, and the first Starts of the first second */
	for (int i = 0; i < 5 && spent > 15; i++) {
		struct program *client =
			fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum",
				       "--budget", "10%", "--", FAKEAPP, "--kernels", "40000",
				       "--contexts", "2", "--sleep-us", "100", NULL);
		char *text;

		expect_exit(client, 0);
		expect_message(client, "several contexts of the program use GPU 0");
		spent = strtod(find_message(client, "spent ", &text), NULL);
		free(text);
		print_message("%.1f %% spent of 10 %%\n", spent);
	}
	assert_true(spent <= 15);
}

/* What CUPTI takes to tell of launches is asked for at the beginning, and leaves nothing to
 * measure. */
static void a_budget_that_callbacks_use_up_is_told(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_TELL_US", "200", 1);
	fixture_start_daemon(f, NULL);
	client =
		fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum", "--budget",
			       "2%", "--", FAKEAPP, "--kernels", "3000", "--sleep-us", "100", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 3000\n");
	expect_message(client, "CUPTI callbacks ");
	expect_message(client, "the budget of 2 % cannot be kept");
}

/* What is behind "NAME 12.3 ms (456, ": so much for each. */
static double each_ms(struct program *client, const char *name)
{
	char *text, *end;
	double ms = strtod(find_message(client, name, &text), &end), count;

	assert_int_equal(strncmp(end, " ms (", 5), 0);
	count = strtod(end + 5, NULL);
	free(text);
	assert_true(count > 0);
	return ms / count;
}

/* A launch has two callbacks, and each is told of so late, if the machine does not wait as well. */
static void what_cupti_takes_to_tell_is_of_each_callback(void **state)
{
	struct fixture *f = *state;
	double ms = 1;

	setenv("GPUCTR_FAKE_TELL_US", "500", 1);
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && ms >= 0.85; i++) {
		struct program *client =
			fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum",
				       "--budget", "1%", "--", FAKEAPP, "--kernels", "2000", NULL);

		expect_exit(client, 0);
		ms = each_ms(client, "CUPTI callbacks ");
		print_message("%.3f ms a callback\n", ms);
		assert_true(ms > 0.5);
	}
	assert_true(ms < 0.85);
}

/* Each thread of the program makes fewer calls than lie between two that are timed. */
static void callbacks_of_threads_that_end_soon_are_timed(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	double ms;

	setenv("GPUCTR_FAKE_TELL_US", "500", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum", "--budget",
				"1%", "--", FAKEAPP, "--threads", "200", "--one-by-one",
				"--kernels", "10", NULL);
	expect_exit(client, 0);
	ms = each_ms(client, "CUPTI callbacks ");
	print_message("%.3f ms a callback\n", ms);
	assert_true(ms > 0.5); /* what CUPTI takes */
	expect_message(client, "the budget of 1 % cannot be kept");
}

/* Streams are asked before launches: those of a GPU that works behind the CPU have work then. */
static void a_gpu_that_is_never_idle_hides_callbacks(void **state)
{
	static const char hidden[] = "while the GPU had work, which is not counted";
	struct fixture *f = *state;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	for (int late = 0; late < 2; late++) {
		struct program *client;

		setenv("GPUCTR_FAKE_LATE_US", late ? "300" : "0", 1);
		client = fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum",
					"--budget", "5%", "--", FAKEAPP, "--kernels", "6000",
					"--sleep-us", "20", NULL);
		expect_exit(client, 0);
		if (late) {
			expect_message(client, hidden);
		} else {
			expect_message(client, "CUPTI callbacks");
			expect_no_message(client, hidden);
		}
	}
	unsetenv("GPUCTR_FAKE_LATE_US");
}

/* What is behind "NAME 12.3 ms". */
static double ms_behind(struct program *client, const char *name)
{
	char *text;
	double ms = strtod(find_message(client, name, &text), NULL);

	free(text);
	return ms;
}

/* A training that waits for the GPU in each step finds it idle at the step's first launch, however
 * little the callbacks take; the others are behind the GPU's work. One that stands still looks like
 * one that spends. */
static void a_step_that_ends_with_waiting_hides_callbacks(void **state)
{
	struct fixture *f = *state;
	struct program *p, *client;
	double spent = 0, hidden = 0;

	setenv("GPUCTR_FAKE_LATE_US", "300", 1);
	setenv("GPUCTR_FAKE_TELL_US", "20", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", TEST_FAKESERVE, "1", "1", "50", "0", "100",
			   NULL);
	on_demand_wait_listed(f, USER_ANN, p, "fakeserve");
	for (int i = 0; i < 5 && hidden <= 2 * spent; i++) {
		client = fixture_client(f, USER_ANN, "capture", "-v", "--pid", on_demand_pid(p),
					"--metrics", "dram__bytes_read.sum", "--budget", "5%",
					"--duration", "3", NULL);
		expect_exit(client, 0);
		spent = ms_behind(client, "CUPTI callbacks ");
		hidden = ms_behind(client, "callbacks took another ");
		print_message("%.1f ms spent, %.1f ms while the GPU had work\n", spent, hidden);
	}
	assert_true(hidden > 2 * spent);
	program_kill(p, SIGKILL);
	unsetenv("GPUCTR_FAKE_LATE_US");
	unsetenv("GPUCTR_FAKE_TELL_US");
}

static void what_cannot_be_is_refused(void **state)
{
	static const char *const odd[] = { "0",	  "-1", "101", "5x",  "",     "nan",  "inf",
					   "0x5", "+5", " 5",  "1e1", "2 %%", "1e-9%" };
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		client = fixture_client(f, USER_ANN, "--budget", odd[i], "--", FAKEAPP, NULL);
		program_wait(client);
		assert_int_not_equal(client->status, 0);
		expect_message(client, "is not a part of the time");
	}
	client = fixture_client(f, USER_ANN, "--budget", "5", "--raw", "-o",
				fixture_path(f, "raw.gpuctr"), "--", FAKEAPP, NULL);
	program_wait(client);
	expect_message(client, "leave one out");
	client = fixture_client(f, USER_ANN, "--seed", "7", "--", FAKEAPP, NULL);
	program_wait(client);
	assert_int_not_equal(client->status, 0);
	expect_message(client, "add --budget, or leave it out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(totals_are_right_within_their_errors),
		SYSTEM_TEST(the_file_keeps_counts_and_chances),
		SYSTEM_TEST(strata_tell_their_range),
		SYSTEM_TEST(strata_tell_their_device),
		SYSTEM_TEST(a_report_has_the_errors),
		SYSTEM_TEST(a_report_mixes_nothing),
		SYSTEM_TEST(all_of_it_is_everything),
		SYSTEM_TEST(what_was_spent_is_told),
		SYSTEM_TEST(what_waits_is_counted_once),
		SYSTEM_TEST(contexts_that_alternate_keep_the_budget),
		SYSTEM_TEST(a_budget_that_callbacks_use_up_is_told),
		SYSTEM_TEST(what_cupti_takes_to_tell_is_of_each_callback),
		SYSTEM_TEST(callbacks_of_threads_that_end_soon_are_timed),
		SYSTEM_TEST(a_gpu_that_is_never_idle_hides_callbacks),
		SYSTEM_TEST(a_step_that_ends_with_waiting_hides_callbacks),
		SYSTEM_TEST(what_cannot_be_is_refused),
	};

	return SYSTEM_RUN(tests);
}
