/* SPDX-License-Identifier: Apache-2.0 */

/* Options of "run", "capture" and "follow": one table for reading, for --help, for completion and
 * for the rules of run_check.c on options that go together. */

#include "client/cli/run_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/foreign.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

#define INTERVAL_MIN_NS UINT64_C(1000)
#define INTERVAL_MAX_NS UINT64_C(1000000000)

/* Without a value: standard output. */
static bool take_stream(void *path, const char *value)
{
	*(const char **)path = value ? value : "-";
	return !value || *value || options_refuse("stream", value, "the name of a file");
}

/* A value means that slurm.c started this client on one of many nodes. The value lists the exact
 * names of the job on this node. */
static bool take_here(void *options, const char *value)
{
	struct run_options *o = options;

	o->here = true;
	o->part = value;
	return true;
}

/* An open descriptor that is not one of the three standard ones. */
static bool take_descriptor(void *fd, const char *value)
{
	uint64_t n;

	if (!options_parse_u64(value, &n) || n < 3 || n > INT32_MAX ||
	    fcntl((int)n, F_SETFD, FD_CLOEXEC) < 0) {
		say_usage("'%s' is not an open descriptor", value);
		return false;
	}
	*(int *)fd = (int)n;
	return true;
}

static bool take_mode(void *mode, const char *value)
{
	static const char *const names[] = {
		[MODE_SAMPLE] = "sample",
		[MODE_RANGE] = "range",
		[MODE_TRACE] = "trace",
	};

	if (strcmp(value, "budget") == 0) {
		say_usage("--mode budget is gone: %s", foreign_find("--budget")->answer);
		return false;
	}
	for (size_t i = MODE_SAMPLE; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			*(enum run_mode *)mode = (enum run_mode)i;
			return true;
		}
	}
	return options_refuse("mode", value, "a mode: range, sample or trace");
}

static bool take_graphs(void *graphs, const char *value)
{
	bool whole = strcmp(value, "whole") == 0;

	if (!whole && strcmp(value, "nodes") != 0) {
		return options_refuse("graphs", value, "nodes (each kernel), or whole");
	}
	*(enum run_graphs *)graphs = whole ? GRAPHS_WHOLE : GRAPHS_NODES;
	return true;
}

static bool take_torch(void *torch, const char *value)
{
	bool modules = value && strcmp(value, "modules") == 0;

	if (value && !modules) {
		return options_refuse("torch", value, "modules; without a value: operators alone");
	}
	*(const char **)torch = modules ? "modules" : "operators";
	return true;
}

static bool take_interval(void *ns, const char *value)
{
	uint64_t *ret = ns;

	return (options_parse_time(value, ret) && *ret >= INTERVAL_MIN_NS &&
		*ret <= INTERVAL_MAX_NS) ||
	       options_refuse("interval", value, "a time from 1us to 1s, such as 10us");
}

/* The titles group the options in --help. Options that only schedulers or recordings need have no
 * help here; gpuctr-client(1) describes them. */
