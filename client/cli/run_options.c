/* SPDX-License-Identifier: Apache-2.0 */

/* Options of "run" and "capture". Names that users know from ncu are kept: --metrics, --devices,
 * -o, -f, and those of launch_filter.h. What is left unsaid gets its default here, in one place. */

#include "client/cli/run_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clock.h"

enum { WIDTH_MIN = 20, WIDTH_MAX = 2000 };
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

static bool take_once(void *frames, const char *value)
{
	*(uint64_t *)frames = 1;
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
	{ 0, "interval", "SECONDS", "between two frames (default: 1)",
	  OPTION_TAKEN(take_interval, struct run_options, live.interval_ns) },
	{ 0, "once", NULL, "print one frame and end, as without a terminal",
	  OPTION_TAKEN(take_once, struct run_options, live.frames) },
	{ 0, "batch", "N", "print N frames and end",
	  OPTION_AT(COUNT, struct run_options, live.frames) },
	{ 0, "width", "N", "columns (default: the terminal's, or 120)",
	  OPTION_TAKEN(take_width, struct run_options, live.width) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct run_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* -o names a capture file, and --output a stream in the format of --format. Refuses names whose
 * suffix shows that the user mistook one for the other. */
static bool check_pattern(const struct run_options *o)
{
	char wrong = o->capture_path ? expand_wrong(o->capture_path) : 0;

	if (wrong) {
		say_usage("-o %s: %%%c stands for nothing; %%h host, %%u user, %%j job, %%J "
			  "job.step, "
			  "%%n node, %%t task, %%r rank, %%p pid, %%%% a percent sign",
			  o->capture_path, wrong);
	}
	return !wrong;
}

static bool check_paths(struct run_options *o)
{
	const struct format *named = o->capture_path ? format_of_path(o->capture_path) : NULL;

	if (!check_pattern(o)) {
		return false;
	}
	if (o->capture_path && (!*o->capture_path || strcmp(o->capture_path, "-") == 0)) {
		say_usage("-o '%s': this is an SQLite file, and needs a name; for a stream of "
			  "records on "
			  "standard output: --format jsonl",
			  o->capture_path);
		return false;
	}
	if (named) {
		say_usage("-o %s: this would be an SQLite file; for a stream of records: --format "
			  "%s --output %s",
			  o->capture_path, named->name, o->capture_path);
		return false;
	}
	if (!o->stream_path) {
		o->stream_path = o->format ? "-" : NULL;
		return true;
	}
	named = format_of_path(o->stream_path);
	if (!o->format) {
		say_usage("--output %s: in which format? Add --format %s", o->stream_path,
			  named ? named->name : "table, jsonl or csv");
		return false;
	}
	if (named && named != o->format) {
		say_usage("--output %s: the name says %s and --format %s; change one of them",
			  o->stream_path, named->name, o->format->name);
		return false;
	}
	if (o->capture_path && strcmp(o->capture_path, o->stream_path) == 0) {
		say_usage("-o and --output name the same file");
		return false;
	}
	return true;
}

static bool check_request(struct run_options *o)
{
	if (o->budget.has_seed && !o->budget.is_given && o->budget.ppm == 0) {
		say_usage("--seed is of the choice that a budget makes, and every launch is to be "
			  "measured: add --budget, or leave it out");
		return false;
	}
	if (!o->budget.has_seed &&
	    getrandom(&o->budget.seed, sizeof(o->budget.seed), 0) != sizeof(o->budget.seed)) {
		o->budget.seed = (uint64_t)getpid();
	}
	if (o->no_wait && o->timeout_ns > 0) {
		say_usage("--no-wait and --timeout: wait in the queue, or not; leave one out");
		return false;
	}
	return true;
}

static bool names_none(const struct strings *metrics)
{
	const char *const *v = strings_items(metrics);

	for (size_t i = 0; i < metrics->n; i++) {
		if (strcmp(v[i], "none") == 0) {
			return true;
		}
	}
	return false;
}

/* "--metrics none" is a trace: there is nothing to choose at random, to replay or to keep raw. */
static bool take_trace(struct run_options *o)
{
	const char *other = o->metrics.n > 1			       ? "another metric"
			    : o->budget.is_given || o->budget.has_seed ? "--budget"
			    : o->raw				       ? "--raw"
			    : o->recorded			       ? "a recording"
								       : NULL;

	if (!names_none(&o->metrics)) {
		return true;
	}
	if (other) {
		say_usage("--metrics none and %s: no counter is read then, only when each kernel "
			  "ran; leave one out",
			  other);
		return false;
	}
	strings_deinit(&o->metrics);
	o->metrics = (struct strings){ 0 };
	o->trace = true;
	return true;
}

enum { USUAL_BUDGET_PPM = 50000 };

static void default_budget(struct run_options *o)
{
	if (o->mode == MODE_BUDGET && !o->budget.is_given) {
		o->budget.ppm = USUAL_BUDGET_PPM;
	}
}

/* A capture of running programs samples, or, where that is refused, has a budget of 5 %. Callbacks
 * may cost more than that, and are reported (docs/internals/budget.md). Of few launches, as options
 * limit them, samples know little: these are measured, every one. */
static void default_mode(struct run_options *o)
{
	bool budget = o->budget.is_given || o->budget.has_seed;

	if (o->mode != MODE_UNSAID || o->trace || budget) {
		return;
	}
	if (o->timeline.interval_ns > 0) {
		o->mode = MODE_SAMPLE;
	} else if (!launch_filter_is_bounded(&o->filter)) {
		o->mode = MODE_SAMPLE;
		o->may_fall_back = true;
	}
}

void run_options_fall_back(struct run_options *o, struct strings *usual)
{
	o->mode = MODE_BUDGET;
	default_budget(o);
	if (o->usual_metrics && options_take_list(usual, "metrics", "memory")) {
		o->metrics = *usual;
	}
}

static bool refuse_mode(const char *mode, const char *other, const char *why)
{
	say_usage("--mode %s and %s: %s; leave one out", mode, other, why);
	return false;
}

/* Refuses options that do not go with the mode. */
static bool check_mode(const struct run_options *o)
{
	bool budget = o->budget.is_given || o->budget.has_seed;

	if (o->timeline.interval_ns > 0 && o->mode != MODE_SAMPLE) {
		say_usage("--interval is of samples: add --mode sample, or leave it out");
		return false;
	}
	if (o->graphs == GRAPHS_NODES && o->mode != MODE_SAMPLE && !o->trace) {
		say_usage("--graphs nodes: counters are read around a graph as a whole; add --mode "
			  "sample or --metrics none, or leave it out");
		return false;
	}
	if (o->no_samples && o->mode != MODE_SAMPLE) {
		say_usage("--no-samples is of --mode sample: add that, or leave it out");
		return false;
	}
	if (o->mode == MODE_UNSAID) {
		return true;
	}
	if (o->trace) {
		return refuse_mode(o->mode == MODE_SAMPLE   ? "sample"
				   : o->mode == MODE_BUDGET ? "budget"
							    : "range",
				   "--metrics none", "nothing is measured then");
	}
	if (o->mode == MODE_RANGE && budget && o->budget.ppm > 0) {
		return refuse_mode("range", "--budget", "every launch is measured");
	}
	if (o->mode == MODE_BUDGET) {
		return o->raw ? refuse_mode("budget", "--raw",
					    "counter data is kept of all launches")
		       : o->recorded
			       ? refuse_mode("budget", "a recording", "it costs nothing to play")
			       : true;
	}
	if (o->mode != MODE_SAMPLE) {
		return true;
	}
	if (o->raw && o->no_samples) {
		say_usage("--raw keeps samples of --mode sample: leave out --no-samples or --raw");
		return false;
	}
	return budget ? refuse_mode("sample", "--budget", "no launch is chosen")
	       : o->raw && expand_has(o->capture_path, o->late)
		       ? refuse_mode("sample", "--raw with several files",
				     "samples are of the whole GPU, and go into one")
		       : true;
}

/* What can be sampled of "memory". */
static const char sampled_metrics[] = "dram__bytes_read.sum,dram__bytes_write.sum";

static bool default_metrics(struct run_options *o)
{
	if (o->trace || o->metrics.n > 0) {
		return true;
	}
	o->usual_metrics = true;
	return options_take_list(&o->metrics, "metrics",
				 o->mode == MODE_SAMPLE ? sampled_metrics : "memory");
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Letters of the pattern of -o that are known only when a process comes: the children of a
 * launcher have ranks, the launcher itself has none. */
static const char *late_letters(void)
{
	struct claims own = claims_of_self();
	bool has_task = claims_find(&own, "SLURM_PROCID");
	bool has_rank = claims_launcher_rank(&own);

	return has_rank ? "p" : has_task ? "pr" : "prt";
}

/* Refuses outputs that would replace the recording that gpuctr-replay plays. */
static bool spares_recording(const struct run_options *o)
{
	for (size_t i = 1; o->recorded && o->command[i]; i++) {
		if ((o->capture_path && !outfile_spares("-o", o->capture_path, o->command[i])) ||
		    (o->stream_path &&
		     !outfile_spares("--output", o->stream_path, o->command[i]))) {
			return false;
		}
	}
	return true;
}

/* What the recording knows need not be said. */
static bool take_recording(struct run_options *o)
{
	struct recording *r = &o->recording;
	const char *fixed = o->timeline.interval_ns > 0	 ? "--interval"
			    : o->graphs != GRAPHS_UNSAID ? "--graphs"
							 : NULL;

	if (fixed) {
		say_usage("%s and a recording: that is as it was made; leave it out", fixed);
		return false;
	}
	recording_find(o->command, o->metrics.n > 0 ? NULL : &o->metrics, r);
	o->chip = o->chip ? o->chip : r->chip;
	if (r->error.code != 0) {
		say_error(store_error_name(r->error.code), r->error.message, r->error.remedy);
		return false;
	}
	if (o->mode == MODE_UNSAID && r->is_sampled) {
		o->mode = MODE_SAMPLE;
	}
	if (o->mode == MODE_SAMPLE && r->gpus.n == 0) {
		return refuse_mode("sample", r->path ? r->path : "a recording",
				   "it holds no samples, which -o keeps of a run with --mode "
				   "sample");
	}
	return o->mode != MODE_RANGE || !r->is_sampled ||
	       refuse_mode("range", r->path, "it holds samples, and no launch was measured alone");
}

bool run_options_check(struct run_options *o, char **command)
{
	o->command = command;
	if (!o->command[0]) {
		say_usage("no program given; 'gpuctr-client help' shows how");
		return false;
	}
	if (o->raw && !o->capture_path) {
		say_usage("--raw needs -o FILE");
		return false;
	}
	o->late = late_letters();
	o->program = last_part(o->command[0]);
	if (o->raw && o->budget.ppm > 0) {
		say_usage(
			"--raw and --budget: counter data is kept of all launches; leave one out");
		return false;
	}
	o->recorded |= strcmp(o->program, "gpuctr-replay") == 0;
	if (o->recorded && o->budget.ppm > 0) {
		say_usage("--budget: a recording costs nothing to play; leave it out");
		return false;
	}
	if (o->chip && !o->recorded) {
		say_usage("--chip is of a recording, and GPUs have their own: leave it out, or "
			  "play a recording (--recorded)");
		return false;
	}
	if (!take_trace(o)) {
		return false;
	}
	if (o->recorded && !take_recording(o)) {
		return false;
	}
	if (!check_mode(o)) {
		return false;
	}
	default_budget(o);
	return check_request(o) && launch_filter_check(&o->filter) && check_paths(o) &&
	       spares_recording(o) && default_metrics(o);
}

/* "top" of the daemon: nothing is measured. */
static bool check_nothing_measured(const struct run_options *o)
{
	if (selector_is_empty(&o->selector) &&
	    (o->metrics.n > 0 || o->devices.n > 0 || o->no_wait || o->timeout_ns > 0 ||
	     o->budget.is_given || o->budget.has_seed || launch_filter_is_used(&o->filter))) {
		say_usage("top: which processes are to be measured so? Add --pid, --tree, --job, "
			  "--program, --container, --user or --all");
		return false;
	}
	if (selector_is_empty(&o->selector) && o->live.sort) {
		say_usage("--sort %s: the rows of which table? Name processes to be measured",
			  o->live.sort);
		return false;
	}
	return true;
}

bool top_options_check(struct run_options *o, char **command)
{
	bool selects = !selector_is_empty(&o->selector);

	o->command = command;
	o->is_live = true;
	o->no_summary = true;
	o->program = "gpuctr-client top";
	return selects ? take_trace(o) && check_request(o) && launch_filter_check(&o->filter) &&
				 default_metrics(o)
		       : check_nothing_measured(o);
}

/* Options about kernels, programs and capture files have no meaning for samples of a whole GPU. */
static bool timeline_check(struct run_options *o)
{
	struct run_timeline *t = &o->timeline;

	if (names_none(&o->metrics)) {
		say_usage("--timeline and --metrics none: a timeline is of counters, and none "
			  "reads none; leave one out");
		return false;
	}
	if (o->mode != MODE_UNSAID) {
		say_usage("--timeline and --mode: a mode is of kernels, and a timeline shows the "
			  "GPU; leave one out");
		return false;
	}
	if (o->format == &format_table && o->stream_path) {
		say_usage("--timeline and --format table --output %s: its table goes to standard "
			  "output; a stream of samples is --format jsonl or csv",
			  o->stream_path);
		return false;
	}
	if (!selector_is_empty(&o->selector) || o->devices.n > 0 || o->capture_path ||
	    o->budget.is_given || o->budget.has_seed || o->at_ns > 0 || o->part ||
	    o->fail_if_none || launch_filter_is_used(&o->filter)) {
		say_usage("--timeline is of a whole GPU, and of all that runs there: it goes with "
			  "--gpu, --metrics, --interval, --duration, --format and --output, and "
			  "with those of the queue");
		return false;
	}
	t->gpu = t->gpu ? t->gpu : "0";
	t->interval_ns = t->interval_ns ? t->interval_ns : 10000;
	return check_request(o) && check_paths(o) &&
	       (o->metrics.n > 0 || options_take_list(&o->metrics, "metrics", sampled_metrics));
}

bool capture_options_check(struct run_options *o, char **command)
{
	o->command = command;
	if (o->command[0]) {
		say_usage("capture takes no argument '%s'; a program is started by run",
			  o->command[0]);
		return false;
	}
	if (o->timeline.is_wanted) {
		return timeline_check(o);
	}
	if (o->timeline.gpu) {
		say_usage("--gpu is of --timeline: add it, or leave it out");
		return false;
	}
	if (selector_is_empty(&o->selector)) {
		say_usage("capture what? --pid, --tree, --job, --program, --container, --user or "
			  "--all; "
			  "`gpuctr-client ps` lists what there is");
		return false;
	}
	/* The requesting client has found the job of this node: selects by its exact name. */
	if (o->part) {
		strings_deinit(&o->selector.jobs);
		o->selector.jobs = (struct strings){ 0 };
		o->selector.exact = true;
		if (!options_take_list(&o->selector.jobs, "part", o->part)) {
			return false;
		}
	}
	o->program = "gpuctr-client capture";
	o->late = "jJntrp";
	if (!take_trace(o)) {
		return false;
	}
	default_mode(o);
	if (!check_mode(o)) {
		return false;
	}
	default_budget(o);
	return check_request(o) && launch_filter_check(&o->filter) && check_paths(o) &&
	       default_metrics(o);
}

bool follow_options_check(struct run_options *o, char **command)
{
	o->command = command;
	if (o->ready_fd < 0 || o->until_fd < 0) {
		say_usage("follow needs --ready-fd and --until-fd; a program is measured by run");
		return false;
	}
	o->late = "trp";
	o->program = o->command[0] ? last_part(o->command[0]) : "gpuctr-client follow";
	return take_trace(o) && check_request(o) && launch_filter_check(&o->filter) &&
	       check_paths(o) && default_metrics(o);
}

int run_options_read(struct run_options *o, const struct verb *verb, int argc, char **argv,
		     bool (*check)(struct run_options *o, char **command))
{
	int rest, status;

	*o = (struct run_options){ .summary_rows = 20,
				   .ready_fd = -1,
				   .until_fd = -1,
				   .live = {
					   .keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 },
					   .interval_ns = 1000000000 } };
	status = verb_read(verb, argc, argv, o, &rest);
	if (status < 0 && !check(o, argv + rest)) {
		status = verb->runs ? EXIT_REFUSED : EXIT_VERB_USAGE;
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
