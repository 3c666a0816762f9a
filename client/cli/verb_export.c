/* SPDX-License-Identifier: Apache-2.0 */

/* "export": a capture file as something that another program reads. Records go through one by one,
 * so memory does not grow with them. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/export_live.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/report/reading.h"

enum { OPTION_TO = 2000, OPTION_WEIGHT, OPTION_RANK, OPTION_PROCESS, OPTION_CSV };

enum { BATCH_BYTES = 256 * 1024 };

static const struct option_def defs[] = {
	{ OPTION_TO, "to", "FORMAT",
	  "chrome (HTA), csv, jsonl, folded (flame graphs), pyprof; default: by FILE's name" },
	{ 'o', "output", "FILE", "default: -, standard output" },
	{ 'f', "force", NULL, "replace FILE" },
	{ OPTION_WEIGHT, "weight", "METRIC|time", "folded: what is added up (default: time)" },
	{ OPTION_RANK, "rank", "N", "chrome: the rank that the trace says it is of (default: 0)" },
	{ 'c', "columns", "LIST|all",
	  "pyprof: of those below (default: idx,dir,sub,mod,op,kernel,params,sil)" },
	{ 'w', "width", "N", "pyprof: in columns, lines of N (default: fields between spaces)" },
	{ OPTION_CSV, "csv", NULL, "pyprof: as comma-separated values" },
	{ OPTION_PROCESS, "process", "N", "only this process of the capture (default: all)" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

static const struct exporter *const exporters[] = { &exporter_chrome, &export_live_csv,
						    &export_live_jsonl, &exporter_folded,
						    &exporter_pyprof };

struct export_options {
	const struct exporter *exporter;
	struct exporter_options more;
	const char *path, *capture;
	bool force, help;
};

struct export
{
	const struct export_options *options;
	const struct exporter *exporter;
	void *e;
	struct outfile out;
	struct buf buf, why, told;
	int write_error;
	bool chosen; /* the present process is exported */
	bool found;  /* one was */
	bool incomplete;
};

/* Other than errors of the file; the reading ends with them. */
enum { EXPORT_E_WRITE = 1000, EXPORT_E_OPTIONS, EXPORT_E_NO_PROCESS, EXPORT_E_UNREAD };

/* --- from the file to the exporter ----------------------------------------------------------- */

static int flush(struct export *x, size_t limit)
{
	if (x->buf.n < limit && !x->buf.failed) {
		return 0;
	}
	x->write_error = outfile_write(&x->out, &x->buf);
	return x->write_error ? EXPORT_E_WRITE : x->out.unread ? EXPORT_E_UNREAD : 0;
}

static int on_capture(const struct store_info *info, void *userdata)
{
	struct export *x = userdata;

	x->incomplete = !info->complete;
	x->e = x->exporter->open(info, &x->options->more, &x->why);
	if (!x->e) {
		return x->why.n > 0 ? EXPORT_E_OPTIONS : -ENOMEM;
	}
	return 0;
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct export *x = userdata;
	unsigned wanted = x->options->more.process;

	x->chosen = wanted == 0 || wanted == process->process.process;
	x->found = x->found || x->chosen;
	return x->chosen && x->exporter->process ? x->exporter->process(x->e, &x->buf, process) : 0;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	struct export *x = userdata;
	int r = x->chosen ? x->exporter->record(x->e, &x->buf, record, what) : 0;

	return r ? r : flush(x, BATCH_BYTES);
}

static int on_mark(const struct gpuctr_mark *mark, void *userdata)
{
	struct export *x = userdata;
	int r = x->chosen && x->exporter->mark ? x->exporter->mark(x->e, &x->buf, mark) : 0;

	return r ? r : flush(x, BATCH_BYTES);
}

static int on_stratum(const struct gpuctr_stratum *stratum, void *userdata)
{
	struct export *x = userdata;

	return x->chosen && x->exporter->stratum ? x->exporter->stratum(x->e, stratum) : 0;
}

static int on_process_end(const struct store_process *process, void *userdata)
{
	struct export *x = userdata;

	return x->chosen && x->exporter->process_end
		       ? x->exporter->process_end(x->e, &x->buf, process)
		       : 0;
}

