/* SPDX-License-Identifier: Apache-2.0 */

/* Passes each record to the capture files and the stream. A file or stream that fails reports this
 * once and gets no more records; the others and the program go on. The end of a run prints the
 * report of its files; a run without -o has a temporary one. */

#include "client/cli/sinks.h"

#include <string.h>
#include <unistd.h>

#include "client/cli/expand.h"
#include "client/cli/out.h"
#include "client/cli/outfile.h"
#include "client/cli/report_source.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"

static bool no_memory(void)
{
	say_usage("out of memory");
	return false;
}

/* --- beginning ------------------------------------------------------------------------------- */

/* Copies the GPUs, because they end with on_opened and the stream begins later. */
static bool copy_gpus(struct sinks *s, const struct gpuctr_opened *opened)
{
	struct gpuctr_gpu *gpus = arena_zalloc_array(&s->kept, opened->n_gpus + 1, sizeof(*gpus));
	bool good = gpus != NULL;

	for (size_t i = 0; good && i < opened->n_gpus; i++) {
		gpus[i] = opened->gpus[i];
		gpus[i].uuid = arena_printf(&s->kept, "%s", opened->gpus[i].uuid);
		gpus[i].name = arena_printf(&s->kept, "%s", opened->gpus[i].name);
		gpus[i].chip = arena_printf(&s->kept, "%s", opened->gpus[i].chip);
		good = gpus[i].uuid && gpus[i].name && gpus[i].chip;
	}
	s->capture.gpus = gpus;
	s->capture.n_gpus = good ? opened->n_gpus : 0;
	return good;
}

bool sinks_prepare(struct sinks *s, const struct run_options *options,
		   const struct gpuctr_opened *opened)
{
	s->options = options;
	arena_init(&s->kept, ARENA_NO_LIMIT);
	s->driver = arena_printf(&s->kept, "%s", opened->driver ? opened->driver : "");
	s->attributor = attributor_new();
	if (!s->driver || !s->attributor) {
		return no_memory();
	}
	s->capture = (struct format_capture){
		.capture = opened->capture,
		.plan = opened->plan,
		.driver = s->driver,
		.program = options->program,
		.command = (const char *const *)options->command,
		.recorded_from = "",
		.recorded = opened->recorded,
		.sampled = options->mode == MODE_SAMPLE || options->timeline.is_wanted,
		.timeline = options->timeline.is_wanted,
		.is_foreign = opened->owner && opened->owner[0],
		.graphs = (options->mode == MODE_TRACE || options->mode == MODE_SAMPLE) &&
			  options->graphs != GRAPHS_WHOLE,
	};
	return copy_gpus(s, opened) || no_memory();
}

bool sinks_check(const struct run_options *o)
{
	int r;

	if (!files_check(o) ||
	    (o->stream_path && !files_spare_recording(o, "--stream", o->stream_path))) {
		return false;
	}
	r = o->stream_path ? out_check(o->stream_path, o->force) : 0;
	if (r != 0) {
		say_usage("--stream %s: %s", o->stream_path, outfile_why(r));
	}
	return r == 0;
}

static bool open_stream(struct sinks *s)
{
	int r = stream_open(s->options, &s->capture, &s->stream);

	if (r < 0) {
		say_usage("--stream %s: %s", s->options->stream_path, outfile_why(r));
	}
	return r == 0;
}

bool sinks_open(struct sinks *s)
{
	if (!files_open(&s->files, s->options, &s->capture, s->driver)) {
		return false;
	}
	return !s->options->stream_path || open_stream(s);
}

/* --- records --------------------------------------------------------------------------------- */

/* The stream, if it is written during the capture; else NULL. */
static struct stream *live_stream(const struct sinks *s)
{
	return s->capture.sampled && !s->capture.timeline ? NULL : s->stream;
}

void sinks_process(struct sinks *s, const struct gpuctr_process *process)
{
	s->processes = process->process > s->processes ? process->process : s->processes;
	ranks_process(&s->ranks, process);
	files_process(&s->files, process);
	if (live_stream(s)) {
		stream_process(s->stream, process);
	}
}

void sinks_record(struct sinks *s, const struct gpuctr_record *record)
{
	struct attribution what = { .layer = "", .step = "", .seq = -1 };

	/* If memory is too short for a record's attribution, the record is written without its
	 * operator. */
	attributor_take(s->attributor, record, &what);
	s->records++;
	files_record(&s->files, record, &what);
	if (s->capture.sampled) {
		return;
	}
	if (s->stream) {
		jsonl_record(stream_jsonl(s->stream), stream_line(s->stream, 1), record, &what);
	}
}

void sinks_mark(struct sinks *s, const struct gpuctr_mark *mark)
{
	files_mark(&s->files, mark);
	if (live_stream(s)) {
		jsonl_mark(stream_line(s->stream, 0), mark);
	}
}

