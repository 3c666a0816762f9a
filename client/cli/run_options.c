/* SPDX-License-Identifier: Apache-2.0 */

/* Options of "run" and "capture". Names that users know from ncu are kept: --metrics, --devices,
 * -o, -f, and those of selecting.h. What is left unsaid gets its default here, in one place. */

#include "client/cli/run_options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"

enum {
	OPTION_FORMAT = 256,
	OPTION_OUTPUT,
	OPTION_DEVICES,
	OPTION_NO_WAIT,
	OPTION_TIMEOUT,
	OPTION_LEASE,
	OPTION_RECORDED,
	OPTION_RAW,
	OPTION_AGENT,
	OPTION_FAIL_IF_NONE,
	OPTION_NO_SUMMARY,
	OPTION_SUMMARY_ROWS,
	OPTION_READY_FD,
	OPTION_UNTIL_FD,
	OPTION_AT,
	OPTION_HERE,
	OPTION_PART,
	OPTION_SENT,
	OPTION_BUDGET,
	OPTION_SEED,
	OPTION_TORCH,
	OPTION_TORCH_MODULES,
	OPTION_BY,
	OPTION_SORT,
	OPTION_ONCE,
	OPTION_BATCH,
	OPTION_INTERVAL,
	OPTION_WIDTH,
};

#define BUDGET_OPTIONS                                                                      \
	{ OPTION_BUDGET, "budget", "PERCENT",                                               \
	  "measure launches at random, as many as this part of the time pays for" },        \
	{                                                                                   \
		OPTION_SEED, "seed", "N", "of that choice (default: another one each time)" \
	}

#define QUEUE_OPTIONS                                                                         \
	{ OPTION_NO_WAIT, "no-wait", NULL, "give up at once when a GPU is taken" },           \
	{                                                                                     \
		OPTION_TIMEOUT, "timeout", "SECONDS", "wait in the queue no longer than this" \
	}

enum { WIDTH_MIN = 20, WIDTH_MAX = 2000 };
#define INTERVAL_MIN_NS 100000000u

/* What "run" and "capture" have in common. */
#define MEASURE_OPTIONS                                                                           \
	{ OPTION_METRICS, "metrics", "LIST",                                                      \
	  "names, globs, regex:EXPR, presets (default: memory)" },                                \
		{ 'o', "capture", "FILE", "keep everything in a capture file (SQLite)" },         \
		{ 'f', "force", NULL, "replace the files of -o and --output" },                   \
		{ OPTION_FORMAT, "format", "FORMAT", "stream records as table, jsonl or csv" },   \
		{ OPTION_OUTPUT, "output", "FILE|-", "where to (default: -, standard output)" },  \
		SELECTING_OPTIONS, BUDGET_OPTIONS, QUEUE_OPTIONS,                                 \
		{ OPTION_LEASE, "lease", "SECONDS", "hold the GPUs this long at a time" },        \
		{ OPTION_FAIL_IF_NONE, "fail-if-none", NULL,                                      \
		  "exit with 124 when no kernel was measured, for whatever reason" },             \
		{ 'q', "quiet", NULL, "no progress and no summary, only errors" },                \
		{ OPTION_NO_SUMMARY, "no-summary", NULL, "no table at the end" },                 \
		{ OPTION_SUMMARY_ROWS, "summary-rows", "N", "rows of that table (default: 20)" }, \
	{                                                                                         \
		OPTION_SOCKET, "socket", "PATH", "of the daemon"                                  \
	}

