/* SPDX-License-Identifier: Apache-2.0 */

/* Checks which options of "run", "capture" and "follow" go together: by a table of rules, and by
 * code where values matter. Here, in one place, options that were not given get their defaults. */

#include "client/cli/run_options.h"

#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

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

static bool ends_with(const char *path, const char *suffix)
{
	size_t n = strlen(path), n_suffix = strlen(suffix);

	return n > n_suffix && strcmp(path + n - n_suffix, suffix) == 0;
}

static bool is_for_csv(const char *option, const char *path)
{
	bool is_csv = ends_with(path, ".csv");

	if (is_csv) {
		say_usage("%s %s: CSV is made of a capture file: with -o run.gpuctr now, "
			  "`gpuctr-client export run.gpuctr -o %s` then makes it",
			  option, path, path);
	}
	return is_csv;
}

/* -o names a capture file, and --stream a stream. Refuses names whose suffix shows that the user
 * mistook one for the other. */
static bool check_paths(struct run_options *o)
{
	const char *path = o->capture_path;

	if (!check_pattern(o)) {
		return false;
	}
	if (path && (!*path || strcmp(path, "-") == 0)) {
		say_usage("-o '%s': this is an SQLite file, and needs a name; for a stream of "
			  "records on standard output: --stream",
			  path);
		return false;
	}
	if (path && (ends_with(path, ".json") || ends_with(path, ".jsonl"))) {
		say_usage("-o %s: this would be an SQLite file; for a stream of records: "
			  "--stream=%s",
			  path, path);
		return false;
	}
	if (path && is_for_csv("-o", path)) {
		return false;
	}
	return !o->stream_path || (outfile_is_plain("--stream", o->stream_path) &&
				   !is_for_csv("--stream", o->stream_path));
}

/* Options that need others, exclude others, or have a meaning only in some modes. */
#define IN(mode) (1U << (mode))

static const struct option_rule rules[] = {
	{ "metrics", NULL, NULL, IN(MODE_RANGE) | IN(MODE_SAMPLE),
	  "names counters, and --mode trace reads none, only when each kernel ran: leave one out" },
	{ "raw", "output", NULL, 0, "needs -o FILE" },
	{ "raw", NULL, NULL, IN(MODE_RANGE) | IN(MODE_SAMPLE),
	  "keeps counters, and --mode trace reads none: leave one out" },
	{ "recorded", NULL, "interval graphs", 0, "a recording is as it was made" },
	{ "recorded", NULL, NULL, IN(MODE_RANGE) | IN(MODE_SAMPLE),
	  "plays counters, and --mode trace reads none: leave one out" },
	{ "interval", NULL, NULL, IN(MODE_SAMPLE),
	  "is of samples: add --mode sample, or leave it out" },
	{ "per", "skip every count", NULL, 0,
	  "says of what -s, --every and -c count: add one of them" },
	{ "steps", NULL, "schedule", 0, "both choose steps" },
	{ "step", "steps schedule", NULL, 0, "says what begins a step: how many? Add --steps N" },
	{ "capture-range-end", "within profile-from-start", NULL, 0,
	  "is about a range: add --within cudaProfilerApi or nvtx:EXPR" },
	{ NULL, NULL, NULL, 0, NULL },
};

static const struct option_rule timeline_rules[] = {
	{ "timeline", NULL,
	  "mode graphs pid program job all kernel skip every count per nvtx no-nvtx within steps "
	  "step fail-if-none here profile-from-start capture-range-end schedule",
	  0, "a timeline is of a whole GPU, and of all that runs there" },
	{ NULL, NULL, NULL, 0, NULL },
};

/* A capture of running programs samples; if sampling is refused, it measures every launch. When
 * options limit the number of launches, samples tell too little about the few, so every one is
 * measured. */
static void default_mode(struct run_options *o)
{
	if (o->mode != MODE_UNSAID) {
		return;
	}
	if (o->timeline.interval_ns > 0 || o->graphs == GRAPHS_NODES) { /* ranges have neither */
		o->mode = MODE_SAMPLE;
	} else if (!launch_filter_is_bounded(&o->filter)) {
		o->mode = MODE_SAMPLE;
		o->may_fall_back = true;
	}
}

/* Ranges around each launch may slow a program fivefold, so the fallback measures few steps. */
enum { FALL_BACK_STEPS = 3 };

void run_options_fall_back(struct run_options *o, struct strings *usual)
{
	o->mode = MODE_RANGE;
	if (!selector_is_empty(&o->selector) && o->duration_ns == 0 &&
	    launch_filter_measure_steps(&o->filter, FALL_BACK_STEPS)) {
		o->whole_steps = FALL_BACK_STEPS;
	}
	if (o->usual_metrics && options_take_list(usual, "metrics", "memory")) {
		o->metrics = *usual;
	}
}