const struct option_def run_option_defs[] = {
	{ 0, "ready-fd", "N", NULL, OPTION_TAKEN(take_descriptor, struct run_options, ready_fd),
	  VERB_FOLLOW },
	{ 0, "until-fd", "N", NULL, OPTION_TAKEN(take_descriptor, struct run_options, until_fd),
	  VERB_FOLLOW },
	OPTION_TITLE_ROW("what"),
	{ 0, "metrics", "LIST", "counters, globs, regex:EXPR, or presets (default: memory)",
	  OPTION_AT(LIST, struct run_options, metrics) },
	{ 0, "mode", "MODE", "range (default of run), sample (of capture), or trace: times alone",
	  OPTION_TAKEN(take_mode, struct run_options, mode), VERB_RUN | VERB_CAPTURE },
	{ 0, "devices", "LIST", "GPUs, by index or UUID (default: those that the programs use)",
	  OPTION_AT(LIST, struct run_options, devices) },
	{ 0, "torch", "[=modules]",
	  "mark PyTorch's operators, or modules too, where PROGRAM does not",
	  OPTION_TAKEN(take_torch, struct run_options, torch), VERB_RUN },
	{ 0, "graphs", "nodes|whole",
	  "CUDA graphs in traces and samples: their kernels (default), or whole",
	  OPTION_TAKEN(take_graphs, struct run_options, graphs), VERB_RUN | VERB_CAPTURE },
	{ 0, "interval", "TIME", "time between samples (default: 10us; for metrics of SMs longer)",
	  OPTION_TAKEN(take_interval, struct run_options, timeline.interval_ns),
	  VERB_RUN | VERB_CAPTURE },
	{ 0, "timeline", NULL, "a GPU's counters over time, whoever's programs run there",
	  OPTION_AT(FLAG, struct run_options, timeline.is_wanted), VERB_CAPTURE },
	OPTION_TITLE_ROW("which"),
	{ 'p', "pid", "LIST", "these processes in standby, by number",
	  OPTION_TAKEN(selector_take_pids, struct run_options, selector.pids), VERB_CAPTURE },
	{ 0, "program", "GLOB", "programs in standby whose name matches",
	  OPTION_AT(LIST, struct run_options, selector.programs), VERB_CAPTURE },
	{ 0, "job", "LIST", "a scheduler's JOB, JOB.STEP or ARRAYJOB_TASK, on all of its nodes",
	  OPTION_AT(LIST, struct run_options, selector.jobs), VERB_CAPTURE },
	{ 'a', "all", NULL, "my programs in standby; for root, everybody's",
	  OPTION_TAKEN(selector_take_all, struct run_options, selector), VERB_CAPTURE },
	{ 'k', "kernel", "NAME|regex:RE", "this function, or what matches in a name with its types",
	  OPTION_TAKEN(launch_filter_take_kernel, struct run_options, filter) },
	{ 's', "skip", "N", "all but the first N launches of a process that match",
	  OPTION_TAKEN(launch_filter_take_skip, struct run_options, filter) },
	{ 0, "every", "N", "of these, the first of each N launches",
	  OPTION_AT(COUNT, struct run_options, filter.chosen.launch_every) },
	{ 'c', "count", "N", "of these, no more than N launches of a process",
	  OPTION_TAKEN(launch_filter_take_count, struct run_options, filter) },
	{ 0, "per", "kernel|gpu", "-s, --every and -c count launches of each kernel, or GPU",
	  OPTION_TAKEN(launch_filter_take_per, struct run_options, filter) },
	{ 0, "nvtx", "EXPR", "launches in these NVTX ranges, written as for ncu",
	  OPTION_TAKEN(launch_filter_take_nvtx, struct run_options, filter.nvtx_include) },
	{ 0, "no-nvtx", "EXPR", "launches outside of these NVTX ranges",
	  OPTION_AT(ITEM, struct run_options, filter.nvtx_exclude) },
	{ 0, "within", "RANGE", "launches while cudaProfilerApi is on, or nvtx:EXPR is open",
	  OPTION_AT(TEXT, struct run_options, filter.chosen.capture_range) },
	{ 0, "steps", "N|SKIP+N",
	  "launches of N steps of a loop, such as a training's, after SKIP others",
	  OPTION_TAKEN(launch_filter_take_steps, struct run_options, filter) },
	{ 0, "step", "EXPR", "what begins a step, as for --nvtx (default: it is found)",
	  OPTION_AT(TEXT, struct run_options, filter.chosen.step) },
	{ 'd', "duration", "TIME", "end after this time, such as 10s; programs run on unmeasured",
	  OPTION_AT(TIME, struct run_options, duration_ns), VERB_RUN | VERB_CAPTURE },
	OPTION_TITLE_ROW("where"),
	{ 'o', "output", "FILE", "keep every record in this file, for report, export and SQL",
	  OPTION_AT(TEXT, struct run_options, capture_path) },
	{ 'f', "force", NULL, "replace files that are there already",
	  OPTION_AT(FLAG, struct run_options, force) },
	{ 0, "stream", "[=FILE]", "write each record as a line of JSON, as it comes",
	  OPTION_TAKEN(take_stream, struct run_options, stream_path) },
	{ 'q', "quiet", NULL, "say nothing but errors: no progress, no table at the end",
	  OPTION_AT(FLAG, struct run_options, quiet) },
	{ 'v', "verbose", NULL, "say how and by what it was measured",
	  OPTION_AT(FLAG, struct run_options, verbose) },
	{ 0, "fail-if-none", NULL, "exit with 124 when no kernel was measured",
	  OPTION_AT(FLAG, struct run_options, fail_if_none) },
	OPTION_TITLE_ROW("how"),
	{ 0, "wait", "TIME", "wait for the GPUs no longer than this; 0: not at all",
	  OPTION_TAKEN(launch_filter_take_wait, struct run_options, filter) },
	{ 0, "socket", "PATH", "of the daemon (default: " GPUCTR_DEFAULT_SOCKET ")",
	  OPTION_AT(TEXT, struct run_options, socket) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as PROGRAM sees it",
	  OPTION_AT(TEXT, struct run_options, agent), VERB_RUN | VERB_FOLLOW },
	{ 0, "raw", NULL, "keep raw counters in -o FILE, to be played by gpuctr-replay",
	  OPTION_AT(FLAG, struct run_options, raw), VERB_RUN },
	{ 0, "recorded", NULL, "PROGRAM plays a recording, which needs no GPU",
	  OPTION_AT(FLAG, struct run_options, recorded), VERB_RUN },
	/* For the clients that slurm.c starts on the nodes of a job. */
	{ 0, "here", "[=JOB]", NULL, OPTION_WHOLE(take_here), VERB_CAPTURE },
	/* Options of other tools that are more than another name for one of ours. */
	{ 0, "profile-from-start", "on|off", NULL,
	  OPTION_TAKEN(launch_filter_take_from_start, struct run_options, filter) },
	{ 0, "capture-range-end", "HOW", NULL,
	  OPTION_TAKEN(launch_filter_take_range_end, struct run_options, filter) },
	{ 0, "schedule", "LIST", NULL,
	  OPTION_TAKEN(launch_filter_take_schedule, struct run_options, filter) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* -c of nsys names a range. It then counts as --within, not as --count. */
static void take_range_for_count(struct run_options *o)
{
	uint64_t count = options_bit(run_option_defs, "count");

	if ((o->given & count) != 0 && o->filter.chosen.launch_count == 0 &&
	    o->filter.chosen.capture_range) {
		o->given = (o->given & ~count) | options_bit(run_option_defs, "within");
	}
}

int run_options_read(struct run_options *o, const struct verb *verb, int argc, char **argv,
		     bool (*check)(struct run_options *o, char **command))
{
	int rest, status;

	*o = (struct run_options){ .ready_fd = -1, .until_fd = -1 };
	status = verb_read_given(verb, argc, argv, o, &o->given, &rest);
	take_range_for_count(o);
	if (status < 0 && !check(o, argv + rest)) {
		status = verb_usage(verb);
	}
	return status;
}

void run_options_deinit(struct run_options *o)
{
	strings_deinit(&o->metrics);
	strings_deinit(&o->devices);
	launch_filter_deinit(&o->filter);
	selector_deinit(&o->selector);
	recording_deinit(&o->recording);
}
