/* SPDX-License-Identifier: Apache-2.0 */

/* "merge": our counters into a trace that torch.profiler wrote. */

#include "client/cli/verb.h"

#include "client/cli/export.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"

static const struct option_def defs[] = {
	{ 'o', "output", "FILE", "the trace with counters; default: -, standard output",
	  OPTION_AT(TEXT, struct export_options, path) },
	{ 'f', "force", NULL, "replace FILE", OPTION_AT(FLAG, struct export_options, force) },
	{ 0, "process", "N", "the process of the capture (default: its only one)",
	  OPTION_TAKEN(export_take_process, struct export_options, more.process) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static int exec_merge(const struct verb *const *verbs, int argc, char **argv)
{
	struct export_options o = { .verb = "merge", .exporter = &exporter_merge, .path = "-" };
	int rest, status = verb_read(&verb_merge, argc, argv, &o, &rest);

	if (status < 0 && !outfile_is_plain("--output", o.path)) {
		status = EXIT_VERB_USAGE;
	}
	if (status >= 0) {
		return status;
	}
	if (argc - rest != 2) {
		say_usage("merge: name a trace and a capture file");
		return EXIT_VERB_USAGE;
	}
	o.more.trace = argv[rest];
	o.capture = argv[rest + 1];
	return export_capture(&o);
}

const struct verb verb_merge = {
	.name = "merge",
	.usage = "merge TRACE.json[.gz] CAPTURE [-o FILE] [OPTION...]",
	.summary = "put counters into a trace that torch.profiler wrote",
	.details =
		"The i-th launch of a kernel's name in the trace gets the counters of the i-th of "
		"that name in\nthe capture; what found no partner is counted. "
		"HolisticTraceAnalysis "
		"finds the counters too,\nin events of category cuda_profiler_range.\n\nexample:\n"
		"  gpuctr-client merge trace.json.gz run.gpuctr -o merged.json\n",
	.takes = "FILE",
	.options = defs,
	.exec = exec_merge,
};
