/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/budget_fixture.h"

/* Metrics of several groups under a budget: each launch is measured with one of them, in turn. */

/* Four counters fit into one pass of the fakes: the first four, and the others. */
#define TWO_GROUPS                                                     \
	"dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum," \
	"lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum,dram__bytes.sum"

static const struct {
	const char *name;
	double of_read; /* for each byte that a kernel reads */
	int group;
} counters[] = {
	{ "dram__bytes_read.sum", 1, 0 },
	{ "dram__bytes_write.sum", 0.5, 0 },
	{ "lts__t_bytes.sum", 2, 0 },
	{ "lts__t_sectors_op_read.sum", 0.5 / 16, 0 },
	{ "lts__t_sectors_op_write.sum", 0.25 / 16, 1 },
	{ "dram__bytes.sum", 1.5, 1 },
};

enum { COUNTERS = sizeof(counters) / sizeof(counters[0]), GROUPS = 2 };

static struct program *start_turns(struct fixture *f, const char *kernels, const char *format)
{
	return fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS, "--budget", "40%", "--seed",
			      "7", "-o", fixture_path(f, "run.gpuctr"), "-f", "--format", format,
			      "--output", fixture_path(f, "records"), "--", FAKEAPP, "--kernels",
			      kernels, "--grids", "3", "--sleep-us", "100", NULL);
}

static bool has_turns(const struct lines *l)
{
	unsigned n[GROUPS] = { 0 };

	for (size_t i = 0; i < l->all.n; i++) {
		if (line_is(l->all.v[i], "kernel")) {
			n[(int)line_number(l->all.v[i], "group")]++;
		}
	}
	return n[0] >= ENOUGH && n[1] >= ENOUGH;
}

/* Until each group had turns enough: how soon is a matter of how busy the machine is. */
static void measure_turns(struct fixture *f, const char *kernels, struct lines *l)
{
	struct program *client;

	for (int i = 0;; i++) {
		client = start_turns(f, kernels, "jsonl");
		expect_exit(client, 0);
		lines_load(l, fixture_path(f, "records"));
		if (has_turns(l) || i == 4) {
			break;
		}
		lines_deinit(l);
	}
	assert_true(has_turns(l));
	expect_no_message(client, "their turn did not come");
	expect_message(client, "several passes in turns of 2 groups");
	expect_message(client, "the metrics took turns in 2 groups");
}

/* A record has its group's values, which are the launch's own, and no others. */
static void check_turn(const char *line)
{
	int group = (int)line_number(line, "group");
	char text[64];
	double read = 0;

	for (size_t i = 0; i < COUNTERS; i++) {
		line_value(line, counters[i].name, text, sizeof(text));
		if (counters[i].group != group) {
			assert_string_equal(text, "");
			continue;
		}
		assert_string_not_equal(text, "");
		read = read > 0 ? read : strtod(text, NULL) / counters[i].of_read;
		assert_true(fabs(strtod(text, NULL) - read * counters[i].of_read) < 1e-6);
	}
	assert_true(fmod(read, BYTES_A_BLOCK) == 0 && read > 0);
}

static void check_turns(const struct lines *l)
{
	for (size_t i = 0; i < l->all.n; i++) {
		if (line_is(l->all.v[i], "kernel")) {
			check_turn(l->all.v[i]);
		}
	}
}

static const char *estimate_of(const struct lines *l, long k, const char *metric)
{
	char name[64];

	for (size_t i = 0; i < lines_count(l, "estimate"); i++) {
		const char *line = lines_at(l, "estimate", i);

		line_text(line, "metric", name, sizeof(name));
		if (kernel_of(line) == k && strcmp(name, metric) == 0) {
			return line;
		}
	}
	fail_msg("nothing is told of %s of k%ld", metric, k);
	return NULL;
}

/* By the program's own arithmetic. Returns whether it is within three of its errors. */
static bool check_turn_estimate(const struct lines *l, long k, size_t i, long launches)
{
	const char *line = estimate_of(l, k, counters[i].name);
	double truth, value = line_number(line, "value");
	double error = line_number(line, "standard_error");
	long count = launches_of(k, launches, &truth);

	truth *= counters[i].of_read;
	print_message("k%ld %s: truth %.6g, off %.2f %%, told %.2f %%, measured %g of %g\n", k,
		      counters[i].name, truth, 100 * (value / truth - 1), 100 * error / truth,
		      line_number(line, "measured"), line_number(line, "launches"));
	assert_int_equal((long)line_number(line, "launches"), count);
	assert_true(line_number(line, "measured") < (double)count);
	assert_true(error > 0 && fabs(value - truth) < 0.5 * truth);
	return fabs(value - truth) <= 3 * error;
}

static void expect_line(const struct lines *l, const char *line)
{
	for (size_t i = 0; i < l->all.n; i++) {
		if (strcmp(l->all.v[i], line) == 0) {
			return;
		}
	}
	fail_msg("no line %s", line);
}

