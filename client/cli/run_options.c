/* SPDX-License-Identifier: Apache-2.0 */

/* Options of "run" and "capture". Names that users know from ncu are kept: --metrics, --devices,
 * -o, -f, and those of launch_filter.h. run_check.c says what may stand together. */

#include "client/cli/run_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clock.h"

enum { WIDTH_MIN = 20, WIDTH_MAX = 2000, SUMMARY_ROWS = 20 };
#define INTERVAL_MIN_NS 100000000u
#define SAMPLE_MIN_NS 1e3
#define SAMPLE_MAX_NS 1e9

static bool take_format(void *format, const char *value)
{
	const struct format *found = format_find(value);

	*(const struct format **)format = found;
	return found || options_refuse("format", value, "a format: use table, jsonl or csv");
}

/* A duration may have its unit behind it, as in sleep(1). */
static bool take_duration(void *ns, const char *value)
{
	size_t n = strlen(value);
	uint64_t *ret = ns;
	char number[32];
	bool has_unit = n > 1 && n <= sizeof(number) && value[n - 1] == 's';

	if (has_unit) {
		snprintf(number, sizeof(number), "%.*s", (int)(n - 1), value);
	}
	return (options_parse_seconds(has_unit ? number : value, ret) && *ret > 0) ||
	       options_refuse("duration", value, "a number of seconds above 0, and up to a year");
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

/* "2", "2%", "0.5 %"; 100 % means no budget. */
static bool take_budget(void *budget, const char *value)
{
	struct run_budget *b = budget;
	char *end;
	double percent = strtod(value, &end);
	/* No sign, no exponent, no hexadecimal digits. */
	bool plain = end == value + strspn(value, "0123456789.");

	end += strspn(end, " ");
	end += *end == '%';
	if (!plain || end == value || *end || !(percent >= 0.01 && percent <= 100)) {
		return options_refuse("budget", value, "a part of the time, from 0.01% to 100%");
	}
	b->is_given = true;
	b->ppm = percent < 100 ? (uint32_t)(percent * 1e4 + 0.5) : 0;
	return true;
}

static bool take_mode(void *mode, const char *value)
{
	static const char *const names[] = { "sample", "range", "budget" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			*(enum run_mode *)mode = (enum run_mode)(MODE_SAMPLE + i);
			return true;
		}
	}
	return options_refuse("mode", value, "a mode: sample, range or budget");
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

static bool take_seed(void *budget, const char *value)
{
	struct run_budget *b = budget;

	b->has_seed = true;
	return options_take_u64("seed", value, &b->seed);
}

static bool take_torch(void *torch, const char *value)
{
	const char **marks = torch;

	*marks = *marks ? *marks : "operators";
	return true;
}

static bool take_torch_modules(void *torch, const char *value)
{
	*(const char **)torch = "modules";
	return true;
}

/* "10us", "1ms": of samples. */
static bool take_sample_interval(void *ns, const char *value)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	char *end;
	double number = strtod(value, &end);

	for (size_t i = 0; end != value && i < sizeof(units) / sizeof(units[0]); i++) {
		double length = number * units[i].ns;

		if (strcmp(end, units[i].unit) == 0 && length >= SAMPLE_MIN_NS &&
		    length <= SAMPLE_MAX_NS) {
			*(uint64_t *)ns = (uint64_t)(length + 0.5);
			return true;
		}
	}
	return options_refuse("interval", value, "a time with its unit, 1us to 1s, such as 10us");
}

static bool take_interval(void *ns, const char *value)
{
	return (options_parse_seconds(value, ns) && *(uint64_t *)ns >= INTERVAL_MIN_NS) ||
	       options_refuse("interval", value, "a number of seconds, 0.1 or more");
}

static bool take_once(void *updates, const char *value)
{
	*(uint64_t *)updates = 1;
	return true;
}

static bool take_width(void *width, const char *value)
{
	uint64_t n = 0;

	if (!options_parse_u64(value, &n) || n < WIDTH_MIN || n > WIDTH_MAX) {
		return options_refuse("width", value, "a number of columns, 20 to 2000");
	}
	*(size_t *)width = (size_t)n;
	return true;
}

