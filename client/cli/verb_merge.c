/* SPDX-License-Identifier: Apache-2.0 */

/* "merge": our counters into a trace that torch.profiler wrote. The trace is read twice, in pieces:
 * once for its kernels and launches, then it is copied byte by byte with the counters put in. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/compress.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/report/merge.h"
#include "client/report/reading.h"

enum { OPTION_PROCESS = 2000 };

enum { PIECE_BYTES = 256 * 1024 };

static const struct option_def defs[] = {
	{ 'o', "output", "FILE", "the trace with counters; default: -, standard output" },
	{ 'f', "force", NULL, "replace FILE" },
	{ OPTION_PROCESS, "process", "N", "the process of the capture (default: its only one)" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

struct merge_options {
	const char *path, *trace, *capture;
	unsigned process;
	bool force, help;
};

struct merging {
	const struct merge_options *options;
	struct trace trace;
	struct merge *merge;
	struct trace_text *text;
	bool chosen, found;
};

/* The copy, on its way. */
struct writing {
	struct outfile *out;
	struct compress *compress; /* NULL: it is not */
	struct buf b, compressed;
};

enum { MERGE_E_PROCESS = 1000, MERGE_E_BUDGET };

/* --- the capture ----------------------------------------------------------------------------- */

static int on_capture(const struct store_info *info, void *userdata)
{
	struct merging *m = userdata;

	if (info->budget_ppm > 0) {
		return MERGE_E_BUDGET;
	}
	if (m->options->process == 0 && info->n_processes > 1) {
		return MERGE_E_PROCESS;
	}
	m->merge = merge_new(&m->trace, &info->plan);
	return m->merge ? 0 : -ENOMEM;
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct merging *m = userdata;
	unsigned wanted = m->options->process;

	m->chosen = wanted == 0 || wanted == process->process.process;
	m->found = m->found || m->chosen;
	return 0;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	struct merging *m = userdata;

	(void)what;
	return m->chosen ? merge_record(m->merge, record) : 0;
}

static int on_end(const struct store_info *info, void *userdata)
{
	struct merging *m = userdata;

	(void)info;
	return m->found ? 0 : MERGE_E_PROCESS;
}

static int read_capture(struct merging *m)
{
	const struct reading_handler handler = { .on_capture = on_capture,
						 .on_process = on_process,
						 .on_record = on_record,
						 .on_end = on_end,
						 .without = STORE_RANGES };
	struct store_error error;
	int r = reading_capture(m->options->capture, &handler, m, &error);

	if (r == MERGE_E_PROCESS) {
		say_usage(
			"merge: a trace is of one process: say which of the capture's by --process "
			"(report --by process lists them)");
		return EXIT_VERB_USAGE;
	}
	if (r == MERGE_E_BUDGET) {
		say_error(
			"budget",
			"the capture has launches that were chosen at random, so that the i-th of "
			"a "
			"name in it is not the i-th of the trace",
			"Merge a capture of every launch: --budget 100%, or run without --budget.");
		return EXIT_VERB_FAILED;
	}
	if (r && error.code) {
		say_error(store_error_name(r), error.message, error.remedy);
	} else if (r) {
		say_usage("out of memory");
	}
	return r ? EXIT_VERB_FAILED : 0;
}

/* --- the trace ------------------------------------------------------------------------------- */

static int read_trace(struct merging *m)
{
	struct buf why = { 0 }, message = { 0 };
	int r;

	m->text = trace_open(m->options->trace);
	r = m->text ? trace_read(&m->trace, m->text, &why) : -errno;
	if (r == 0 && m->trace.n == 0) {
		buf_text(&why, "there is no kernel in it");
		r = -EINVAL;
	}
	if (r) {
		text_terminal(&message, m->options->trace);
		buf_printf(&message, ": %s", why.n > 0 ? buf_string(&why) : strerror(-r));
		say_error("trace", buf_string(&message),
			  "Name a trace that torch.profiler's export_chrome_trace() has written, "
			  "of a "
			  "run on a GPU.");
	}
	buf_deinit(&message);
	buf_deinit(&why);
	return r ? EXIT_VERB_FAILED : 0;
}

static int flush(struct writing *w, bool end)
{
	int r;

	if (!w->compress) {
		return outfile_write(w->out, &w->b);
	}
	r = compress_add(w->compress, &w->b, end, &w->compressed);
	return r ? r : outfile_write(w->out, &w->compressed);
}

/* From where the copy is up to end. */
static int copy(struct merging *m, struct writing *w, uint64_t *at, uint64_t end)
{
	int r = 0;

	while (r == 0 && *at < end) {
		size_t n = end - *at < PIECE_BYTES ? (size_t)(end - *at) : PIECE_BYTES;
		int64_t done = buf_reserve(&w->b, n) ? trace_next(m->text, w->b.data + w->b.n, n)
						     : -ENOMEM;

		if (done <= 0) {
			return done == 0 ? -EIO : (int)done;
		}
		w->b.n += (size_t)done;
		*at += (uint64_t)done;
		r = w->b.n >= PIECE_BYTES ? flush(w, false) : 0;
	}
	return r;
}

