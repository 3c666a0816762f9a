/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <signal.h>

#include "tests/system/on_demand.h"
#include "tests/system/query.h"

/* CUDA graphs in traces: each of their kernels is a record, and counts once. fakeapp's graphs have
 * the kernels k0, k1, ...; launches that are captured into one are skipped. */

#define TRACE "--mode", "trace", "-o", fixture_path(f, "run.gpuctr")

/* Each launch has all kernels of its graph, once, with its thread and its range. */
static void expect_whole_launches(struct fixture *f, double launches, double nodes)
{
	assert_true(query_run(f,
			      "SELECT count(DISTINCT process || '/' || correlation) FROM records "
			      "WHERE kind = 3") == launches);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 3") ==
		    launches * nodes);
	assert_true(query_run(f,
			      "SELECT count(*) FROM (SELECT 1 FROM record JOIN graph_kernel g ON "
			      "g.record = record.id GROUP BY process, correlation, g.node)") ==
		    launches * nodes);
	assert_true(query_run(f,
			      "SELECT max(n) FROM (SELECT count(DISTINCT thread) AS n FROM records "
			      "WHERE kind = 3 GROUP BY correlation)") == 1);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 3 AND clock = 'gpu'") ==
		    launches * nodes);
}

/* Records come late, in any order, and from several threads' graphs. */
SYSTEM_TEST(threads_launch_graphs)
{
	struct fixture *f = *state;
	struct program *client;

	setenv("GPUCTR_FAKE_ACTIVITY_LATE_MS", "60", 1);
	setenv("GPUCTR_FAKE_ACTIVITY_REVERSED", "1", 1);
	setenv("GPUCTR_FAKE_LATE_US", "50", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, TRACE, "--", FAKEAPP, "--kernels", "10", "--threads",
				"4", "--nvtx", "--graph", "--graph-nodes", "37", "--graph-launches",
				"50", NULL);
	expect_exit(client, 0);
	expect_message(client, "7,588 kernels seen in 1 process: 7,440 measured, 148 skipped");
	expect_message(client, "0 dropped");
	expect_whole_launches(f, 4 * 50, 37);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 3 AND nvtx GLOB "
				 "'*replay*'") == 4 * 50 * 37);
	assert_true(query_run(f, "SELECT count(DISTINCT graph) FROM graph_kernel") == 4);
	client = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), "--by",
				"graph,kernel", "--limit", "100", NULL);
	expect_exit(client, 0);
	assert_int_equal(count_text(client->out, "graph 3"), 8);
	assert_int_equal(count_text(client->out, "k7"), 5);
	client = fixture_client(f, USER_ANN, "export", fixture_path(f, "run.gpuctr"), "--to",
				"chrome", NULL);
	expect_exit(client, 0);
	assert_int_equal(count_text(client->out, "\"graph id\":3,\"graph node id\":"), 50 * 37);
	client = fixture_client(f, USER_ANN, "export", fixture_path(f, "run.gpuctr"), "--to", "csv",
				NULL);
	expect_exit(client, 0);
	assert_int_equal(count_text(client->out, ",graph,graph_node"), 1);
	assert_int_equal(count_text(client->out, ",3,12884901890"), 50);
	assert_true(query_run(f,
			      "SELECT count(*) FROM records WHERE graph IS NOT NULL AND "
			      "graph_node >> 32 = graph AND grid_x = (graph_node & 65535) + 1") ==
		    4 * 50 * 37);
}

SYSTEM_TEST(a_graph_within_a_graph_is_flat)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, TRACE, "--", FAKEAPP, "--kernels", "1", "--graph",
				"--graph-nested", NULL);
	expect_exit(client, 0);
	/* 9 launches are captured: 4 kernels, twice, and the graph. */
	expect_message(client, "26 kernels seen in 1 process: 17 measured, 9 skipped");
	expect_whole_launches(f, 2, 8);
}

SYSTEM_TEST(a_graph_of_which_nothing_comes_is_one)
{
	struct fixture *f = *state;
	struct program *client, *p;

	setenv("GPUCTR_FAKE_NODES_UNTOLD", "1", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, TRACE, "--", FAKEAPP, "--kernels", "1", "--graph",
				NULL);
	expect_exit(client, 0);
	expect_message(client, "7 kernels seen in 1 process: 3 measured, 4 skipped");
	expect_message(client, "2 of 3 kernels have no time");
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE mangled = '(CUDA graph)'") ==
		    2);
	client = fixture_client(f, USER_ANN, TRACE, "-f", "-k", "regex:k0", "--", FAKEAPP,
				"--kernels", "1", "--graph", NULL);
	expect_exit(client, 0);
	expect_message(client, "7 kernels seen in 1 process: 1 measured, 2 filtered, 4 skipped");

	/* Graphs that are older than the capture are whole. */
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "1", "--graph",
			   "--graph-launches", "1000000", "--sleep-us", "2000", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "-f", TRACE,
				NULL);
	on_demand_interrupt_after(f, USER_ANN, client, 200);
	expect_exit(client, 0);
	expect_message(client, "graphs are recorded as a whole from now on");
	assert_true(query_run(f,
			      "SELECT count(*) FROM records WHERE kind = 2 AND clock = 'gpu' AND "
			      "duration_ns = 1120") > 100);
	program_kill(p, SIGKILL);
}

