/* SPDX-License-Identifier: Apache-2.0 */

/* Options of "run" and "capture". Names that users know from ncu are kept: --metrics, --devices,
 * -o, -f, and those of launch_filter.h. run_check.c says what may stand together. */

#include "client/cli/run_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/foreign.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clock.h"

enum { SUMMARY_ROWS = 20 };
#define INTERVAL_MIN_NS UINT64_C(1000)
#define INTERVAL_MAX_NS UINT64_C(1000000000)

static bool take_format(void *streams, const char *value)
{
	if (strcmp(value, "csv") == 0 || strcmp(value, "table") == 0) {
		say_usage("--format %s is gone: -o FILE keeps the records, for `gpuctr-client "
			  "report FILE` and `gpuctr-client export FILE --to csv`",
			  value);
		return false;
	}
	*(bool *)streams = true;
	return strcmp(value, "jsonl") == 0 ||
	       options_refuse("format", value, "the format of a stream, which is jsonl");
}

/* As `date +%s` or `date +%s.%N` prints it. Nodes' clocks may differ by minutes; a time that is
 * further off was meant otherwise, as seconds from now. */
static bool take_time(void *ns, const char *value)
{
	double now = (double)clock_wall_ns() / 1e9, seconds;
	char *end;

	seconds = strtod(value, &end);
	if (end == value || *end || !(seconds >= now - 600 && seconds <= now + 365.0 * 86400)) {
		return options_refuse("at", value,
				      "a time in seconds since 1970, at most 10 minutes ago and a "
				      "year ahead, as `date -d '5 seconds' +%s` prints it");
	}
	*(uint64_t *)ns = (uint64_t)(seconds * 1e9);
	return true;
}

/* An open descriptor that is not one of the three standard ones. */
static bool take_fd(void *fd, const char *value)
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
	bool sample = strcmp(value, "sample") == 0;

	if (strcmp(value, "budget") == 0) {
		say_usage("--mode budget is gone: %s", foreign_find("--budget")->answer);
		return false;
	}
	if (!sample && strcmp(value, "range") != 0) {
		return options_refuse("mode", value, "a mode: sample or range");
	}
	*(enum run_mode *)mode = sample ? MODE_SAMPLE : MODE_RANGE;
	return true;
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

static bool take_wait(void *options, const char *value)
{
	struct run_options *o = options;

	return options_take_wait(value, &o->no_wait, &o->timeout_ns);
}

/* The groups of --help. What is rarely wanted has no help there, and gpuctr-client(1) has it. */

#define METRICS_OPTION                                                                         \
	{                                                                                      \
		0, "metrics", "LIST",                                                          \
			"counters, globs, regex:EXPR, presets (default: memory); none: times", \
			OPTION_AT(LIST, struct run_options, metrics)                           \
	}

#define MODE_OPTION(help)                                                                  \
	{                                                                                  \
		0, "mode", "MODE", help, OPTION_TAKEN(take_mode, struct run_options, mode) \
	}

#define SAMPLE_OPTIONS                                                                        \
	{ 0, "graphs", "nodes|whole",                                                         \
	  "CUDA graphs in traces and samples: their kernels (default), or whole",             \
	  OPTION_TAKEN(take_graphs, struct run_options, graphs) },                            \
	{                                                                                     \
		0, "interval", "TIME",                                                        \
			"time between samples (default: 10us; for metrics of SMs longer)",    \
			OPTION_TAKEN(take_interval, struct run_options, timeline.interval_ns) \
	}

#define OUTPUT_OPTIONS                                                                            \
	OPTION_TITLE_ROW("where it goes"),                                                        \
		{ 'o', "capture", "FILE",                                                         \
		  "keep every record in this file, for report, export and SQL",                   \
		  OPTION_AT(TEXT, struct run_options, capture_path) },                            \
		{ 'f', "force", NULL, "replace files that are there already",                     \
		  OPTION_AT(FLAG, struct run_options, force) },                                   \
		{ 0, "format", "jsonl", "write each record as a line of JSON, as it comes",       \
		  OPTION_TAKEN(take_format, struct run_options, streams) },                       \
		{ 0, "output", "FILE|-", "the file of such lines (default: -, standard output)",  \
		  OPTION_AT(TEXT, struct run_options, stream_path) },                             \
		{ 'q', "quiet", NULL, "say nothing but errors: no progress, no table at the end", \
		  OPTION_AT(FLAG, struct run_options, quiet) },                                   \
		{ 'v', "verbose", NULL, "say how and by what it was measured",                    \
		  OPTION_AT(FLAG, struct run_options, verbose) },                                 \
		{ 0, "fail-if-none", NULL, "exit with 124 when no kernel was measured",           \
		  OPTION_AT(FLAG, struct run_options, fail_if_none) },                            \
		{ 0, "no-samples", NULL, NULL, OPTION_AT(FLAG, struct run_options, no_samples) }, \
		{ 0, "no-summary", NULL, NULL, OPTION_AT(FLAG, struct run_options, no_summary) }, \
	{                                                                                         \
		0, "summary-rows", "N", NULL, OPTION_AT(NUMBER, struct run_options, summary_rows) \
	}

