/* SPDX-License-Identifier: Apache-2.0 */

/* "metrics": lists the metrics of this machine's chip or of another. Each metric has a line that
 * begins with its name, for cut and grep; --describe prints a paragraph for each. */

#include "client/cli/verb.h"

#include <string.h>

#include "client/cli/metrics_fit.h"
#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/report/groups.h"
#include "proto/nvidia/aliases.h"

enum { WIDTH = 96 };

/* ncu's prefix for the counters of a throughput, which --metrics of "run" takes too. */
#define BREAKDOWN "breakdown:"

struct metrics_options {
	const char *socket, *chip;
	struct strings fit;
	bool describe;
};

static const struct option_def defs[] = {
	{ 0, "chip", "CHIP", "of this chip instead of this machine's",
	  OPTION_AT(TEXT, struct metrics_options, chip) },
	{ 0, "describe", NULL, "with descriptions and submetrics",
	  OPTION_AT(FLAG, struct metrics_options, describe) },
	{ 0, "fit", "LIST", "how many passes these need, and which fit together",
	  OPTION_AT(LIST, struct metrics_options, fit) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct metrics_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static const struct option_rule rules[] = {
	{ "fit", NULL, "describe", 0, "a list of metrics, or what to look for" },
	{ NULL, NULL, NULL, 0, NULL },
};

struct listing {
	struct request request;
	bool describe;
	uint64_t metrics;
	const char *chip;		      /* the GPU or chip that was named; NULL: none */
	const struct gpuctr_error *no_daemon; /* why no daemon was asked; NULL: a daemon was */
};

static const char *kind_name(enum gpuctr_metric_kind kind)
{
	switch (kind) {
	case GPUCTR_METRIC_COUNTER:
		return "counter";
	case GPUCTR_METRIC_RATIO:
		return "ratio";
	case GPUCTR_METRIC_THROUGHPUT:
		return "throughput";
	case GPUCTR_METRIC_PRESET:
		return "preset";
	case GPUCTR_METRIC_DERIVED:
		return "derived";
	}
	return "unknown";
}

/* Appends head and text, wrapped; further lines are indented by the width of head. */
static void add_wrapped(struct buf *b, const char *head, const char *text)
{
	CLEAN_BUF struct buf safe = { 0 }, lines = { 0 };
	int indent = (int)strlen(head);

	text_terminal(&safe, text);
	text_wrap(&lines, buf_string(&safe), WIDTH - (size_t)indent);
	for (const char *line = buf_string(&lines); *line;) {
		size_t n = strcspn(line, "\n");

		buf_printf(b, "%*s%.*s\n", indent, line == lines.data ? head : "", (int)n, line);
		line += n + 1;
	}
	b->failed |= safe.failed || lines.failed;
}

/* Length of the first part of ".sum.per_second": ".sum". */
static size_t rollup_length(const char *submetric)
{
	const char *dot = *submetric ? strchr(submetric + 1, '.') : NULL;

	return dot ? (size_t)(dot - submetric) : strlen(submetric);
}

/* Do all rollups have the same endings as the first one? Submetrics come sorted by rollup. For
 * CUPTI's counters the answer is yes: four rollups and eleven endings read better than 44 names. */
static bool is_regular(const struct gpuctr_metric *metric, size_t n_endings)
{
	const char *const *names = metric->submetrics;

	if (n_endings < 2 || metric->n_submetrics % n_endings != 0) {
		return false;
	}
	for (size_t i = 0; i < metric->n_submetrics; i++) {
		const char *rollup = names[i - i % n_endings], *model = names[i % n_endings];
		size_t n = rollup_length(names[i]);

		if (n != rollup_length(rollup) || strncmp(names[i], rollup, n) != 0 ||
		    strcmp(names[i] + n, model + rollup_length(model)) != 0) {
			return false;
		}
	}
	return true;
}

static void add_regular(struct buf *b, const struct gpuctr_metric *metric, size_t n_endings)
{
	CLEAN_BUF struct buf rollups = { 0 }, endings = { 0 };

	for (size_t i = 0; i < metric->n_submetrics; i += n_endings) {
		buf_printf(&rollups, "%s%.*s", i > 0 ? " " : "",
			   (int)rollup_length(metric->submetrics[i]), metric->submetrics[i]);
	}
	for (size_t i = 0; i < n_endings; i++) {
		const char *ending = metric->submetrics[i] + rollup_length(metric->submetrics[i]);

		buf_printf(&endings, "%s%s", i > 0 ? " " : "", *ending ? ending : "alone");
	}
	add_wrapped(b, "    rollups     ", buf_string(&rollups));
	add_wrapped(b, "    each        ", buf_string(&endings));
}

static void add_submetrics(struct buf *b, const struct gpuctr_metric *metric)
{
	CLEAN_BUF struct buf all = { 0 };
	bool whole = metric->kind == GPUCTR_METRIC_PRESET || metric->kind == GPUCTR_METRIC_DERIVED;
	size_t n_endings = 0;

	while (n_endings < metric->n_submetrics &&
	       rollup_length(metric->submetrics[n_endings]) ==
		       rollup_length(metric->submetrics[0]) &&
	       strncmp(metric->submetrics[n_endings], metric->submetrics[0],
		       rollup_length(metric->submetrics[0])) == 0) {
		n_endings++;
	}
	if (!whole && is_regular(metric, n_endings)) {
		add_regular(b, metric, n_endings);
		return;
	}
	for (size_t i = 0; i < metric->n_submetrics; i++) {
		buf_printf(&all, "%s%s", i > 0 ? " " : "", metric->submetrics[i]);
	}
	if (all.n > 0) {
		add_wrapped(b, whole ? "    stands for  " : "    submetrics  ", buf_string(&all));
	}
}

/* Submetrics of a derived metric are its terms, and of a preset its columns. */
static void add_of_range(struct buf *b, const struct gpuctr_metric *metric)
{
	bool any = groups_is_of_range(metric->name);

	for (size_t i = 0; i < metric->n_submetrics; i++) {
		any = any || groups_is_of_range(metric->submetrics[i]);
	}
	if (any) {
		add_wrapped(
			b, "    of ranges   ",
			"elapsed time and cycles, and what is related to them (per_second, "
			"per_cycle_elapsed, pct_of_peak_sustained_elapsed), are those of the range "
			"around a kernel, which is longer than the kernel");
	}
}

static void on_metric(const struct gpuctr_metric *metric, void *userdata)
{
	struct listing *listing = userdata;
	struct buf *b = &listing->request.b;

	listing->metrics++;
	if (!listing->describe) {
		metric_line(b, "", metric->name, kind_name(metric->kind), metric->unit);
		return;
	}
	text_printf(b, "%s\n", metric->name);
	buf_printf(b, "    %s", kind_name(metric->kind));
	if (metric->unit && *metric->unit) {
		text_printf(b, ", in %s", metric->unit);
	}
	if (metric->hardware_unit && *metric->hardware_unit) {
		text_printf(b, ", of %s", metric->hardware_unit);
	}
	buf_char(b, '\n');
	if (metric->description && *metric->description) {
		add_wrapped(b, "    ", metric->description);
	}
	add_submetrics(b, metric);
	add_of_range(b, metric);
}

static bool is_of_cupti(const struct gpuctr_error *error)
{
	return error->code == GPUCTR_E_NO_CUPTI || error->code == GPUCTR_E_CUPTI_TOO_OLD;
}

static void on_end(const char *chip, const struct gpuctr_error *error, void *userdata)
{
	struct listing *listing = userdata;

	if (!error) {
		say("%s metric%s of %s%s", TEXT_COUNT(listing->metrics),
		    listing->metrics == 1 ? "" : "s", chip,
		    !listing->no_daemon ? ""
		    : listing->chip	? ", as this machine's CUPTI knows it"
					: ", as this machine's CUPTI knows it: no daemon says what "
					  "GPU there is (--chip names another)");
	}
	/* Neither a daemon nor CUPTI answers; either would do, so both errors are reported. */
	if (error && is_of_cupti(error) && listing->no_daemon &&
	    listing->no_daemon->code == GPUCTR_E_NO_DAEMON) {
		say("%s", listing->no_daemon->message);
	}
	request_answer(&listing->request, error);
}

/* --- command line ---------------------------------------------------------------------------- */

/* Reports which metric a name of nvprof stands for. */
static void report_aliases(char **patterns, int n)
{
	for (int i = 0; i < n; i++) {
		const struct alias *alias = alias_find(patterns[i]);

		if (alias && alias->of_nvprof) {
			say("%s, as nvprof called it, is %s%s%s", alias->name, alias->means,
			    alias->how ? ": " : "", alias->how ? alias->how : "");
		}
	}
}

/* Without a daemon, lists the metrics that CUPTI of this machine knows. */
static int list_here(struct listing *listing, const struct gpuctr_metrics_options *options,
		     const struct gpuctr_error *why)
{
	listing->no_daemon = why;
	/* No daemon is no error here; a daemon that refuses is reported. */
	if (why->code != GPUCTR_E_NO_DAEMON) {
		say("%s", why->message);
	}
	gpuctr_list_metrics_here(options, on_metric, on_end, listing);
	return request_finish(&listing->request, 0);
}

static int list(const struct metrics_options *o, char **patterns, int n)
{
	struct gpuctr_metrics_options options = GPUCTR_INIT(gpuctr_metrics_options);
	struct listing listing = { .describe = o->describe, .chip = o->chip };
	const struct gpuctr_error *why;
	int r;

	options.chip = o->chip;
	options.patterns = (const char *const *)patterns;
	options.n_patterns = (size_t)n;
	options.describe = o->describe;
	report_aliases(patterns, n);
	for (int i = 0; i < n; i++) { /* a metric's description lists its parts */
		if (strncmp(patterns[i], BREAKDOWN, strlen(BREAKDOWN)) == 0) {
			patterns[i] += strlen(BREAKDOWN);
			options.describe = listing.describe = true;
		}
	}
	/* A user who names a socket wants the daemon of this socket, and no list without it. */
	if (o->socket) {
		if (!request_open(&listing.request, o->socket)) {
			return listing.request.status;
		}
	} else if ((why = request_try(&listing.request, NULL))) {
		return list_here(&listing, &options, why);
	}
	r = gpuctr_list_metrics(listing.request.g, &options, on_metric, on_end, &listing);
	return request_finish(&listing.request, r);
}

static int exec_metrics(const struct verb *const *verbs, int argc, char **argv)
{
	struct metrics_options o = { 0 };
	int rest, status = verb_read(&verb_metrics, argc, argv, &o, &rest);

	if (status < 0 && o.fit.n > 0 && rest < argc) {
		say_usage("--fit and %s: a list of metrics, or what to look for; leave one out",
			  argv[rest]);
		status = EXIT_VERB_USAGE;
	} else if (status < 0 && o.fit.n > 0) {
		status = metrics_fit(o.socket, o.chip, &o.fit);
	} else if (status < 0) {
		status = list(&o, argv + rest, argc - rest);
	}
	strings_deinit(&o.fit);
	return status;
}

const struct verb verb_metrics = {
	.name = "metrics",
	.usage = "metrics [PATTERN...] [--describe] [--fit LIST] [--chip CHIP]",
	.summary = "list metrics, or show which fit together",
	.details =
		"PATTERN is a word that names contain, or several (\"hit rate\"); what nvprof or "
		"people call a\nmetric (achieved_occupancy, l2, bandwidth); a glob ('dram__*', "
		"quoted) or regex:EXPR. Needs no\nGPU, and no daemon where CUPTI is installed.\n",
	.examples = "  gpuctr-client metrics dram\n"
		    "  gpuctr-client metrics dram_read_bytes      # as nvprof called it\n"
		    "  gpuctr-client metrics 'dram__*' --describe\n"
		    "  gpuctr-client metrics 'regex:^dram__bytes_(read|write)$' --chip GH100\n"
		    "  gpuctr-client metrics --fit 'dram__bytes_*.sum,sm__inst_executed.sum'\n",
	.takes = "METRIC",
	.options = defs,
	.rules = rules,
	.exec = exec_metrics,
};