/* Of a program that runs on, all is told that ran within the capture. */
SYSTEM_TEST(graphs_of_a_program_that_runs)
{
	struct fixture *f = *state;
	struct program *client, *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "1", "--graph",
			   "--graph-nodes", "20", "--graph-launches", "1000000", "--sleep-us",
			   "1000", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	for (int i = 0; i < 2; i++) {
		client = fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "-f",
					TRACE, NULL);
		on_demand_interrupt_after(f, USER_ANN, client, 5000);
		expect_exit(client, 0);
		expect_message(client, "measured, 0 dropped");
		assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 3") > 2000);
		assert_true(query_run(f,
				      "SELECT count(*) FROM (SELECT count(*) AS n FROM records "
				      "WHERE kind = 3 GROUP BY correlation) WHERE n != 20") == 0);
		assert_true(query_run(f, "SELECT count(*) FROM records WHERE kind = 2") == 0);
	}
	expect_running(p);
	program_kill(p, SIGKILL);
}

/* A capture may end before CUPTI has told of any kernel by itself. A longer one is tried only where
 * the program has launched nothing in it, because it joined too late. */
SYSTEM_TEST(names_are_heard_of_before_the_end)
{
	static const char *const seconds[] = { "0.4", "1", "4", "16" };
	struct fixture *f = *state;
	double seen = 0;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "standby", "--", FAKEAPP, "--kernels", "1", "--graph",
			   "--graph-launches", "1000000", "--sleep-us", "50000", NULL);
	on_demand_wait_listed(f, USER_ANN, p, "\"capture\":0");
	for (size_t i = 0; i < ARRAY_SIZE(seconds) && seen == 0; i++) {
		expect_exit(fixture_client(f, USER_ANN, "capture", "--pid", on_demand_pid(p), "-f",
					   TRACE, "-k", "regex:k3", "--duration", seconds[i], NULL),
			    0);
		seen = query_run(f, "SELECT ifnull(sum(seen), 0) FROM process");
	}
	assert_true(query_run(f, "SELECT count(*) FROM notice WHERE message GLOB "
				 "'*do not match*'") == 0);
	assert_true(query_run(f, "SELECT count(*) FROM records WHERE mangled = '_Z2k3Pf'") > 0);
	program_kill(p, SIGKILL);
}

/* More kernels than anybody keeps: what is dropped is counted. An agent that is too slow to say how
 * many (with a sanitizer, say) is left behind by its program, and what it had is lost. */
SYSTEM_TEST(huge_graphs_break_nothing)
{
	enum { NODES = 100000, LAUNCHES = 4 };
	struct fixture *f = *state;
	struct program *client;
	double seen, told, dropped;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, TRACE, "--", FAKEAPP, "--kernels", "1", "--graph",
				"--graph-nodes", "100000", "--graph-launches", "4", NULL);
	expect_exit(client, 0);
	expect_output(client, "done 1\n");
	seen = query_run(f, "SELECT seen FROM process");
	told = query_run(f, "SELECT measured FROM process");
	dropped = query_run(f, "SELECT dropped FROM process");
	print_message("%.0f kernels: %.0f told, %.0f dropped\n", seen, told, dropped);
	assert_true(told >= NODES);
	assert_true(query_run(f, "SELECT count(*) FROM record") == told);
	if (query_run(f, "SELECT clean FROM process") == 1) {
		assert_true(seen == told + dropped + query_run(f, "SELECT capturing FROM process"));
		assert_true(told + dropped == 1 + LAUNCHES * NODES);
	}
}

SYSTEM_TEST(an_option_says_how)
{
	static const char *const refused[][2] = {
		{ "--graphs", "all" }, { "--graphs", "nodes" }, /* of ranges */
	};
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct program *client = fixture_client(f, USER_ANN, refused[i][0], refused[i][1],
							"--", FAKEAPP, NULL);

		expect_exit(client, 125);
		expect_message(client, "--graphs");
	}
}
