/* SPDX-License-Identifier: Apache-2.0 */

/* What options of "run", "capture" and "follow" may stand together. What is left unsaid gets
 * its default here, in one place. */

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

/* -o names a capture file, and --output a stream. Refuses names whose suffix shows that the user
 * mistook one for the other. */
static bool check_paths(struct run_options *o)
{
	const char *path = o->capture_path;

	if (!check_pattern(o)) {
		return false;
	}
	if (path && (!*path || strcmp(path, "-") == 0)) {
		say_usage("-o '%s': this is an SQLite file, and needs a name; for a stream of "
			  "records on "
			  "standard output: --format jsonl",
			  path);
		return false;
	}
	if (path && (ends_with(path, ".json") || ends_with(path, ".jsonl"))) {
		say_usage("-o %s: this would be an SQLite file; for a stream of records: --format "
			  "jsonl --output %s",
			  path, path);
		return false;
	}
	if (path && is_for_csv("-o", path)) {
		return false;
	}
	if (!o->stream_path) {
		o->stream_path = o->streams ? "-" : NULL;
		return true;
	}
	if (!outfile_is_plain("--output", o->stream_path) ||
	    is_for_csv("--output", o->stream_path)) {
		return false;
	}
	if (!o->streams) {
		say_usage("--output %s: in which format? Add --format jsonl", o->stream_path);
	}
	return o->streams;
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

/* "--metrics none" is a trace: there is nothing to replay or to keep raw. */
static bool take_trace(struct run_options *o)
{
	const char *other = o->metrics.n > 1 ? "another metric"
			    : o->raw	     ? "--raw"
			    : o->recorded    ? "a recording"
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

/* A capture of running programs samples, or, where that is refused, measures every launch. Of few
 * launches, as options limit them, samples know little: these are measured, every one. */
static void default_mode(struct run_options *o)
{
	if (o->mode != MODE_UNSAID || o->trace) {
		return;
	}
	if (o->timeline.interval_ns > 0 || o->graphs == GRAPHS_NODES) { /* ranges have neither */
		o->mode = MODE_SAMPLE;
	} else if (!launch_filter_is_bounded(&o->filter)) {
		o->mode = MODE_SAMPLE;
		o->may_fall_back = true;
	}
}

/* Each launch in ranges may slow a program fivefold: for long enough to know its figures, and then
 * no more. */
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

/* Refuses options that do not go with the mode. */
static bool check_mode(const struct run_options *o)
{
	if (o->timeline.interval_ns > 0 && o->mode != MODE_SAMPLE) {
		say_usage("--interval is of samples: add --mode sample, or leave it out");
		return false;
	}
	if (o->graphs == GRAPHS_NODES && o->mode != MODE_SAMPLE && !o->trace) {
		say_usage("--graphs nodes: by default counters are read around a graph as a whole; "
			  "add --mode sample or --metrics none, or leave it out");
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
		return refuse_mode(o->mode == MODE_SAMPLE ? "sample" : "range", "--metrics none",
				   "nothing is measured then");
	}
	if (o->mode != MODE_SAMPLE) {
		return true;
	}
	if (o->raw && o->no_samples) {
		say_usage("--raw keeps samples of --mode sample: leave out --no-samples or --raw");
		return false;
	}
	return !o->raw || !expand_has(o->capture_path, o->late) ||
	       refuse_mode("sample", "--raw with several files",
			   "samples are of the whole GPU, and go into one");
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

/* nsys has "-f true", which would run /bin/true. With "--" between them it is meant. */
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
	if (o->raw && !o->capture_path) {
		say_usage("--raw needs -o FILE");
		return false;
	}
	o->late = late_letters();
	o->program = last_part(o->command[0]);
	o->recorded |= strcmp(o->program, "gpuctr-replay") == 0;
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
	return launch_filter_check(&o->filter) && check_paths(o) && default_metrics(o);
}

/* The first option that has no meaning for samples of a whole GPU, because it is about kernels,
 * programs or capture files; NULL: there is none. */
static const char *find_more_than_timeline(const struct run_options *o)
{
	const struct {
		bool is_given;
		const char *name;
	} options[] = {
		{ !selector_is_empty(&o->selector), "a choice of processes" },
		{ o->devices.n > 0, "--devices" },
		{ o->capture_path, "-o" },
		{ o->at_ns > 0, "--at" },
		{ o->part, "--part" },
		{ o->here, "--here" },
		{ o->fail_if_none, "--fail-if-none" },
		{ o->graphs != GRAPHS_UNSAID, "--graphs" },
		{ o->no_samples, "--no-samples" },
		{ o->summary_rows != SUMMARY_ROWS_UNSAID, "--summary-rows" },
		{ launch_filter_is_used(&o->filter), "a filter of launches" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (options[i].is_given) {
			return options[i].name;
		}
	}
	return NULL;
}

static bool timeline_check(struct run_options *o)
{
	const char *more = find_more_than_timeline(o);
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
	if (more) {
		say_usage("--timeline and %s: a timeline is of a whole GPU, and of all that runs "
			  "there; it goes with --gpu, --metrics, --interval, --duration, --format "
			  "and --output, and with those of the queue",
			  more);
		return false;
	}
	t->gpu = t->gpu ? t->gpu : "0";
	t->interval_ns = t->interval_ns ? t->interval_ns : 10000;
	return check_paths(o) &&
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
		say_usage("capture what? --pid, --program, --job or --all; `gpuctr-client status` "
			  "lists what there is");
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
	return launch_filter_check(&o->filter) && check_paths(o) && default_metrics(o);
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
	return take_trace(o) && launch_filter_check(&o->filter) && check_paths(o) &&
	       default_metrics(o);
}
