/* SPDX-License-Identifier: Apache-2.0 */

/* "export" converts a capture file for another program, and "merge" puts its counters into a trace
 * that torch.profiler wrote. This file chooses the format, export.c converts. */

#include "client/cli/verb.h"

#include <string.h>

#include "client/cli/export.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"

enum { TO_CHROME, TO_CSV, TO_JSONL, TO_FOLDED, TO_PYPROF };

static const struct exporter *const exporters[] = { [TO_CHROME] = &exporter_chrome,
						    [TO_CSV] = &export_csv,
						    [TO_JSONL] = &export_jsonl,
						    [TO_FOLDED] = &exporter_folded,
						    [TO_PYPROF] = &exporter_pyprof };

/* --- command line ---------------------------------------------------------------------------- */

static bool refuse_perfetto(void)
{
	say_usage("export: there is no export in Perfetto's own format; ui.perfetto.dev opens the "
		  "Chrome trace: --to chrome -o trace.json");
	return false;
}

static const struct exporter *find_exporter(const char *name)
{
	for (size_t i = 0; i < sizeof(exporters) / sizeof(exporters[0]); i++) {
		if (strcmp(exporters[i]->name, name) == 0) {
			return exporters[i];
		}
	}
	return NULL;
}

static bool take_format(void *options, const char *value)
{
	struct export_options *o = options;

	o->exporter = find_exporter(value);
	if (!o->exporter && strcmp(value, "perfetto") == 0) {
		return refuse_perfetto();
	}
	if (!o->exporter) {
		say_usage("--to is chrome, csv, jsonl, folded or pyprof, not '%s'", value);
	}
	return o->exporter != NULL;
}

static bool take_unsigned(const char *option, const char *value, unsigned min, unsigned *ret)
{
	uint64_t n;
	bool good = options_take_number(option, value, min, INT32_MAX, &n);

	*ret = good ? (unsigned)n : 0;
	return good;
}

static bool take_process(void *process, const char *value)
{
	return take_unsigned("process", value, 1, process);
}

static bool take_rank(void *rank, const char *value)
{
	return take_unsigned("rank", value, 0, rank);
}

static bool take_width(void *width, const char *value)
{
	return take_unsigned("width", value, 1, width);
}

enum { VERB_EXPORT = 1, VERB_MERGE = 2 };

static const struct option_def defs[] = {
	{ 0, "to", "FORMAT",
	  "chrome (HTA), csv, jsonl, folded (flame graphs), pyprof; default: by FILE's name",
	  OPTION_WHOLE(take_format), VERB_EXPORT },
	{ 'o', "output", "FILE", "default: -, standard output",
	  OPTION_AT(TEXT, struct export_options, path) },
	{ 'f', "force", NULL, "replace FILE", OPTION_AT(FLAG, struct export_options, force) },
	{ 0, "rank", "N", "chrome: the rank that the trace says it is of (default: 0)",
	  OPTION_TAKEN(take_rank, struct export_options, more.rank), VERB_EXPORT },
	{ 0, "columns", "LIST|all",
	  "folded: the counter that is added up (default: time); pyprof: of those below (default: "
	  "idx,dir,sub,mod,op,kernel,params,sil)",
	  OPTION_AT(TEXT, struct export_options, more.columns), VERB_EXPORT },
	{ 0, "width", "N", "pyprof: in columns, lines of N (default: fields between spaces)",
	  OPTION_TAKEN(take_width, struct export_options, more.width), VERB_EXPORT },
	{ 0, "csv", NULL, "pyprof: as comma-separated values",
	  OPTION_AT(FLAG, struct export_options, more.csv), VERB_EXPORT },
	{ 0, "process", "N", "only this process of the capture (default: all; merge: the only one)",
	  OPTION_TAKEN(take_process, struct export_options, more.process) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* Chooses the format by the suffix. False: the format is refused. */
static bool find_by_suffix(struct export_options *o)
{
	const char *dot = strrchr(o->path, '.'), *suffix = dot ? dot + 1 : "";

	if (strcmp(suffix, "pftrace") == 0 || strcmp(suffix, "perfetto-trace") == 0) {
		return refuse_perfetto();
	}
	o->exporter = strcmp(suffix, "json") == 0 ? &exporter_chrome : find_exporter(suffix);
	return true;
}

#define TO(format) (1U << TO_##format)

static const struct option_rule rules[] = {
	{ "columns", NULL, NULL, TO(FOLDED) | TO(PYPROF), "belongs to --to folded and pyprof" },
	{ "rank", NULL, NULL, TO(CHROME), "belongs to --to chrome" },
	{ "width", NULL, NULL, TO(PYPROF), "belongs to --to pyprof" },
	{ "csv", NULL, NULL, TO(PYPROF), "belongs to --to pyprof" },
	{ "width", NULL, "csv", 0, "are two forms of a line" },
	{ NULL, NULL, NULL, 0, NULL },
};

/* Refuses missing options, and options that exclude each other. */
static bool check(struct export_options *o, uint64_t given, int n_files)
{
	unsigned to = 0;

	if (n_files != 1) {
		say_usage("export: name one capture file, or '-' for standard input");
		return false;
	}
	if (!outfile_is_plain("--output", o->path) || (!o->exporter && !find_by_suffix(o))) {
		return false;
	}
	if (!o->exporter) {
		say_usage("export: to what? --to chrome, csv, jsonl, folded or pyprof");
		return false;
	}
	while (exporters[to] != o->exporter) {
		to++;
	}
	if (to == TO_FOLDED) {
		o->more.weight = o->more.columns;
	}
	return options_keep_rules(defs, rules, given, 1U << to);
}

static int exec_export(const struct verb *const *verbs, int argc, char **argv)
{
	struct export_options o = { .verb = "export", .path = "-" };
	uint64_t given;
	int rest, status = verb_read_given(&verb_export, argc, argv, &o, &given, &rest);

	if (status >= 0) {
		return status;
	}
	if (!check(&o, given, argc - rest)) {
		return EXIT_VERB_USAGE;
	}
	o.capture = argv[rest];
	return export_capture(&o);
}

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

const struct verb verb_export = {
	.name = "export",
	.usage = "export CAPTURE|- --to chrome|csv|jsonl|folded|pyprof [-o FILE] [OPTION...]",
	.summary = "write a capture file for another program: trace, table, flame graph",
	.details =
		"examples:\n"
		"  gpuctr-client export run.gpuctr -o trace.json        # HTA, ui.perfetto.dev\n"
		"  gpuctr-client export run.gpuctr --to csv -o run.csv\n"
		"  gpuctr-client export run.gpuctr --to jsonl | head -n 3\n"
		"  gpuctr-client export run.gpuctr --to folded --columns dram__bytes_read -o "
		"read.folded\n"
		"  gpuctr-client export run.gpuctr --to pyprof --width 150 | head\n"
		"\ncolumns of pyprof: idx seq altseq tid layer trace dir sub mod op kernel params "
		"sil tc\ndevice stream grid block flops bytes\n",
	.takes = "FILE",
	.options = defs,
	.bit = VERB_EXPORT,
	.exec = exec_export,
};

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
	.bit = VERB_MERGE,
	.exec = exec_merge,
};
