/* SPDX-License-Identifier: Apache-2.0 */

/* "merge": our counters into a trace that torch.profiler wrote. */

#include "client/cli/verb.h"

#include "client/cli/export.h"
#include "client/cli/say.h"

static const struct option_def defs[] = {
	{ 'o', "output", "FILE", "the trace with counters; default: -, standard output" },
	{ 'f', "force", NULL, "replace FILE" },
	{ EXPORT_OPTION_PROCESS, "process", "N",
	  "the process of the capture (default: its only one)" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

static bool take_option(void *userdata, int id, const char *value)
{
	return export_take_option(userdata, id, value);
}

static int exec_merge(const struct verb *const *verbs, int argc, char **argv)
{
	struct export_options o = { .verb = "merge", .exporter = &exporter_merge, .path = "-" };
	enum options_result result;
	int rest;

	(void)verbs;
	result = options_parse(defs, argc, argv, take_option, &o, &rest);
	if (o.help) {
		verb_print_help(&verb_merge);
		return 0;
	}
	if (result != OPTIONS_END) {
		return EXIT_VERB_USAGE;
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
		"finds the counters too,\nin events of category cuda_profiler_range. A FILE.gz is "
		"compressed.\n\nexample:\n"
		"  gpuctr-client merge trace.json.gz run.gpuctr -o merged.json.gz\n",
	.takes = "FILE",
	.options = defs,
	.exec = exec_merge,
};
