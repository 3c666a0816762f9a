/* SPDX-License-Identifier: Apache-2.0 */

/* Records are converted one by one, so memory does not grow with their number. */

#include "client/cli/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/verb.h"
#include "client/report/reading.h"

enum { BATCH_BYTES = 256 * 1024 };

struct export
{
	const struct export_options *options;
	const struct exporter *exporter;
	struct exporter_options more;
	void *e;
	struct outfile out;
	struct buf buf, told;
	struct exporter_refusal refusal;
	int write_error;
	bool chosen; /* the present process is exported */
	bool found;  /* some process was exported */
	enum store_lack lack;
	struct buf lacks;
};

/* Results, beside those of client/store, with which handlers end the reading. */
enum { EXPORT_E_WRITE = 1000, EXPORT_E_NO_PROCESS, EXPORT_E_UNREAD };

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

	x->lack = store_lack(info);
	buf_printf(&x->lacks, "The capture is not complete: %s%s%s", store_lacks[x->lack],
		   *info->end_message ? ": " : ".", info->end_message);
	x->e = x->exporter->open(info, &x->more, &x->refusal);
	if (!x->e) {
		return x->refusal.why.n > 0 ? EXPORTER_REFUSES : -ENOMEM;
	}
	return 0;
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct export *x = userdata;
	unsigned wanted = x->more.process;

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
	int r = x->chosen ? x->exporter->mark(x->e, &x->buf, mark) : 0;

	return r ? r : flush(x, BATCH_BYTES);
}

static int on_process_end(const struct store_process *process, void *userdata)
{
	struct export *x = userdata;

	return x->chosen ? x->exporter->process_end(x->e, &x->buf, process) : 0;
}

static int on_samples(const struct store_samples *samples, void *userdata)
{
	struct export *x = userdata;
	int r = x->exporter->samples(x->e, &x->buf, samples);

	return r ? r : flush(x, BATCH_BYTES);
}

static int on_notice(const struct gpuctr_notice *notice, void *userdata)
{
	struct export *x = userdata;
	unsigned wanted = x->more.process;

	return wanted == 0 || wanted == notice->process ? x->exporter->notice(x->e, &x->buf, notice)
							: 0;
}

/* Times of kernels are traced and not sampled, so only counters have errors. */
static bool is_of_time(const struct export *x)
{
	const char *weight = x->more.weight;

	return x->exporter == &exporter_folded && (!weight || strcmp(weight, "time") == 0);
}

static int on_end(const struct store_info *info, void *userdata)
{
	struct export *x = userdata;
	int r = EXPORTER_MORE;

	if (x->more.process > 0 && !x->found) {
		return EXPORT_E_NO_PROCESS;
	}
	while (r == EXPORTER_MORE) {
		int written;

		r = x->exporter->end(x->e, &x->buf);
		written = r == EXPORTER_MORE ? flush(x, BATCH_BYTES) : 0;
		r = written ? written : r;
	}
	if (r == 0 && x->exporter->tell) {
		x->exporter->tell(x->e, &x->told);
	}
	if (r == 0 && info->sampled && !is_of_time(x)) {
		buf_text(&x->told, "values are SAMPLED, of the whole GPU; ");
		buf_text(&x->told, x->exporter == &exporter_merge || x->exporter == &exporter_chrome
					   ? "their standard errors are beside them\n"
					   : "gpuctr-client report tells their errors\n");
	}
	return r ? r : flush(x, 0);
}

static int read_capture(struct export *x, struct store_error *error)
{
	const struct exporter *e = x->exporter;
	struct scopes scopes = { 0 };
	const struct reading_handler handler = {
		.on_capture = on_capture,
		.on_process = on_process,
		.on_record = on_record,
		.on_mark = e->mark ? on_mark : NULL,
		.on_process_end = e->process_end ? on_process_end : NULL,
		.on_samples = e->samples ? on_samples : NULL,
		.on_notice = e->notice ? on_notice : NULL,
		.on_end = on_end,
		.check_beside = e->only_at_end,
		.needs_first = e->needs_first,
		.brief = e->brief,
		.scopes = e->attributes ? &scopes : NULL,
	};
	int r = reading_capture(x->options->capture, &handler, x, error);

	scopes_deinit(&scopes);
	return r;
}

/* --- results and errors ---------------------------------------------------------------------- */

static int tell_refusal(const struct export *x)
{
	struct buf why = x->refusal.why;

	if (x->refusal.code) {
		say_error(x->refusal.code, buf_string(&why), x->refusal.remedy);
		return EXIT_VERB_FAILED;
	}
	say_usage("%s: %s", x->options->verb, buf_string(&why));
	return EXIT_VERB_USAGE;
}

static int tell_failure(const struct export *x, int r, const struct store_error *error)
{
	if (r == EXPORT_E_WRITE) {
		say_error("output", outfile_why(x->write_error), outfile_remedy(x->write_error));
	} else if (r == EXPORTER_REFUSES) {
		return tell_refusal(x);
	} else if (r == EXPORT_E_NO_PROCESS) {
		say_usage("%s: --process: the capture has no process %u; report --by process lists "
			  "them",
			  x->options->verb, x->more.process);
		return EXIT_VERB_USAGE;
	} else if (error->code) {
		say_error(store_error_name(r), error->message, error->remedy);
	} else {
		say_usage("out of memory");
	}
	return EXIT_VERB_FAILED;
}

static void tell_success(struct export *x)
{
	if (x->lack != STORE_LACKS_NOTHING) {
		say_warning("not-complete", buf_string(&x->lacks),
			    x->lack == STORE_IS_WRITTEN || x->lack == STORE_MAY_BE_CUT
				    ? "Export it again when it has ended; what is there was "
				      "exported."
				    : "What is there was exported.");
	}
	if (x->told.n > 0) {
		say_text(&x->told);
	}
}

static int export(struct export *x)
{
	struct store_error error = { 0 };
	int r = read_capture(x, &error);

	if (r == 0) {
		x->write_error = outfile_finish(&x->out);
		r = x->write_error ? EXPORT_E_WRITE : 0;
	}
	if (r == 0 || r == EXPORT_E_UNREAD) {
		tell_success(x);
		return 0;
	}
	return tell_failure(x, r, &error);
}

int export_capture(const struct export_options *o)
{
	struct export x = { .options = o, .exporter = o->exporter, .more = o->more };
	int status = EXIT_VERB_USAGE;
	int r;

	if (!outfile_spares("--output", o->path, o->capture) ||
	    (o->more.trace && !outfile_spares("--output", o->path, o->more.trace))) {
		return EXIT_VERB_USAGE;
	}
	r = outfile_open(&x.out, o->path, o->force);
	if (r < 0) {
		say_usage("--output %s: %s", o->path, outfile_why(r));
	} else {
		status = export(&x);
	}
	if (x.e) {
		x.exporter->close(x.e);
	}
	outfile_close(&x.out);
	buf_deinit(&x.buf);
	buf_deinit(&x.refusal.why);
	buf_deinit(&x.told);
	buf_deinit(&x.lacks);
	return status;
}