#define MODE_OPTIONS                                                                          \
	{ 0, "mode", "MODE", "sample (the whole GPU), range (every launch) or budget (some)", \
	  OPTION_TAKEN(take_mode, struct run_options, mode) },                                \
		{ 0, "graphs", "nodes|whole",                                                 \
		  "CUDA graphs: their nodes' kernels (default), or each as a whole",          \
		  OPTION_TAKEN(take_graphs, struct run_options, graphs) },                    \
		{ 0, "no-samples", NULL, "of --mode sample: keep no samples in -o FILE",      \
		  OPTION_AT(FLAG, struct run_options, no_samples) },                          \
	{                                                                                     \
		0, "interval", "TIME", "between two samples (default: 10us, of SMs longer)",  \
			OPTION_TAKEN(take_sample_interval, struct run_options,                \
				     timeline.interval_ns)                                    \
	}

#define BUDGET_OPTIONS                                                             \
	{ 0, "budget", "PERCENT",                                                  \
	  "measure launches at random, as many as this part of the time pays for", \
	  OPTION_TAKEN(take_budget, struct run_options, budget) },                 \
	{                                                                          \
		0, "seed", "N", "of that choice (default: another one each time)", \
			OPTION_TAKEN(take_seed, struct run_options, budget)        \
	}

#define QUEUE_OPTIONS                                                             \
	{ 0, "no-wait", NULL, "give up at once when a GPU is taken",              \
	  OPTION_AT(FLAG, struct run_options, no_wait) },                         \
	{                                                                         \
		0, "timeout", "SECONDS", "wait in the queue no longer than this", \
			OPTION_AT(SECONDS, struct run_options, timeout_ns)        \
	}

/* What "run", "capture" and "follow" have in common. */
#define MEASURE_OPTIONS                                                                           \
	{ 0, "metrics", "LIST", "names, globs, regex:EXPR, presets, none (default: memory)",      \
	  OPTION_AT(LIST, struct run_options, metrics) },                                         \
		{ 'o', "capture", "FILE", "keep everything in a capture file (SQLite)",           \
		  OPTION_AT(TEXT, struct run_options, capture_path) },                            \
		{ 'f', "force", NULL, "replace the files of -o and --output",                     \
		  OPTION_AT(FLAG, struct run_options, force) },                                   \
		{ 0, "format", "FORMAT", "stream records as table, jsonl or csv",                 \
		  OPTION_TAKEN(take_format, struct run_options, format) },                        \
		{ 0, "output", "FILE|-", "where to (default: -, standard output)",                \
		  OPTION_AT(TEXT, struct run_options, stream_path) },                             \
		LAUNCH_FILTER_OPTIONS(struct run_options, filter), BUDGET_OPTIONS, QUEUE_OPTIONS, \
		{ 0, "lease", "SECONDS", "hold the GPUs this long at a time",                     \
		  OPTION_AT(SECONDS, struct run_options, lease_ns) },                             \
		{ 0, "fail-if-none", NULL,                                                        \
		  "exit with 124 when no kernel was measured, for whatever reason",               \
		  OPTION_AT(FLAG, struct run_options, fail_if_none) },                            \
		{ 'q', "quiet", NULL, "no progress and no summary, only errors",                  \
		  OPTION_AT(FLAG, struct run_options, quiet) },                                   \
		{ 'v', "verbose", NULL,                                                           \
		  "say how and by what it was measured, what a budget went into",                 \
		  OPTION_AT(FLAG, struct run_options, verbose) },                                 \
		{ 0, "no-summary", NULL, "no table at the end",                                   \
		  OPTION_AT(FLAG, struct run_options, no_summary) },                              \
		{ 0, "summary-rows", "N", "rows of that table (default: 20)",                     \
		  OPTION_AT(NUMBER, struct run_options, summary_rows) },                          \
	{                                                                                         \
		0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct run_options, socket) \
	}