void sinks_sample(struct sinks *s, const struct kept_sample *sample)
{
	s->records += s->capture.timeline;
	files_sample(&s->files, sample);
	if (live_stream(s)) {
		jsonl_sample(stream_jsonl(s->stream), stream_line(s->stream, 1), sample);
	}
}

void sinks_unsampled(struct sinks *s, const char *text, uint64_t sample_ns)
{
	s->unsampled = text;
	s->sample_ns = sample_ns;
	files_unsampled(&s->files, text, sample_ns);
}

void sinks_notice(struct sinks *s, const struct gpuctr_notice *notice)
{
	ranks_notice(&s->ranks, notice);
	files_notice(&s->files, notice);
	if (live_stream(s)) {
		stream_notice(s->stream, notice);
	}
}

void sinks_process_end(struct sinks *s, const struct gpuctr_process_end *end)
{
	ranks_process_end(&s->ranks, end);
	files_process_end(&s->files, end);
	if (live_stream(s)) {
		jsonl_process_end(stream_line(s->stream, 0), end);
	}
}

void sinks_progress(struct sinks *s, const struct gpuctr_totals *totals)
{
	s->totals = *totals;
}

void sinks_flush(struct sinks *s)
{
	files_flush(&s->files);
	if (live_stream(s)) {
		stream_flush(s->stream);
	}
}

/* --- what to do next -------------------------------------------------------------------------- */

/* A run with a file ends with commands that report the file. Paths are written as words of a shell:
 * several files by their pattern, with a star for each letter. */

/* Writes a path as one word of a shell, which is no option and has no control characters. In a
 * pattern each letter becomes a star, outside the quotes. */
static void add_word(struct buf *b, const char *path, bool is_pattern)
{
	static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789/._-+:@%,=";
	bool quoted = path[strspn(path, harmless)] != '\0';
	CLEAN_BUF struct buf word = { 0 };

	buf_text(&word, *path == '-' ? "./" : "");
	buf_text(&word, quoted ? "'" : "");
	for (; *path; path++) {
		bool letter = is_pattern && *path == '%' && path[1] != '\0';

		path += letter;
		if (letter && *path != '%') {
			buf_text(&word, quoted ? "'*'" : "*");
		} else if (*path == '\'') {
			buf_text(&word, "'\\''");
		} else {
			buf_char(&word, *path);
		}
	}
	buf_text(&word, quoted ? "'" : "");
	text_terminal(b, buf_string(&word));
	b->failed |= word.failed;
}

static void add_page(struct buf *b, const char *path)
{
	static const char suffix[] = ".gpuctr";
	size_t n = strlen(path), end = n - (n < sizeof(suffix) - 1 ? n : sizeof(suffix) - 1);
	CLEAN_BUF struct buf page = { 0 };

	buf_add(&page, path, strcmp(path + end, suffix) == 0 ? end : n);
	buf_text(&page, ".html");
	add_word(b, buf_string(&page), false);
	b->failed |= page.failed;
}

static void add_next(const struct run_options *o, const struct files *files, struct buf *b)
{
	const char *first;
	size_t n = files_made(files, &first);

	if (n == 0 && !o->capture_path && !o->stream_path && !selector_is_empty(&o->selector)) {
		buf_text(b, "next: with -o FILE this is kept, for gpuctr-client report FILE\n");
	} else if (n == 1 && o->timeline.is_wanted) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, first, false);
		buf_char(b, '\n');
	} else if (n == 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, first, false);
		buf_text(b, " --by kernel,shape\n      gpuctr-client report ");
		add_word(b, first, false);
		buf_text(b, " --html ");
		add_page(b, first);
		buf_char(b, '\n');
	} else if (n > 1) {
		buf_text(b, "next: gpuctr-client report ");
		add_word(b, o->capture_path, true);
		buf_text(b, " --by rank,process\n");
	}
}

/* --- end ------------------------------------------------------------------------------------- */

static uint64_t totals_accounted(const struct gpuctr_totals *t)
{
#define PLUS(name) +t->name
	return 0 GPUCTR_FATES(PLUS);
#undef PLUS
}

/* Makes totals where the daemon sent none: records that came are known, and other kernels that
 * processes reported count as lost. */
static void complete_totals(struct sinks *s)
{
	struct gpuctr_totals *t = &s->totals;

	t->measured = s->records;
	if (t->seen < totals_accounted(t)) {
		t->seen = totals_accounted(t);
	}
	t->lost += t->seen - totals_accounted(t);
}

void sinks_end(struct sinks *s, const struct gpuctr_end *end)
{
	struct gpuctr_end whole = *end;

	s->is_ended = true;
	s->error = end->error.code;
	if (summary_has_totals(s->error)) {
		s->totals = end->totals;
	} else {
		complete_totals(s);
	}
	whole.totals = s->totals;
	whole.processes = s->processes > end->processes ? s->processes : end->processes;
	files_end(&s->files, &whole);
	/* The stream needs the plan, which ends with this call. */
	if (live_stream(s)) {
		jsonl_end(stream_line(s->stream, 0), &whole);
		stream_flush(s->stream);
	}
}