const struct option_def run_option_defs[] = {
	MEASURE_OPTIONS,
	{ 'd', "duration", "SECONDS",
	  "end the capture so long after its first process began; PROGRAM runs on" },
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: all)" },
	{ OPTION_RECORDED, "recorded", NULL, "lease no GPU: PROGRAM plays a recording" },
	{ OPTION_CHIP, "chip", "CHIP", "of the recording (default: as its file says)" },
	{ OPTION_RAW, "raw", NULL, "keep raw counter data in -o FILE, for gpuctr-replay" },
	{ OPTION_TORCH, "torch", NULL,
	  "PyTorch's operators, of a program that does not mark them" },
	{ OPTION_TORCH_MODULES, "torch-modules", NULL, "and its modules" },
	{ OPTION_AGENT, "agent", "PATH", "of libgpuctr-agent.so, as the program sees it" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

const struct option_def capture_option_defs[] = {
	SELECTOR_OPTIONS,
	{ 'd', "duration", "SECONDS", "end after this time (default: at Ctrl-C)" },
	{ OPTION_AT, "at", "TIME", "begin at this time, in seconds since 1970" },
	{ OPTION_HERE, "here", NULL, "on this node alone (default: on all of a Slurm job's)" },
	{ OPTION_PART, "part", "JOB", NULL },
	{ OPTION_SENT, "sent", "TIME", NULL },
	MEASURE_OPTIONS,
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: those in use)" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

const struct option_def follow_option_defs[] = {
	{ OPTION_READY_FD, "ready-fd", "N", "where the variables of the capture go" },
	{ OPTION_UNTIL_FD, "until-fd", "N", "whose end is the end of the capture" },
	MEASURE_OPTIONS,
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: all)" },
	{ OPTION_AGENT, "agent", "PATH", "of libgpuctr-agent.so, as the programs see it" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

const struct option_def top_option_defs[] = {
	SELECTOR_OPTIONS,
	{ OPTION_METRICS, "metrics", "LIST",
	  "names, globs, regex:EXPR, presets (default: memory)" },
	SELECTING_OPTIONS,
	BUDGET_OPTIONS,
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: those in use)" },
	QUEUE_OPTIONS,
	{ OPTION_BY, "by", "KEYS", "rows: as for report (default: kernel)" },
	{ OPTION_SORT, "sort", "COLUMN", "as for report" },
	{ OPTION_INTERVAL, "interval", "SECONDS", "between two frames (default: 1)" },
	{ OPTION_ONCE, "once", NULL, "print one frame and end, as without a terminal" },
	{ OPTION_BATCH, "batch", "N", "print N frames and end" },
	{ OPTION_WIDTH, "width", "N", "columns (default: the terminal's, or 120)" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

/* 0 would mean the default, which nobody writes so. */
static bool take_seconds(uint64_t *ret_ns, const char *name, const char *value)
{
	return (options_parse_seconds(value, ret_ns) && *ret_ns > 0) ||
	       options_refuse(name, value, "a number of seconds above 0, and up to a year");
}

static bool take_format(struct run_options *o, const char *value)
{
	o->format = format_find(value);
	return o->format || options_refuse("format", value, "a format: use table, jsonl or csv");
}

/* A duration may have its unit behind it, as in sleep(1). */
static bool take_duration(uint64_t *ret_ns, const char *value)
{
	size_t n = strlen(value);
	char number[32];

	if (n > 1 && n < sizeof(number) && value[n - 1] == 's') {
		memcpy(number, value, n - 1);
		number[n - 1] = '\0';
		return take_seconds(ret_ns, "duration", number);
	}
	return take_seconds(ret_ns, "duration", value);
}

/* As `date +%s` or `date +%s.%N` prints it. */
static bool take_time(uint64_t *ret_ns, const char *name, const char *value)
{
	char *end;
	double seconds = strtod(value, &end);

	if (end == value || *end || !(seconds > 0 && seconds < 1e10)) {
		return options_refuse(name, value,
				      "a time in seconds since 1970, as `date +%s` prints it");
	}
	*ret_ns = (uint64_t)(seconds * 1e9);
	return true;
}

/* One that is open and not standard. */
static bool take_fd(int *ret, const char *name, const char *value)
{
	uint64_t n;

	if (!options_parse_u64(value, &n) || n < 3 || n > INT32_MAX ||
	    fcntl((int)n, F_SETFD, FD_CLOEXEC) < 0) {
		return options_refuse(name, value, "an open descriptor");
	}
	*ret = (int)n;
	return true;
}

/* "2", "2%", "0.5 %"; all of it is no budget. */
static bool take_budget(struct run_options *o, const char *value)
{
	char *end;
	double percent = strtod(value, &end);
	/* No sign, no exponent, no hexadecimal digits. */
	bool plain = end == value + strspn(value, "0123456789.");

	end += strspn(end, " ");
	end += *end == '%';
	if (!plain || end == value || *end || !(percent >= 0.01 && percent <= 100)) {
		return options_refuse("budget", value, "a part of the time, from 0.01% to 100%");
	}
	o->has_budget = true;
	o->budget_ppm = percent < 100 ? (uint32_t)(percent * 1e4 + 0.5) : 0;
	return true;
}

static bool take_keys(struct keys *keys, const char *value)
{
	struct buf why = { 0 };
	bool good = keys_parse(value, keys, &why);

	if (!good) {
		say_usage("--by: %s", buf_string(&why));
	}
	buf_deinit(&why);
	return good;
}

static bool take_live(struct live *l, int id, const char *value)
{
	uint64_t width = 0;

	switch (id) {
	case OPTION_BY:
		return take_keys(&l->keys, value);
	case OPTION_SORT:
		l->sort = value;
		return true;
	case OPTION_ONCE:
		l->frames = 1;
		return true;
	case OPTION_BATCH:
		return (options_parse_u64(value, &l->frames) && l->frames > 0) ||
		       options_refuse("batch", value, "a number of frames");
	case OPTION_INTERVAL:
		return (options_parse_seconds(value, &l->interval_ns) &&
			l->interval_ns >= INTERVAL_MIN_NS) ||
		       options_refuse("interval", value, "a number of seconds, 0.1 or more");
	case OPTION_WIDTH:
		if (!options_parse_u64(value, &width) || width < WIDTH_MIN || width > WIDTH_MAX) {
			return options_refuse("width", value, "a number of columns, 20 to 2000");
		}
		l->width = (size_t)width;
		return true;
	default:
		return false;
	}
}

static bool take_filter(struct run_options *o, int id, const char *value)
{
	switch (id) {
	case OPTION_METRICS:
		return options_take_list(&o->metrics, "metrics", value);
	case OPTION_DEVICES:
		return options_take_list(&o->devices, "devices", value);
	case OPTION_BUDGET:
		return take_budget(o, value);
	case OPTION_SEED:
		o->has_seed = true;
		return options_take_u64("seed", value, &o->seed);
	case OPTION_TIMEOUT:
		return take_seconds(&o->timeout_ns, "timeout", value);
	case OPTION_LEASE:
		return take_seconds(&o->lease_ns, "lease", value);
	case 'd':
		return take_duration(&o->duration_ns, value);
	case OPTION_AT:
		return take_time(&o->at_ns, "at", value);
	case OPTION_SENT:
		return take_time(&o->sent_ns, "sent", value);
	case OPTION_READY_FD:
		return take_fd(&o->ready_fd, "ready-fd", value);
	case OPTION_UNTIL_FD:
		return take_fd(&o->until_fd, "until-fd", value);
	default:
		return selecting_takes(id)  ? selecting_take(&o->selecting, id, value)
		       : selector_takes(id) ? selector_take(&o->selector, id, value)
					    : take_live(&o->live, id, value);
	}
}

static bool take(struct run_options *o, int id, const char *value)
{
	switch (id) {
	case 'o':
		o->capture_path = value;
		return true;
	case 'f':
		o->force = true;
		return true;
	case 'q':
		o->quiet = true;
		return true;
	case OPTION_FORMAT:
		return take_format(o, value);
	case OPTION_OUTPUT:
		o->stream_path = value;
		return true;
	case OPTION_NO_WAIT:
		o->no_wait = true;
		return true;
	case OPTION_RECORDED:
		o->recorded = true;
		return true;
	case OPTION_HERE:
		o->here = true;
		return true;
	case OPTION_PART:
		o->part = value;
		return true;
	case OPTION_RAW:
		o->raw = true;
		return true;
	case OPTION_CHIP:
		o->chip = value;
		return true;
	case OPTION_SOCKET:
		o->socket = value;
		return true;
	case OPTION_AGENT:
		o->agent = value;
		return true;
	case OPTION_FAIL_IF_NONE:
		o->fail_if_none = true;
		return true;
	case OPTION_NO_SUMMARY:
		o->no_summary = true;
		return true;
	case OPTION_TORCH:
		o->torch = o->torch ? o->torch : "operators";
		return true;
	case OPTION_TORCH_MODULES:
		o->torch = "modules";
		return true;
	case OPTION_SUMMARY_ROWS:
		return options_take_u64("summary-rows", value, &o->summary_rows);
	default:
		return take_filter(o, id, value);
	}
}

/* -o is always a capture file and --output always a stream in the format that --format names. A
 * name that says otherwise is one of the two mistaken for the other. */
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

static bool check_wishes(struct run_options *o)
{
	if (o->has_seed && !o->has_budget && o->budget_ppm == 0) {
		say_usage("--seed is of the choice that a budget makes, and every launch is to be "
			  "measured: add --budget, or leave it out");
		return false;
	}
	if (!o->has_seed && getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed)) {
		o->seed = (uint64_t)getpid();
	}
	if (o->no_wait && o->timeout_ns > 0) {
		say_usage("--no-wait and --timeout: wait in the queue, or not; leave one out");
		return false;
	}
	return true;
}

static bool default_metrics(struct run_options *o)
{
	return o->metrics.n > 0 || options_take_list(&o->metrics, "metrics", "memory");
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A launcher's children have ranks that the launcher has not. */
static const char *late_letters(void)
{
	struct claims own = claims_of_self();
	bool has_task = claims_find(&own, "SLURM_PROCID");
	bool has_rank = claims_launcher_rank(&own);

	return has_rank ? "p" : has_task ? "pr" : "prt";
}

/* What gpuctr-replay is about to play, by whatever name. */
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

static bool complete_run(struct run_options *o)
{
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
	if (o->raw && o->budget_ppm > 0) {
		say_usage(
			"--raw and --budget: counter data is kept of all launches; leave one out");
		return false;
	}
	o->recorded |= strcmp(o->program, "gpuctr-replay") == 0;
	if (o->recorded && o->budget_ppm > 0) {
		say_usage("--budget: a recording costs nothing to play; leave it out");
		return false;
	}
	if (o->chip && !o->recorded) {
		say_usage("--chip is of a recording, and GPUs have their own: leave it out, or "
			  "play a recording (--recorded)");
		return false;
	}
	if (o->recorded) {
		recording_find(o->command, o->metrics.n > 0 ? NULL : &o->metrics,
			       &o->recorded_chip);
		o->chip = o->chip ? o->chip : o->recorded_chip;
	}
	return check_wishes(o) && selecting_check(&o->selecting) && check_paths(o) &&
	       spares_recording(o) && default_metrics(o);
}

/* "top" of capture files, or of the daemon: nothing is measured. */
static bool check_nothing_measured(const struct run_options *o)
{
	if (selector_is_empty(&o->selector) &&
	    (o->metrics.n > 0 || o->devices.n > 0 || o->no_wait || o->timeout_ns > 0 ||
	     o->has_budget || selecting_is_used(&o->selecting))) {
		say_usage("top: which processes are to be measured so? Add --pid, --tree, --job, "
			  "--program, --container, --user or --all");
		return false;
	}
	if (selector_is_empty(&o->selector) && !o->command[0] && o->live.sort) {
		say_usage("--sort %s: the rows of which table? Name capture files, or processes "
			  "to be measured",
			  o->live.sort);
		return false;
	}
	return true;
}

static bool complete_top(struct run_options *o)
{
	bool selects = !selector_is_empty(&o->selector);

	if (o->command[0] && selects) {
		say_usage("top: look at a capture file, or at processes, not at both");
		return false;
	}
	o->is_live = true;
	o->no_summary = true;
	o->program = "gpuctr-client top";
	return selects ? check_wishes(o) && selecting_check(&o->selecting) && default_metrics(o)
		       : check_nothing_measured(o);
}

enum { CAPTURE_BUDGET_PPM = 50000 };

/* Measuring takes no more of somebody's work that runs already, unless it is said how much is to be
 * measured. What being watched takes may be more, and is told (docs/internals/budget.md). */
static void default_budget(struct run_options *o)
{
	if (!o->has_budget && !selecting_is_bounded(&o->selecting)) {
		o->budget_ppm = CAPTURE_BUDGET_PPM;
	}
}

static bool complete_capture(struct run_options *o)
{
	if (o->command[0]) {
		say_usage("capture takes no argument '%s'; a program is started by run",
			  o->command[0]);
		return false;
	}
	if (selector_is_empty(&o->selector)) {
		say_usage("capture what? --pid, --tree, --job, --program, --container, --user or "
			  "--all; "
			  "`gpuctr-client ps` lists what there is");
		return false;
	}
	/* Who asked knows which of the jobs that were meant this one is. */
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
	default_budget(o);
	return check_wishes(o) && selecting_check(&o->selecting) && check_paths(o) &&
	       default_metrics(o);
}

static bool complete_follow(struct run_options *o)
{
	if (o->ready_fd < 0 || o->until_fd < 0) {
		say_usage("follow needs --ready-fd and --until-fd; a program is measured by run");
		return false;
	}
	o->late = "trp";
	o->program = o->command[0] ? last_part(o->command[0]) : "gpuctr-client follow";
	return check_wishes(o) && selecting_check(&o->selecting) && check_paths(o) &&
	       default_metrics(o);
}

/* arguments: options may stand behind arguments, too; the options of a program that is run may
 * not. */
static enum run_parse parse(struct run_options *o, const struct option_def *defs, bool arguments,
			    bool (*complete)(struct run_options *), int argc, char **argv)
{
	struct options_parser *parser = options_new(defs, !arguments, argc, argv);
	enum options_result result = OPTIONS_WRONG;
	const char *value;
	int id = 0, rest = argc;

	*o = (struct run_options){ .summary_rows = 20,
				   .ready_fd = -1,
				   .until_fd = -1,
				   .live = {
					   .keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 },
					   .interval_ns = 1000000000 } };
	while (parser && (result = options_next(parser, &id, &value, &rest)) == OPTIONS_ONE) {
		if (id == 'h' || !take(o, id, value)) {
			break;
		}
	}
	options_free(parser);
	if (result == OPTIONS_ONE) {
		return id == 'h' ? RUN_HELP : RUN_WRONG;
	}
	o->command = argv + rest;
	return result == OPTIONS_END && complete(o) ? RUN_PARSED : RUN_WRONG;
}

enum run_parse run_options_parse(struct run_options *o, int argc, char **argv)
{
	return parse(o, run_option_defs, false, complete_run, argc, argv);
}

enum run_parse capture_options_parse(struct run_options *o, int argc, char **argv)
{
	return parse(o, capture_option_defs, false, complete_capture, argc, argv);
}

enum run_parse follow_options_parse(struct run_options *o, int argc, char **argv)
{
	return parse(o, follow_option_defs, false, complete_follow, argc, argv);
}

enum run_parse top_options_parse(struct run_options *o, int argc, char **argv)
{
	return parse(o, top_option_defs, true, complete_top, argc, argv);
}

void run_options_deinit(struct run_options *o)
{
	strings_deinit(&o->metrics);
	strings_deinit(&o->devices);
	selecting_deinit(&o->selecting);
	selector_deinit(&o->selector);
	free(o->recorded_chip);
}