static int write_pieces(struct merging *m, struct writing *w)
{
	uint64_t at = 0, next;
	int r = trace_rewind(m->text);

	while (r == 0 && merge_next(m->merge, &next)) {
		r = copy(m, w, &at, next);
		merge_put(m->merge, &w->b);
		r = r == 0 && w->b.n >= PIECE_BYTES ? flush(w, false) : r;
	}
	r = r ? r : copy(m, w, &at, m->trace.bytes);
	r = r ? r : flush(w, true);
	return r ? r : outfile_finish(w->out);
}

static int write_trace(struct merging *m, struct outfile *out)
{
	bool compressed = compress_is_meant(m->options->path);
	struct writing w = { .out = out, .compress = compressed ? compress_new() : NULL };
	int r = compressed && !w.compress ? -ENOMEM : write_pieces(m, &w);

	compress_free(w.compress);
	buf_deinit(&w.b);
	buf_deinit(&w.compressed);
	if (r) {
		say_error("output", outfile_why(r),
			  "Write the trace to where there is room for it.");
	}
	return r ? EXIT_VERB_FAILED : 0;
}

/* "1 launch", "2 launches" */
static void add_launches(struct buf *b, uint64_t n)
{
	text_count(b, n);
	buf_text(b, n == 1 ? " launch" : " launches");
}

/* What HTA will find. */
static void tell_ranges(const struct merge_counts *n, struct buf *b)
{
	if (n->ranges == MERGE_LEAVES_RANGES) {
		buf_text(b, "the trace has events of category cuda_profiler_range, and not one for "
			    "each launch: they stay as they are\n");
		return;
	}
	buf_text(b, "for HTA: a cuda_profiler_range for each of ");
	add_launches(b, n->launches);
	buf_text(b, " (cudaLaunchKernel), ");
	text_count(b, n->launches - n->launches_alone);
	buf_text(b, " with counters\n");
	if (n->otherwise > 0) {
		text_count(b, n->otherwise);
		buf_text(b,
			 " kernels with counters were launched in another way, which HTA does not "
			 "look at: they have no such range\n");
	}
	if (n->together > 0) {
		add_launches(b, n->together);
		buf_text(b, " began in one microsecond with another: HTA may exchange their "
			    "counters\n");
	}
	if (n->bare > 0) {
		add_launches(b, n->bare);
		buf_text(b, " had no operator around, which HTA needs: \"(no operator)\" was put "
			    "in\n");
	}
}

static void tell(const struct merge_counts *n)
{
	struct buf b = { 0 };

	text_count(&b, n->joined);
	buf_text(&b, " kernels have counters now; without a partner: ");
	text_count(&b, n->trace_alone);
	buf_text(&b, " of the trace, ");
	text_count(&b, n->capture_alone);
	buf_text(&b, " of the capture\n");
	tell_ranges(n, &b);
	say_text(&b);
	buf_deinit(&b);
}

static int merge_into(struct merging *m, struct outfile *out)
{
	struct merge_counts counts;
	int status = read_trace(m);

	status = status ? status : read_capture(m);
	if (status) {
		return status;
	}
	if (merge_finish(m->merge, &counts)) {
		say_usage("out of memory");
		return EXIT_VERB_FAILED;
	}
	if (counts.joined == 0) {
		say_error("trace", "No kernel of the capture has the name of one in the trace.",
			  "Take a trace and a capture of the same program.");
		return EXIT_VERB_FAILED;
	}
	status = write_trace(m, out);
	if (status == 0) {
		tell(&counts);
	}
	return status;
}

static int merge(const struct merge_options *o)
{
	struct merging m = { .options = o };
	struct outfile out;
	int r, status = EXIT_VERB_USAGE;

	if (!outfile_spares("--output", o->path, o->trace) ||
	    !outfile_spares("--output", o->path, o->capture)) {
		return EXIT_VERB_USAGE;
	}
	r = outfile_open(&out, o->path, o->force);
	if (r < 0) {
		say_usage("--output %s: %s", o->path, outfile_why(r));
	} else {
		status = merge_into(&m, &out);
	}
	outfile_close(&out);
	merge_free(m.merge);
	trace_deinit(&m.trace);
	trace_close(m.text);
	return status;
}

/* --- command line ---------------------------------------------------------------------------- */

static bool take_option(void *userdata, int id, const char *value)
{
	struct merge_options *o = userdata;
	uint64_t n = 0;

	switch (id) {
	case 'o':
		o->path = value;
		return true;
	case 'f':
		o->force = true;
		return true;
	case OPTION_PROCESS:
		if (!options_parse_u64(value, &n) || n < 1 || n > INT32_MAX) {
			say_usage("--process wants a number from 1 on, not '%s'", value);
			return false;
		}
		o->process = (unsigned)n;
		return true;
	default:
		o->help = true;
		return true;
	}
}

static int exec_merge(const struct verb *const *verbs, int argc, char **argv)
{
	struct merge_options o = { .path = "-" };
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
	o.trace = argv[rest];
	o.capture = argv[rest + 1];
	return merge(&o);
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