const struct option_def run_option_defs[] = {
	MEASURE_OPTIONS,
	MODE_OPTIONS,
	{ 'd', "duration", "SECONDS",
	  "end the capture so long after its first process began; PROGRAM runs on",
	  OPTION_TAKEN(take_duration, struct run_options, duration_ns) },
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: all)",
	  OPTION_AT(LIST, struct run_options, devices) },
	{ 0, "recorded", NULL, "lease no GPU: PROGRAM plays a recording",
	  OPTION_AT(FLAG, struct run_options, recorded) },
	{ 0, "chip", "CHIP", "of the recording (default: as its file says)",
	  OPTION_AT(TEXT, struct run_options, chip) },
	{ 0, "raw", NULL, "keep raw counter data in -o FILE, for gpuctr-replay",
	  OPTION_AT(FLAG, struct run_options, raw) },
	{ 0, "torch", NULL, "PyTorch's operators, of a program that does not mark them",
	  OPTION_TAKEN(take_torch, struct run_options, torch) },
	{ 0, "torch-modules", NULL, "and its modules",
	  OPTION_TAKEN(take_torch_modules, struct run_options, torch) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as the program sees it",
	  OPTION_AT(TEXT, struct run_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

const struct option_def capture_option_defs[] = {
	SELECTOR_OPTIONS(struct run_options, selector),
	{ 'd', "duration", "SECONDS", "end after this time (default: at Ctrl-C)",
	  OPTION_TAKEN(take_duration, struct run_options, duration_ns) },
	{ 0, "at", "TIME", "begin at this time, in seconds since 1970",
	  OPTION_TAKEN(take_time, struct run_options, at_ns) },
	{ 0, "timeline", NULL, "a GPU's counters over time, whoever's programs run there",
	  OPTION_AT(FLAG, struct run_options, timeline.is_wanted) },
	{ 0, "gpu", "GPU", "of --timeline: index or UUID (default: 0)",
	  OPTION_AT(TEXT, struct run_options, timeline.gpu) },
	{ 0, "here", NULL, "on this node alone (default: on all of a Slurm job's)",
	  OPTION_AT(FLAG, struct run_options, here) },
	{ 0, "part", "JOB", NULL, OPTION_AT(TEXT, struct run_options, part) },
	{ 0, "sent", "TIME", NULL, OPTION_TAKEN(take_time, struct run_options, sent_ns) },
	MEASURE_OPTIONS,
	MODE_OPTIONS,
	{ 0, "every-kernel", NULL,
	  "of --mode sample: record each, also where that slows the program",
	  OPTION_AT(FLAG, struct run_options, every_kernel) },
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: those in use)",
	  OPTION_AT(LIST, struct run_options, devices) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

const struct option_def follow_option_defs[] = {
	{ 0, "ready-fd", "N", "where the variables of the capture go",
	  OPTION_TAKEN(take_fd, struct run_options, ready_fd) },
	{ 0, "until-fd", "N", "whose end is the end of the capture",
	  OPTION_TAKEN(take_fd, struct run_options, until_fd) },
	MEASURE_OPTIONS,
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: all)",
	  OPTION_AT(LIST, struct run_options, devices) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as the programs see it",
	  OPTION_AT(TEXT, struct run_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

const struct option_def top_option_defs[] = {
	SELECTOR_OPTIONS(struct run_options, selector),
	{ 0, "metrics", "LIST", "names, globs, regex:EXPR, presets (default: memory)",
	  OPTION_AT(LIST, struct run_options, metrics) },
	LAUNCH_FILTER_OPTIONS(struct run_options, filter),
	BUDGET_OPTIONS,
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: those in use)",
	  OPTION_AT(LIST, struct run_options, devices) },
	QUEUE_OPTIONS,
	{ 0, "by", "KEYS", "rows: as for report (default: kernel)",
	  OPTION_TAKEN(summary_take_keys, struct run_options, live.keys) },
	{ 0, "sort", "COLUMN", "as for report", OPTION_AT(TEXT, struct run_options, live.sort) },
	{ 0, "interval", "SECONDS", "between two updates (default: 1)",
	  OPTION_TAKEN(take_interval, struct run_options, live.interval_ns) },
	{ 0, "once", NULL, "print one update and end, as without a terminal",
	  OPTION_TAKEN(take_once, struct run_options, live.updates) },
	{ 0, "batch", "N", "print N updates and end",
	  OPTION_AT(COUNT, struct run_options, live.updates) },
	{ 0, "width", "N", "columns (default: the terminal's, or 120)",
	  OPTION_TAKEN(take_width, struct run_options, live.width) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct run_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

int run_options_read(struct run_options *o, const struct verb *verb, int argc, char **argv,
		     bool (*check)(struct run_options *o, char **command))
{
	int rest, status;

	*o = (struct run_options){ .summary_rows = SUMMARY_ROWS_UNSAID,
				   .ready_fd = -1,
				   .until_fd = -1,
				   .live = { .interval_ns = 1000000000 } };
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