/* From the file in other formats: each as live. */
static void check_exports(struct fixture *f, const struct lines *live)
{
	struct program *client = fixture_client(f, USER_ANN, "export", "--to", "jsonl",
						fixture_path(f, "run.gpuctr"), NULL);
	size_t next = 0;
	struct lines l;

	expect_exit(client, 0);
	lines_load(&l, client->out);
	assert_int_equal(lines_count(&l, "kernel"), lines_count(live, "kernel"));
	for (size_t i = 0; i < l.all.n; i++) {
		if (!line_is(l.all.v[i], "kernel")) {
			continue;
		}
		while (!line_is(live->all.v[next], "kernel")) {
			next++;
		}
		assert_string_equal(l.all.v[i], live->all.v[next++]);
	}
	assert_int_equal(lines_count(&l, "estimate"), lines_count(live, "estimate"));
	for (size_t i = 0; i < lines_count(live, "estimate"); i++) {
		expect_line(&l, lines_at(live, "estimate", i));
	}
	lines_deinit(&l);
	client = fixture_client(f, USER_ANN, "export", "--to", "csv", fixture_path(f, "run.gpuctr"),
				NULL);
	expect_exit(client, 0);
	expect_in_output(
		client,
		"lts__t_sectors_op_write.sum,dram__bytes.sum,nvtx,op,seq,sizes,dir,layer,ranges,"
		"recorded_from,stratum,chance,group\r\n");
	expect_in_output(client, ",0\r\n");
	expect_in_output(client, ",1\r\n");
}

static void totals_of_two_groups_are_right_in_every_output(void **state)
{
	enum { TURNS_LAUNCHES = 20000 };
	struct fixture *f = *state;
	struct program *client;
	size_t within = 0;
	char sql[128];
	struct lines l;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	setenv("GPUCTR_FAKE_UNEVEN", "7", 1);
	fixture_start_daemon(f, NULL);
	measure_turns(f, "20000", &l);
	check_totals_of(&l, TURNS_LAUNCHES);
	check_turns(&l);
	/* Counters of one group are off together. */
	for (long k = 0; k < KINDS; k++) {
		for (size_t i = 0; i < COUNTERS; i++) {
			bool is = check_turn_estimate(&l, k, i, TURNS_LAUNCHES);

			within += is && (i == 0 || counters[i].group != counters[i - 1].group);
		}
	}
	assert_true(within >= GROUPS * KINDS - 2);
	/* The file: absent is NULL, and what was told stays. */
	for (size_t i = 0; i < COUNTERS; i++) {
		snprintf(sql, sizeof(sql),
			 "SELECT sum((\"%s\" IS NULL) = (\"%s\" IS NULL)) FROM record",
			 counters[i].name, counters[0].name);
		assert_true(query_run(f, sql) ==
			    (counters[i].group == 0 ? (double)lines_count(&l, "kernel") : 0));
	}
	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'groups'") == GROUPS);
	assert_true(query_run(f, "SELECT value FROM estimate WHERE kernel LIKE 'k3%' AND metric = "
				 "'dram__bytes.sum'") ==
		    line_number(estimate_of(&l, 3, "dram__bytes.sum"), "value"));
	/* What is read from the file is what was told live. */
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	snprintf(sql, sizeof(sql), "\"error\":%.6s",
		 strstr(estimate_of(&l, 0, "dram__bytes.sum"), "standard_error") +
			 strlen("standard_error\":"));
	expect_in_output(client, sql);
	expect_in_output(client, "\"dram_bandwidth:joined\":");
	client = report(f, "--csv", NULL);
	expect_in_output(client, "dram_bandwidth:joined");
	client = report(f, NULL, NULL);
	expect_in_output(client, "the metrics took turns in 2 groups");
	check_exports(f, &l);
	lines_deinit(&l);
}

/* A thread that waits for another's launch may come to the turn of another group than that which
 * its own was chosen for. */
static void threads_take_turns_together(void **state)
{
	enum { THREADS = 4, EACH = 1500, LEAST = 200 };
	struct fixture *f = *state;
	unsigned n[GROUPS] = { 0 };

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	setenv("GPUCTR_FAKE_PUSH_US", "50", 1); /* so that they meet */
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && (n[0] < LEAST || n[1] < LEAST); i++) {
		struct program *client =
			fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS, "--budget", "99%",
				       "--format", "jsonl", "--output", fixture_path(f, "records"),
				       "-f", "--", FAKEAPP, "--threads", "4", "--kernels", "1500",
				       "--sleep-us", "1000", NULL);
		struct lines l;

		expect_exit(client, 0);
		lines_load(&l, fixture_path(f, "records"));
		check_turns(&l);
		check_totals_of(&l, THREADS * EACH);
		n[0] = n[1] = 0;
		for (size_t k = 0; k < lines_count(&l, "kernel"); k++) {
			n[(int)line_number(lines_at(&l, "kernel", k), "group")]++;
		}
		print_message("%u and %u measured, %g unready\n", n[0], n[1],
			      line_number(lines_at(&l, "totals", 0), "unready"));
		lines_deinit(&l);
	}
	assert_true(n[0] >= LEAST && n[1] >= LEAST);
}