static int on_notice(const struct gpuctr_notice *notice, void *userdata)
{
	struct export *x = userdata;
	unsigned wanted = x->options->more.process;

	return x->exporter->notice && (wanted == 0 || wanted == notice->process)
		       ? x->exporter->notice(x->e, &x->buf, notice)
		       : 0;
}

static int on_end(const struct store_info *info, void *userdata)
{
	struct export *x = userdata;
	int r;

	(void)info;
	if (x->options->more.process > 0 && !x->found) {
		return EXPORT_E_NO_PROCESS;
	}
	r = x->exporter->end(x->e, &x->buf);
	if (r == 0 && x->exporter->tell) {
		x->exporter->tell(x->e, &x->told);
	}
	return r ? r : flush(x, 0);
}

/* Here, because what the exporter has borrowed from the file ends with the reading. */
static int read_capture(struct export *x, struct store_error *error)
{
	struct attributor *attributor = x->exporter->attributes ? attributor_new() : NULL;
	const struct reading_handler handler = { .on_capture = on_capture,
						 .on_process = on_process,
						 .on_record = on_record,
						 .on_mark = on_mark,
						 .on_stratum = on_stratum,
						 .on_process_end = on_process_end,
						 .on_notice = on_notice,
						 .on_end = on_end,
						 .check_beside = x->exporter->only_at_end,
						 .without = x->exporter->without,
						 .attributor = attributor };
	int r = attributor || !x->exporter->attributes
			? reading_capture(x->options->capture, &handler, x, error)
			: -ENOMEM;

	attributor_free(attributor);
	return r;
}

/* --- what became of it ----------------------------------------------------------------------- */

static int tell_failure(const struct export *x, int r, const struct store_error *error)
{
	struct buf why = x->why;

	switch (r) {
	case EXPORT_E_WRITE:
		say_error("output", outfile_why(x->write_error),
			  "Write the export to where there is room for it.");
		return EXIT_VERB_FAILED;
	case EXPORT_E_OPTIONS:
		say_usage("export: %s", buf_string(&why));
		return EXIT_VERB_USAGE;
	case EXPORT_E_NO_PROCESS:
		say_usage("export: the capture has no process %u; report --by process lists them",
			  x->options->more.process);
		return EXIT_VERB_USAGE;
	default:
		break;
	}
	if (error->code) {
		say_error(store_error_name(r), error->message, error->remedy);
	} else {
		say_usage("out of memory");
	}
	return EXIT_VERB_FAILED;
}

static void tell_success(struct export *x)
{
	if (x->incomplete) {
		say_warning("not-complete",
			    "The capture is not complete: it is still being "
			    "written, was cut short, or ended with an error.",
			    "Export it again when it has ended; what is there was exported.");
	}
	if (x->told.n > 0) {
		say_text(&x->told);
	}
}

static int export(const struct export_options *o)
{
	struct export x = { .options = o, .exporter = o->exporter };
	struct store_error error = { 0 };
	int status = EXIT_VERB_FAILED;
	int r;

	if (!outfile_spares("--output", o->path, o->capture)) {
		return EXIT_VERB_USAGE;
	}
	r = outfile_open(&x.out, o->path, o->force);
	if (r < 0) {
		say_usage("--output %s: %s", o->path, outfile_why(r));
		outfile_close(&x.out);
		return EXIT_VERB_USAGE;
	}
	r = read_capture(&x, &error);
	if (r == 0) {
		x.write_error = outfile_finish(&x.out);
		r = x.write_error ? EXPORT_E_WRITE : 0;
	}
	if (r == 0 || r == EXPORT_E_UNREAD) {
		tell_success(&x);
		status = 0;
	} else {
		status = tell_failure(&x, r, &error);
	}
	if (x.e) {
		x.exporter->close(x.e);
	}
	outfile_close(&x.out);
	buf_deinit(&x.buf);
	buf_deinit(&x.why);
	buf_deinit(&x.told);
	return status;
}

/* --- command line ---------------------------------------------------------------------------- */

static bool refuse_perfetto(void)
{
	say_usage("export: there is no export in Perfetto's own format; ui.perfetto.dev opens the "
		  "Chrome trace: --to chrome -o trace.json");
	return false;
}

