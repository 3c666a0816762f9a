/* SPDX-License-Identifier: Apache-2.0 */

/* "merge": our counters into a trace that torch.profiler wrote. */

#include "client/cli/verb.h"

#include <string.h>

#include "client/cli/export.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

static const struct option_def defs[] = {
	{ 'o', "output", "FILE", "the trace with counters; default: -, standard output",
	  OPTION_AT(TEXT, struct export_options, path) },
	{ 'f', "force", NULL, "replace FILE", OPTION_AT(FLAG, struct export_options, force) },
	{ 0, "process", "N", "the process of the capture (default: its only one)",
	  OPTION_TAKEN(export_take_process, struct export_options, more.process) },
	{ 0, "samples", "FILE[:N]",
	  "in place of CAPTURE: samples of the same seconds, of GPU N of the trace",
	  OPTION_AT(ITEM, struct export_options, joined.samples) },
	{ 0, "capture", "FILE", "with --samples: make a capture file of the kernels",
	  OPTION_AT(TEXT, struct export_options, joined.capture) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* Every kernel of the trace with its values, and nothing written but the capture file. */
static int keep_alone(const struct export_options *o)
{
	const struct reading_handler none = { 0 };
	struct exporter_refusal refusal = { 0 };
	struct buf told = { 0 };
	int r = joined_read(&o->joined, &none, NULL, &refusal, &told);

	if (r == EXPORTER_REFUSES) {
		say_error(refusal.code, buf_string(&refusal.why), refusal.remedy);
	} else if (r) {
		say_usage("out of memory");
	} else {
		say_text(&told);
	}
	buf_deinit(&refusal.why);
	buf_deinit(&told);
	return r ? EXIT_VERB_FAILED : 0;
}

/* Nothing that is read is written. */
static bool spares(const struct export_options *o, const char *option, const char *path)
{
	bool good = !path || outfile_spares(option, path, o->joined.trace);

	for (size_t i = 0; path && good && i < o->joined.samples.n; i++) {
		const char *item = o->joined.samples.items[i];
		uint64_t gpu;
		CLEAN_FREE char *samples = strndup(item, joined_path_length(item, &gpu));

		good = samples && outfile_spares(option, path, samples);
	}
	return good;
}

static int merge_samples(struct export_options *o, int argc, char **argv)
{
	if (argc != 1) {
		say_usage("merge --samples: name a trace, and no capture file");
		return EXIT_VERB_USAGE;
	}
	if (o->more.process > 0) {
		say_usage("merge: --process is of a capture file; leave it out with --samples");
		return EXIT_VERB_USAGE;
	}
	o->more.trace = o->joined.trace = argv[0];
	o->joined.force = o->force;
	if (!spares(o, "--output", o->path) || !spares(o, "--capture", o->joined.capture)) {
		return EXIT_VERB_USAGE;
	}
	if (o->joined.capture && !o->path) {
		return keep_alone(o);
	}
	o->path = o->path ? o->path : "-";
	return export_capture(o);
}

static int merge_capture(struct export_options *o, int argc, char **argv)
{
	if (argc != 2) {
		say_usage("merge: name a trace and a capture file, or samples with --samples");
		return EXIT_VERB_USAGE;
	}
	if (o->joined.capture) {
		say_usage("merge: --capture makes a capture file of --samples; leave it out, or "
			  "name samples");
		return EXIT_VERB_USAGE;
	}
	o->path = o->path ? o->path : "-";
	o->more.trace = argv[0];
	o->capture = argv[1];
	return export_capture(o);
}

static int exec_merge(const struct verb *const *verbs, int argc, char **argv)
{
	struct export_options o = { .verb = "merge", .exporter = &exporter_merge };
	int rest, status = verb_read(&verb_merge, argc, argv, &o, &rest);

	if (status < 0) {
		status = o.joined.samples.n > 0 ? merge_samples(&o, argc - rest, argv + rest)
						: merge_capture(&o, argc - rest, argv + rest);
	}
	strings_deinit(&o.joined.samples);
	return status;
}

const struct verb verb_merge = {
	.name = "merge",
	.usage = "merge TRACE.json[.gz] CAPTURE|--samples FILE [-o FILE] [OPTION...]",
	.summary = "put counters into a trace that torch.profiler wrote",
	.details =
		"The i-th launch of a kernel's name in the trace gets the counters of the i-th of "
		"that name in\nthe capture; what found no partner is counted. "
		"HolisticTraceAnalysis "
		"finds the counters too,\nin events of category cuda_profiler_range. A FILE.gz is "
		"compressed.\n\nexample:\n"
		"  gpuctr-client merge trace.json.gz run.gpuctr -o merged.json.gz\n",
	.takes = "FILE",
	.options = defs,
	.exec = exec_merge,
};