static bool refuse_mode(const char *mode, const char *other, const char *why)
{
	say_usage("--mode %s and %s: %s; leave one out", mode, other, why);
	return false;
}

/* Refuses options that do not go together, or not with the mode. */
static bool check_mode(const struct run_options *o)
{
	enum run_mode mode = o->mode == MODE_UNSAID ? MODE_RANGE : o->mode;

	if (!options_keep_rules(run_option_defs, rules, o->given, IN(mode))) {
		return false;
	}
	if (o->graphs == GRAPHS_NODES && mode == MODE_RANGE) {
		return refuse_mode("range", "--graphs nodes",
				   "counters are read around a graph as a whole");
	}
	return !o->raw || mode != MODE_SAMPLE || !expand_has(o->capture_path, o->late) ||
	       refuse_mode("sample", "--raw with several files",
			   "samples are of the whole GPU, and go into one");
}

/* The metrics of the preset "memory" that can be sampled. */
static const char sampled_metrics[] = "dram__bytes_read.sum,dram__bytes_write.sum";

static bool default_metrics(struct run_options *o)
{
	if (o->metrics.n > 0 && strcmp(o->metrics.items[0], "none") == 0) {
		say_usage("--metrics none is gone: --mode trace reads no counter, only when each "
			  "kernel ran");
		return false;
	}
	if (o->mode == MODE_TRACE || o->metrics.n > 0) {
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

/* Letters of the pattern of -o that are known only when a process attaches: the children of a
 * launcher have ranks, the launcher itself has none. */
static const char *late_letters(void)
{
	struct claims own = claims_of_self();
	bool has_task = claims_find(&own, "SLURM_PROCID");
	bool has_rank = claims_launcher_rank(&own);

	return has_rank ? "p" : has_task ? "pr" : "prt";
}

/* Takes chip, metrics and mode from the recording, where the user gave none. */
static bool take_recording(struct run_options *o)
{
	struct recording *r = &o->recording;
	recording_find(o->command, o->metrics.n > 0 ? NULL : &o->metrics, r);
	o->chip = r->chip;
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

/* nsys has "-f true", which would run /bin/true here. In "-f -- true" the user means /bin/true. */
static bool check_force(char **command)
{
	const char *before = command[-1];
	bool is_force = strcmp(before, "--force") == 0 ||
			(before[0] == '-' && before[strspn(before + 1, "qv") + 1] == 'f' &&
			 before[strspn(before + 1, "qv") + 2] == '\0');

	if (!is_force || !command[0] ||
	    (strcmp(command[0], "true") != 0 && strcmp(command[0], "false") != 0)) {
		return true;
	}
	say_usage("%s takes no value, and '%s' would be the program that is run: leave '%s' out; "
		  "%s alone replaces files (%s -- %s does run it)",
		  before, command[0], command[0], before, before, command[0]);
	return false;
}

bool run_options_check(struct run_options *o, char **command)
{
	o->command = command;
	if (!check_force(command)) {
		return false;
	}
	if (!o->command[0]) {
		say_usage("no program given; 'gpuctr-client --help' shows how");
		return false;
	}
	o->late = late_letters();
	o->program = last_part(o->command[0]);
	if (strcmp(o->program, "gpuctr-replay") == 0) {
		o->recorded = true;
		o->given |= options_bit(run_option_defs, "recorded");
	}
	return (!o->recorded || take_recording(o)) && check_mode(o) && check_paths(o) &&
	       default_metrics(o);
}

static bool timeline_check(struct run_options *o)
{
	struct run_timeline *t = &o->timeline;

	if (!options_keep_rules(run_option_defs, timeline_rules, o->given, 0)) {
		return false;
	}
	if (o->devices.n > 1) {
		say_usage("--timeline is of one GPU: name one with --devices");
		return false;
	}
	o->program = "gpuctr-client capture --timeline";
	t->interval_ns = t->interval_ns ? t->interval_ns : 10000;
	return check_paths(o) &&
	       (o->devices.n > 0 || options_take_list(&o->devices, "devices", "0")) &&
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
	if (selector_is_empty(&o->selector)) {
		say_usage("capture what? --pid, --program, --job or --all; `gpuctr-client status` "
			  "lists what there is");
		return false;
	}
	/* The client that started this one has found the job: selects by its exact names. */
	if (o->part) {
		strings_deinit(&o->selector.jobs);
		o->selector.jobs = (struct strings){ 0 };
		o->selector.exact = true;
		if (!options_take_list(&o->selector.jobs, "here", o->part)) {
			return false;
		}
	}
	o->program = "gpuctr-client capture";
	o->late = "jJntrp";
	default_mode(o);
	return check_mode(o) && check_paths(o) && default_metrics(o);
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
	o->no_summary = o->capture_path != NULL;
	return check_mode(o) && check_paths(o) && default_metrics(o);
}