#define QUEUE_OPTIONS                                                                        \
	OPTION_TITLE_ROW("how"),                                                             \
		{ 0, "wait", "TIME", "wait for the GPUs no longer than this; 0: not at all", \
		  OPTION_WHOLE(take_wait) },                                                 \
	{                                                                                    \
		0, "socket", "PATH", "of the daemon (default: " GPUCTR_DEFAULT_SOCKET ")",   \
			OPTION_AT(TEXT, struct run_options, socket)                          \
	}

const struct option_def run_option_defs[] = {
	OPTION_TITLE_ROW("what is measured"),
	METRICS_OPTION,
	MODE_OPTION("range: each launch by itself (default); sample: the GPU, at low cost"),
	{ 0, "devices", "LIST",
	  "GPUs, by index or UUID (default: what CUDA_VISIBLE_DEVICES leaves)",
	  OPTION_AT(LIST, struct run_options, devices) },
	{ 0, "torch", "[=modules]",
	  "mark PyTorch's operators, or modules too, where PROGRAM does not",
	  OPTION_TAKEN(take_torch, struct run_options, torch) },
	SAMPLE_OPTIONS,
	OPTION_TITLE_ROW("which launches"),
	LAUNCH_FILTER_OPTIONS(struct run_options, filter),
	{ 'd', "duration", "TIME", "end after this time, such as 10s; PROGRAM runs on unmeasured",
	  OPTION_AT(TIME, struct run_options, duration_ns) },
	OUTPUT_OPTIONS,
	QUEUE_OPTIONS,
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as PROGRAM sees it",
	  OPTION_AT(TEXT, struct run_options, agent) },
	{ 0, "raw", NULL, "keep raw counters in -o FILE, to be played by gpuctr-replay",
	  OPTION_AT(FLAG, struct run_options, raw) },
	{ 0, "recorded", NULL, NULL, OPTION_AT(FLAG, struct run_options, recorded) },
	{ 0, "chip", "CHIP", NULL, OPTION_AT(TEXT, struct run_options, chip) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

const struct option_def capture_option_defs[] = {
	OPTION_TITLE_ROW("what is measured"),
	METRICS_OPTION,
	MODE_OPTION("sample: the GPU, at low cost (default); range: each launch by itself"),
	{ 0, "devices", "LIST", "GPUs, by index or UUID (default: those that the programs use)",
	  OPTION_AT(LIST, struct run_options, devices) },
	SAMPLE_OPTIONS,
	{ 0, "timeline", NULL,
	  "a GPU's counters over time (--gpu GPU), whoever's programs run there",
	  OPTION_AT(FLAG, struct run_options, timeline.is_wanted) },
	{ 0, "gpu", "GPU", NULL, OPTION_AT(TEXT, struct run_options, timeline.gpu) },
	OPTION_TITLE_ROW("which programs in standby, and which launches"),
	SELECTOR_OPTIONS(struct run_options, selector),
	{ 0, "here", NULL, NULL, OPTION_AT(FLAG, struct run_options, here) },
	LAUNCH_FILTER_OPTIONS(struct run_options, filter),
	{ 'd', "duration", "TIME",
	  "end after this time (default: Ctrl-C; if it cannot sample: 3 steps)",
	  OPTION_AT(TIME, struct run_options, duration_ns) },
	{ 0, "at", "TIME", NULL, OPTION_TAKEN(take_time, struct run_options, at_ns) },
	{ 0, "part", "JOB", NULL, OPTION_AT(TEXT, struct run_options, part) },
	{ 0, "sent", "TIME", NULL, OPTION_TAKEN(take_time, struct run_options, sent_ns) },
	OUTPUT_OPTIONS,
	QUEUE_OPTIONS,
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

const struct option_def follow_option_defs[] = {
	{ 0, "ready-fd", "N", "where the variables of the capture go",
	  OPTION_TAKEN(take_fd, struct run_options, ready_fd) },
	{ 0, "until-fd", "N", "whose end is the end of the capture",
	  OPTION_TAKEN(take_fd, struct run_options, until_fd) },
	OPTION_TITLE_ROW("what is measured"),
	METRICS_OPTION,
	{ 0, "devices", "LIST", "GPUs, by index or UUID (default: all)",
	  OPTION_AT(LIST, struct run_options, devices) },
	OPTION_TITLE_ROW("which launches"),
	LAUNCH_FILTER_OPTIONS(struct run_options, filter),
	OUTPUT_OPTIONS,
	QUEUE_OPTIONS,
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as the programs see it",
	  OPTION_AT(TEXT, struct run_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

int run_options_read(struct run_options *o, const struct verb *verb, int argc, char **argv,
		     bool (*check)(struct run_options *o, char **command))
{
	int rest, status;

	*o = (struct run_options){ .summary_rows = SUMMARY_ROWS_UNSAID,
				   .ready_fd = -1,
				   .until_fd = -1 };
	status = verb_read(verb, argc, argv, o, &rest);
	if (status < 0 && !check(o, argv + rest)) {
		status = verb->runs ? EXIT_REFUSED : EXIT_VERB_USAGE;
	}
	if (o->summary_rows == SUMMARY_ROWS_UNSAID) {
		o->summary_rows = SUMMARY_ROWS;
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
