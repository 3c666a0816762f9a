/* SPDX-License-Identifier: Apache-2.0 */

/* What options of "run", "capture", "follow" and "top" may stand together. What is left unsaid gets
 * its default here, in one place. */

#include "client/cli/run_options.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/recording.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

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
	if (o->timeline.interval_ns > 0 || o->graphs == GRAPHS_NODES) { /* no budget has these */
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
	if (o->every_kernel && (o->trace || (o->mode != MODE_SAMPLE && o->mode != MODE_UNSAID))) {
		say_usage("--every-kernel is of --mode sample: add that, or leave it out");
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
	if (o->metrics.n > 0 || o->devices.n > 0 || o->no_wait || o->timeout_ns > 0 ||
	    o->budget.is_given || o->budget.has_seed || launch_filter_is_used(&o->filter)) {
		say_usage("top: which processes are to be measured so? Add --pid, --tree, --job, "
			  "--program, --container, --user or --all");
		return false;
	}
	if (o->live.sort || o->live.keys.n > 0) {
		say_usage("--%s: the rows of which table? Name processes to be measured",
			  o->live.sort ? "sort" : "by");
		return false;
	}
	return true;
}

bool top_options_check(struct run_options *o, char **command)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };

	o->command = command;
	o->is_live = true;
	o->no_summary = true;
	o->program = "gpuctr-client top";
	if (selector_is_empty(&o->selector)) {
		return check_nothing_measured(o);
	}
	o->live.keys = o->live.keys.n > 0 ? o->live.keys : by_kernel;
	return take_trace(o) && check_request(o) && launch_filter_check(&o->filter) &&
	       default_metrics(o);
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
		{ o->budget.is_given, "--budget" },
		{ o->budget.has_seed, "--seed" },
		{ o->at_ns > 0, "--at" },
		{ o->part, "--part" },
		{ o->here, "--here" },
		{ o->fail_if_none, "--fail-if-none" },
		{ o->graphs != GRAPHS_UNSAID, "--graphs" },
		{ o->no_samples, "--no-samples" },
		{ o->every_kernel, "--every-kernel" },
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
	if (o->format == &format_table && o->stream_path) {
		say_usage("--timeline and --format table --output %s: its table goes to standard "
			  "output; a stream of samples is --format jsonl or csv",
			  o->stream_path);
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
