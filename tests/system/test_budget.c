/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>
#include <signal.h>

#include "tests/system/lines.h"
#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* Launches chosen at random under a budget. What fakeapp launches, and what the fakes count for it,
 * is known (tests/fake/README.md): so all totals are, whatever was measured. */

enum {
	KINDS = 8, /* of kernels */
	BYTES_A_BLOCK = 16 * 128,
	PUSH_US = 100, /* push and pop each */
	GRIDS = 3,
	LAYERS = 4, /* ranges of fakeapp's, in turn */
	UNEVEN = 7, /* launches of a stratum do 1 to 7 times the work */
	LAUNCHES = 30000,
	ENOUGH = 250, /* of them, for an error of each kernel */
};

#define BUDGET 0.05

static void measure(struct fixture *f, const char *budget, const char *kernels, const char *grids,
		    struct lines *l)
{
	struct program *client =
		fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "--budget", budget,
			       "--seed", "7", "-o", fixture_path(f, "run.gpuctr"), "-f", "--format",
			       "jsonl", "--output", fixture_path(f, "records"), "--", FAKEAPP,
			       "--kernels", kernels, "--grids", grids, "--sleep-us", "100", NULL);

	expect_exit(client, 0);
	lines_load(l, fixture_path(f, "records"));
}

/* Of kernel k in n launches; *ret_bytes is what they read. */
static long launches_of(long k, long n, double *ret_bytes)
{
	long count = 0;

	*ret_bytes = 0;
	for (long i = k; i < n; i += KINDS) {
		*ret_bytes += (double)((i % GRIDS + 1) * (i % UNEVEN + 1)) * BYTES_A_BLOCK;
		count++;
	}
	return count;
}

static long kernel_of(const char *line)
{
	char name[64];

	line_text(line, "kernel", name, sizeof(name));
	assert_int_equal(name[0], 'k');
	return strtol(name + 1, NULL, 10);
}

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

/* Each launch is one of these. */
static void check_totals_of(const struct lines *l, long n)
{
	const char *totals = lines_at(l, "totals", 0);

	assert_int_equal((long)line_number(totals, "seen"), n);
	assert_int_equal((long)(line_number(totals, "measured") + line_number(totals, "unchosen") +
				line_number(totals, "unready")),
			 n);
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

static const char seeing_is_dear[] =
	"with the thread sanitizer seeing launches costs more than the budget";

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

static struct program *report(struct fixture *f, const char *option, const char *value)
{
	struct program *client = fixture_client(f, USER_ANN, "report",
						fixture_path(f, "run.gpuctr"), option, value, NULL);

	program_wait(client);
	return client;
}

/* To be freed. */
static char *output_of(struct program *p)
{
	char *found = NULL;
	size_t n = 0;
	FILE *file = fopen(p->out, "re");

	assert_non_null(file);
	assert_true(getdelim(&found, &n, '\0', file) > 0);
	fclose(file);
	return found;
}

static void expect_in_output(struct program *p, const char *text)
{
	char *found = output_of(p);

	if (!strstr(found, text)) {
		fail_msg("no \"%s\" in %s", text, found);
	}
	free(found);
}

static void expect_nowhere(struct program *p, const char *text)
{
	char *found = output_of(p);

	if (strstr(found, text)) {
		fail_msg("\"%s\" in %s", text, found);
	}
	free(found);
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
	/* The first digits: each writes as many as it takes. */
	snprintf(value, sizeof(value), "\"error\":%.6s",
		 strstr(line_of_kernel(&l, "k0"), "standard_error") + strlen("standard_error\":"));
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

/* --- several groups --- */

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

	for (size_t i = 0; i < l->n; i++) {
		if (line_is(l->v[i], "kernel")) {
			n[(int)line_number(l->v[i], "group")]++;
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
	for (size_t i = 0; i < l->n; i++) {
		if (line_is(l->v[i], "kernel")) {
			check_turn(l->v[i]);
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
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i], line) == 0) {
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
	for (size_t i = 0; i < l.n; i++) {
		if (!line_is(l.v[i], "kernel")) {
			continue;
		}
		while (!line_is(live->v[next], "kernel")) {
			next++;
		}
		assert_string_equal(l.v[i], live->v[next++]);
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

/* Counters that go from context to context cost a first Start each time: not at every launch. */
static void contexts_that_alternate_keep_the_budget(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	char *text;
	double spent;

	fixture_need_no_thread_sanitizer(seeing_is_dear);
	fixture_limit(60);
	setenv("GPUCTR_FAKE_START_US", "50000", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum", "--budget",
				"10%", "--", FAKEAPP, "--kernels", "40000", "--contexts", "2",
				"--sleep-us", "100", NULL);
	expect_exit(client, 0);
	expect_message(client, "several contexts of the program use GPU 0");
	spent = strtod(find_message(client, "spent ", &text), NULL);
	free(text);
	if (spent > 15) { /* 10 %, and the first Starts of the first second */
		fail_msg("%.1f %% spent of 10 %%", spent);
	}
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

/* A launch has two callbacks, and each is told of so late. */
static void what_cupti_takes_to_tell_is_of_each_callback(void **state)
{
	struct fixture *f = *state;
	struct program *client;
	double ms;

	setenv("GPUCTR_FAKE_TELL_US", "500", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-v", "--metrics", "dram__bytes_read.sum", "--budget",
				"1%", "--", FAKEAPP, "--kernels", "2000", NULL);
	expect_exit(client, 0);
	ms = each_ms(client, "CUPTI callbacks ");
	print_message("%.3f ms a callback\n", ms);
	assert_true(ms > 0.5 && ms < 0.85);
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
 * little the callbacks take; the others are behind the GPU's work. */
static void a_step_that_ends_with_waiting_hides_callbacks(void **state)
{
	struct fixture *f = *state;
	struct program *p, *client;
	double spent, hidden;

	fixture_limit(120);
	setenv("GPUCTR_FAKE_LATE_US", "300", 1);
	setenv("GPUCTR_FAKE_TELL_US", "20", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", TEST_FAKESERVE, "1", "1", "50", "0", "100",
			   NULL);
	on_demand_wait_listed(f, USER_ANN, p, "fakeserve");
	client =
		fixture_client(f, USER_ANN, "capture", "-v", "--pid", on_demand_pid(p), "--metrics",
			       "dram__bytes_read.sum", "--budget", "5%", "--duration", "3", NULL);
	expect_exit(client, 0);
	spent = ms_behind(client, "CUPTI callbacks ");
	hidden = ms_behind(client, "callbacks took another ");
	print_message("%.1f ms spent, %.1f ms while the GPU had work\n", spent, hidden);
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
		SYSTEM_TEST(totals_of_two_groups_are_right_in_every_output),
		SYSTEM_TEST(threads_take_turns_together),
		SYSTEM_TEST(kinds_of_metrics_take_turns),
		SYSTEM_TEST(one_group_is_told_as_ever),
		SYSTEM_TEST(several_passes_need_a_budget),
		SYSTEM_TEST(a_program_that_is_killed_leaves_what_it_told),
		SYSTEM_TEST(the_program_outlives_its_daemon),
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