/* Adds what only this run knows, and the totals, because a file may lack its end, and processes may
 * have no file. */
static void add_known(const struct sinks *s, struct report_source *source)
{
	struct summary_end *end = &source->end;

	end->recorded = s->capture.recorded;
	end->unanswered = ranks_none_answered(&s->ranks);
	end->program_refused = s->program_refused;
	end->unsaved = files_unsaved(&s->files);
	end->driver = *end->driver ? end->driver : s->driver;
	end->totals = s->totals;
	end->error = s->error;
	end->has_totals = summary_has_totals(s->error);
	end->unfinished = false;
	if (s->unsampled && source->unsampled.n == 0) {
		buf_text(&source->unsampled, s->unsampled);
		end->sampled_ns = s->sample_ns;
	}
	source->speechless = 0; /* ranks_tell() says for how long */
	source->summary->processes = 0;
	source->summary->processes_here = s->processes;
	end->speechless = ranks_are_speechless(&s->ranks);
}

/* Reports what was recorded. False: it cannot be read, which was reported. */
static bool report(struct sinks *s, struct report_source *source, struct buf *b)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	static const struct strings no_conditions;
	struct store_reader *reader;
	bool ok = report_source_open(source, &by_kernel, true, &no_conditions);
	int fd = s->capture.timeline ? STDOUT_FILENO : STDERR_FILENO;

	source->end.verbose = s->options->verbose;
	source->width = terminal_width(fd);
	source->styled = terminal_has_style(fd);
	for (size_t i = 0; ok && (reader = files_next(&s->files, &i));) {
		ok = report_source_read_open(source, reader, sinks_sampled(s));
		store_reader_free(reader);
	}
	add_known(s, source);
	if (ok && !report_print_run(source, b)) {
		buf_text(b, "\nThere is no memory for the table.\n");
	}
	return ok;
}

/* Prints to standard output, because no program runs that uses it, unless the stream goes there. */
static void print_timeline(const struct sinks *s, const struct buf *b)
{
	const char *path = s->options->stream_path;

	if (!(path && strcmp(path, "-") == 0)) {
		fwrite(b->data, 1, b->n, stdout);
		fflush(stdout);
	}
}

static void conclude(struct sinks *s, bool with_summary)
{
	struct report_source source = { 0 };
	CLEAN_BUF struct buf b = { 0 };

	buf_text(&b, s->records > 0 && !s->capture.timeline ? "\n" : "");
	report(s, &source, &b);
	if (s->capture.timeline) {
		print_timeline(s, &b);
		buf_clear(&b);
	}
	if (with_summary && (s->records > 0 || s->capture.timeline)) {
		add_next(s->options, &s->files, &b);
	}
	if (b.n > 0) {
		say_text(&b);
	}
	/* If there were several processes, --kernel may have been meant for another one than
	 * this. */
	if (source.unmatched && s->records > 0 && s->processes == 1) {
		say_warning(gpuctr_error_name(GPUCTR_E_KERNEL_NO_MATCH), source.unmatched, "");
	}
	report_source_close(&source);
}

/* Ends the files when the run did not wait for the end of the capture. The stream gets no end. */
static void end_untold(struct sinks *s)
{
	const struct gpuctr_end end = {
		.processes = s->processes,
		.error = { GPUCTR_E_DISCONNECTED, "The end of the capture was not waited for.",
			   "" },
	};
	struct stream *stream = s->stream;

	s->stream = NULL;
	sinks_end(s, &end);
	s->stream = stream;
}

bool sinks_conclude(struct sinks *s, bool with_summary)
{
	if (!s->is_ended) {
		end_untold(s);
	}
	if (!s->options->quiet || s->options->part) {
		ranks_tell(&s->ranks, !selector_is_empty(&s->options->selector));
	}
	if (with_summary || (s->records == 0 && !s->capture.timeline)) {
		conclude(s, with_summary);
	}
	if (s->stream && s->capture.sampled && !s->capture.timeline) {
		sinks_write_stream(s);
	}
	sinks_close_stream(s);
	return files_are_whole(&s->files) && !s->stream_is_cut;
}

void sinks_close(struct sinks *s)
{
	sinks_close_stream(s);
	if (s->options && s->options->part) {
		files_write_names(&s->files, expand_node(), stdout);
	}
	ranks_deinit(&s->ranks);
	s->sampled = sampled_free(s->sampled);
	s->reader = store_reader_free(s->reader);
	files_close(&s->files);
	s->attributor = attributor_free(s->attributor);
	arena_deinit(&s->kept);
}
