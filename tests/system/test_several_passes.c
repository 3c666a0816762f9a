/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <math.h>

#include "tests/system/lines.h"
#include "tests/system/query.h"

/* Metrics of several groups: each launch is measured with one of them, in turn. What fakeapp
 * launches, and what the fakes count for it, is known (tests/fake/README.md). */

enum { KINDS = 8 /* of kernels */, GRIDS = 3, BYTES_A_BLOCK = 16 * 128 };

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

static struct program *start_turns(struct fixture *f, const char *kernels)
{
	return fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS, "-o",
			      fixture_path(f, "run.gpuctr"), "-f",
			      stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
			      kernels, "--grids", "3", "--sleep-us", "100", NULL);
}

static struct program *report(struct fixture *f, const char *option, const char *value)
{
	return fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), option, value,
			      NULL);
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

static void count_groups(const struct lines *l, unsigned n[GROUPS])
{
	memset(n, 0, GROUPS * sizeof(*n));
	for (size_t i = 0; i < lines_count(l, "kernel"); i++) {
		n[(int)line_number(lines_at(l, "kernel", i), "group")]++;
	}
}

/* All of n launches are measured, but for those that could not be. */
static void check_totals(const struct lines *l, long n)
{
	const char *totals = lines_at(l, "totals", 0);

	assert_int_equal((long)line_number(totals, "seen"), n);
	assert_int_equal((long)(line_number(totals, "measured") + line_number(totals, "unready")),
			 n);
}

SYSTEM_TEST(each_launch_has_the_values_of_one_group)
{
	enum { LAUNCHES = 4000, LEAST = 200 };
	struct fixture *f = *state;
	struct program *client;
	unsigned n[GROUPS];
	char sql[128];
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = start_turns(f, "4000");
	expect_exit(client, 0);
	expect_message(client, "several passes in turns of 2 groups");
	lines_load(&l, fixture_path(f, "records"));
	check_totals(&l, LAUNCHES);
	check_turns(&l);
	count_groups(&l, n);
	print_message("%u and %u measured\n", n[0], n[1]);
	assert_true(n[0] >= LEAST && n[1] >= LEAST);
	/* In the file what is absent is NULL. */
	for (size_t i = 0; i < COUNTERS; i++) {
		snprintf(sql, sizeof(sql), "SELECT count(\"%s\") FROM record", counters[i].name);
		assert_true(query_run(f, sql) == n[counters[i].group]);
	}
	assert_true(query_run(f, "SELECT value FROM meta WHERE key = 'groups'") == GROUPS);
	lines_deinit(&l);
}

/* All launches of a kernel and shape do the same here, so what is told of all is what they did. */
SYSTEM_TEST(totals_are_of_all_launches)
{
	enum { LAUNCHES = 24 * 200 };
	struct fixture *f = *state;
	struct program *client;
	char text[64];

	fixture_start_daemon(f, NULL);
	expect_exit(start_turns(f, "4800"), 0);
	client = report(f, "--json", NULL);
	expect_exit(client, 0);
	for (size_t i = 0; i < COUNTERS; i++) {
		snprintf(text, sizeof(text), "\"%s\":{\"sum\":%.0f,", counters[i].name,
			 counters[i].of_read * BYTES_A_BLOCK * LAUNCHES / KINDS * (1 + GRIDS) / 2);
		expect_in_output(client, text);
	}
	client = report(f, NULL, NULL);
	expect_exit(client, 0);
	expect_in_output(client, "the metrics took turns in 2 groups");
}

/* A thread that waits for another's launch may come to the turn of another group than that which
 * its own was to be measured with. */
SYSTEM_TEST(threads_take_turns_together)
{
	enum { THREADS = 4, EACH = 1500, LEAST = 200 };
	struct fixture *f = *state;
	unsigned n[GROUPS];
	struct lines l;

	setenv("GPUCTR_FAKE_PUSH_US", "50", 1); /* so that they meet */
	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS,
				   stream_to(fixture_path(f, "records")), "--", FAKEAPP,
				   "--threads", "4", "--kernels", "1500", NULL),
		    0);
	lines_load(&l, fixture_path(f, "records"));
	check_turns(&l);
	check_totals(&l, THREADS * EACH);
	count_groups(&l, n);
	print_message("%u and %u measured, %g unready\n", n[0], n[1],
		      line_number(lines_at(&l, "totals", 0), "unready"));
	assert_true(n[0] >= LEAST && n[1] >= LEAST);
	lines_deinit(&l);
}

/* Each pass has an image of its own: in that of another nothing would be found. */
SYSTEM_TEST(kinds_of_metrics_take_turns)
{
	static const char sass[] = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
	static const char sm[] = "sm__inst_executed.sum";
	struct fixture *f = *state;
	unsigned n[GROUPS];
	struct lines l;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", sm, "--metrics", sass,
				   stream_to(fixture_path(f, "records")), "--", FAKEAPP,
				   "--kernels", "1000", NULL),
		    0);
	lines_load(&l, fixture_path(f, "records"));
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);
		bool first = line_number(line, "group") == 0;
		char text[64], other[64];

		line_value(line, first ? sm : sass, text, sizeof(text));
		line_value(line, first ? sass : sm, other, sizeof(other));
		assert_true(strtod(text, NULL) > 0);
		assert_string_equal(other, "");
	}
	count_groups(&l, n);
	assert_true(n[0] > 0 && n[1] > 0);
	lines_deinit(&l);
}

/* One group takes no turns, and nothing is told of any. */
SYSTEM_TEST(one_group_is_told_as_ever)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--metrics", counters[0].name,
				stream_to(fixture_path(f, "records")), "--", FAKEAPP, NULL);
	expect_exit(client, 0);
	expect_no_message(client, "turns");
	lines_load(&l, fixture_path(f, "records"));
	assert_null(strstr(lines_at(&l, "kernel", 0), "group"));
	assert_null(strstr(lines_at(&l, "capture", 0), "group"));
	lines_deinit(&l);
}

SYSTEM_TEST(what_is_of_one_pass_is_refused)
{
	static const char alone[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "metrics", "--fit", TWO_GROUPS, NULL);
	expect_exit(client, 0);
	expect_in_output(client,
			 " passes if all were measured together; 2 groups of one pass each\n");
	expect_in_output(client, "One run measures the 2 groups in turns, each launch with one");
	expect_in_output(client, "  --metrics lts__t_sectors_op_write.sum,dram__bytes.sum\n");
	client = fixture_client(f, USER_ANN, "--metrics", TWO_GROUPS, "--raw", "-o",
				fixture_path(f, "run.gpuctr"), "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "too-many-passes");
	expect_message(client, "passes, and raw counter data are of one");
	expect_message(client, "--metrics lts__t_sectors_op_write.sum,dram__bytes.sum");
	/* What needs several passes by itself, no turn can measure. */
	client = fixture_client(f, USER_ANN, "metrics", "--fit", alone, NULL);
	expect_exit(client, 0);
	expect_in_output(client, "One run would refuse this set.\n");
	client = fixture_client(f, USER_ANN, "--metrics", alone, "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "elapsed needs several passes by itself, and no launch is");
	expect_message(client, "Ask for what it is made of, or leave it out");
}