/* Each pass has an image of its own: in that of another nothing would be found. */
static void kinds_of_metrics_take_turns(void **state)
{
	static const char sass[] = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
	static const char sm[] = "sm__inst_executed.sum";
	struct fixture *f = *state;
	unsigned n[2] = { 0 };
	struct lines l;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && (n[0] < 2 || n[1] < 2); i++) {
		struct program *client = fixture_client(
			f, USER_ANN, "--metrics",
			"sm__inst_executed.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
			"--budget", "60%", "--format", "jsonl", "--output",
			fixture_path(f, "records"), "-f", "--", FAKEAPP, "--kernels", "4000",
			"--sleep-us", "100", NULL);

		expect_exit(client, 0);
		lines_load(&l, fixture_path(f, "records"));
		n[0] = n[1] = 0;
		for (size_t k = 0; k < lines_count(&l, "kernel"); k++) {
			const char *line = lines_at(&l, "kernel", k);
			char text[64], other[64];

			line_value(line, sass, text, sizeof(text));
			n[*text != '\0']++;
			assert_true(*text == '\0' || strtod(text, NULL) > 0);
			line_value(line, sm, other, sizeof(other));
			assert_true(*other == '\0' || strtod(other, NULL) > 0);
			assert_true((*text == '\0') == (line_number(line, "group") == 0));
		}
		lines_deinit(&l);
	}
	assert_true(n[0] > 0 && n[1] > 0);
}

/* One group takes no turns, and nothing is told of any. */
static void one_group_is_told_as_ever(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	measure(f, "20%", "400", "3", &l);
	assert_null(strstr(lines_at(&l, "kernel", 0), "group"));
	assert_null(strstr(lines_at(&l, "capture", 0), "group"));
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	expect_nowhere(client, "joined");
	client = report(f, NULL, NULL);
	expect_nowhere(client, "turns");
	lines_deinit(&l);
}

static void several_passes_need_a_budget(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "plan", TWO_GROUPS, NULL);
	expect_exit(client, 0);
	expect_in_output(client, "which has 2 groups:");
	expect_in_output(client, "  --metrics lts__t_sectors_op_write.sum,dram__bytes.sum\n");
	expect_in_output(client, "With --budget one run measures both groups in turns");
	client = fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS, "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "too-many-passes");
	expect_message(client, "--budget 5% measures the 2 groups in turns");
	/* What needs several passes by itself, no turn can measure. */
	client = fixture_client(f, USER_ANN, "plan",
				"sm__throughput.avg.pct_of_peak_sustained_elapsed", NULL);
	expect_exit(client, 0);
	expect_in_output(client, "would refuse this set.\n");
	expect_nowhere(client, "--budget");
	client = fixture_client(f, USER_ANN, "--metrics",
				"sm__throughput.avg.pct_of_peak_sustained_elapsed", "--budget", "5",
				"--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "elapsed needs several passes by itself, and no launch is");
	expect_message(client, "Ask for what it is made of, or leave it out");
}

/* --- deaths --- */

static void wait_for_turns(struct fixture *f)
{
	expect_text_soon(fixture_path(f, "records"), "\"group\":0,\"metrics\"");
	expect_text_soon(fixture_path(f, "records"), "\"group\":1,\"metrics\"");
}

static void a_program_that_is_killed_leaves_what_it_told(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	client = start_turns(f, "10000000", "jsonl");
	wait_for_turns(f);
	assert_int_equal(kill(fixture_child(client), SIGKILL), 0);
	expect_exit(client, 128 + SIGKILL);
	lines_load(&l, fixture_path(f, "records"));
	check_turns(&l);
	assert_true(query_run(f, "SELECT count(*) FROM record") ==
		    (double)lines_count(&l, "kernel"));
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	lines_deinit(&l);
	/* Its kinds of launches are told less often than how many there were. A kind that was never
	 * told of has at least one launch more than were measured. */
	if (query_run(f,
		      "SELECT (SELECT sum(seen) FROM process) - (SELECT sum(max(seen, measured)) "
		      "FROM "
		      "strata) - (SELECT 2 * count(*) FROM choice WHERE stratum NOT IN (SELECT id "
		      "FROM stratum))") > 0) {
		client = report(f, "--by", "kernel");
		expect_exit(client, 0);
		expect_in_output(client, " launches are in no row and no value: ");
	}
}

static void the_program_outlives_its_daemon(void **state)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	f->violations_expected = true;
	client = start_turns(f, "60000", "jsonl");
	wait_for_turns(f);
	fixture_kill_daemon(f);
	expect_exit(client, 0);
	expect_output(client, "done 60000\n");
	expect_message(client, "the daemon is gone");
	expect_no_owner(f);
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	expect_in_output(client, "\"dram__bytes.sum\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(totals_of_two_groups_are_right_in_every_output),
		SYSTEM_TEST(threads_take_turns_together),
		SYSTEM_TEST(kinds_of_metrics_take_turns),
		SYSTEM_TEST(one_group_is_told_as_ever),
		SYSTEM_TEST(several_passes_need_a_budget),
		SYSTEM_TEST(a_program_that_is_killed_leaves_what_it_told),
		SYSTEM_TEST(the_program_outlives_its_daemon),
	};

	return SYSTEM_RUN(tests);
}