static bool parse_format(struct export_options *o, const char *value)
{
	for (size_t i = 0; i < sizeof(exporters) / sizeof(exporters[0]); i++) {
		if (strcmp(exporters[i]->name, value) == 0) {
			o->exporter = exporters[i];
			return true;
		}
	}
	if (strcmp(value, "perfetto") == 0) {
		return refuse_perfetto();
	}
	say_usage("--to is chrome, csv, jsonl, folded or pyprof, not '%s'", value);
	return false;
}

static bool parse_number(const char *option, const char *value, unsigned min, unsigned *ret)
{
	uint64_t n;

	if (!options_parse_u64(value, &n) || n < min || n > INT32_MAX) {
		say_usage("%s wants a number from %u on, not '%s'", option, min, value);
		return false;
	}
	*ret = (unsigned)n;
	return true;
}

static bool parse_width(struct export_options *o, const char *value)
{
	unsigned width;

	if (!parse_number("--width", value, 1, &width)) {
		return false;
	}
	o->more.width = width;
	return true;
}

static bool take_option(void *userdata, int id, const char *value)
{
	struct export_options *o = userdata;

	switch (id) {
	case OPTION_TO:
		return parse_format(o, value);
	case 'o':
		o->path = value;
		return true;
	case 'f':
		o->force = true;
		return true;
	case OPTION_WEIGHT:
		o->more.weight = value;
		return true;
	case OPTION_RANK:
		return parse_number("--rank", value, 0, &o->more.rank);
	case 'c':
		o->more.columns = value;
		return true;
	case 'w':
		return parse_width(o, value);
	case OPTION_CSV:
		o->more.csv = true;
		return true;
	case OPTION_PROCESS:
		return parse_number("--process", value, 1, &o->more.process);
	default:
		o->help = true;
		return true;
	}
}

/* False: the format is refused. */
static bool find_by_suffix(struct export_options *o)
{
	static const struct {
		const char *suffix;
		const struct exporter *exporter;
	} suffixes[] = {
		{ ".json", &exporter_chrome },	  { ".csv", &export_live_csv },
		{ ".jsonl", &export_live_jsonl }, { ".folded", &exporter_folded },
		{ ".pyprof", &exporter_pyprof },
	};
	const char *dot = strrchr(o->path, '.');

	for (size_t i = 0; dot && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (strcmp(dot, suffixes[i].suffix) == 0) {
			o->exporter = suffixes[i].exporter;
		}
	}
	return !dot || (strcmp(dot, ".pftrace") != 0 && strcmp(dot, ".perfetto-trace") != 0) ||
	       refuse_perfetto();
}

/* What is missing, and what does not go together. */
static bool check(struct export_options *o, int n_files)
{
	if (n_files != 1) {
		say_usage("export: name one capture file, or '-' for standard input");
		return false;
	}
	if (!o->exporter && !find_by_suffix(o)) {
		return false;
	}
	if (!o->exporter) {
		say_usage("export: to what? --to chrome, csv, jsonl, folded or pyprof");
		return false;
	}
	if (o->more.weight && o->exporter != &exporter_folded) {
		say_usage("export: --weight belongs to --to folded");
		return false;
	}
	if ((o->more.columns || o->more.width > 0 || o->more.csv) &&
	    o->exporter != &exporter_pyprof) {
		say_usage("export: --columns, --width and --csv belong to --to pyprof");
		return false;
	}
	if (o->more.width > 0 && o->more.csv) {
		say_usage("export: take --width or --csv, not both");
		return false;
	}
	return true;
}

static int exec_export(const struct verb *const *verbs, int argc, char **argv)
{
	struct export_options o = { .path = "-" };
	enum options_result result;
	int rest;

	(void)verbs;
	result = options_parse(defs, argc, argv, take_option, &o, &rest);
	if (o.help) {
		verb_print_help(&verb_export);
		return 0;
	}
	if (result != OPTIONS_END || !check(&o, argc - rest)) {
		return EXIT_VERB_USAGE;
	}
	o.capture = argv[rest];
	return export(&o);
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
		"  gpuctr-client export run.gpuctr --to folded --weight dram__bytes_read -o "
		"read.folded\n"
		"  gpuctr-client export run.gpuctr --to pyprof -w 150 | head\n"
		"\ncolumns of pyprof: idx seq altseq tid layer trace dir sub mod op kernel params "
		"sil tc\ndevice stream grid block flops bytes\n",
	.takes = "FILE",
	.options = defs,
	.exec = exec_export,
};
