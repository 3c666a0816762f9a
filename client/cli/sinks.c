/* SPDX-License-Identifier: Apache-2.0 */

/* Passes each record to three sinks. A sink that fails reports that once and gets no more records;
 * the others and the program go on. */

#include "client/cli/sinks_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/expand.h"
#include "client/cli/out.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "client/cli/timeline_table.h"

static bool no_memory(void)
{
	say_usage("out of memory");
	return false;
}

/* --- beginning ------------------------------------------------------------------------------- */

static void free_gpus(struct sinks *s)
{
	for (size_t i = 0; s->gpus && i < s->capture.n_gpus; i++) {
		free((char *)s->gpus[i].uuid);
		free((char *)s->gpus[i].name);
		free((char *)s->gpus[i].chip);
	}
	free(s->gpus);
	s->gpus = NULL;
}

/* They end with on_opened, the stream begins later. */
static bool copy_gpus(struct sinks *s, const struct gpuctr_opened *opened)
{
	s->gpus = calloc(opened->n_gpus + 1, sizeof(*s->gpus));
	if (!s->gpus) {
		return false;
	}
	s->capture.gpus = s->gpus;
	for (size_t i = 0; i < opened->n_gpus; i++) {
		s->capture.n_gpus = i + 1;
		s->gpus[i] = opened->gpus[i];
		s->gpus[i].uuid = strdup(opened->gpus[i].uuid);
		s->gpus[i].name = strdup(opened->gpus[i].name);
		s->gpus[i].chip = strdup(opened->gpus[i].chip);
		if (!s->gpus[i].uuid || !s->gpus[i].name || !s->gpus[i].chip) {
			return false;
		}
	}
	return true;
}

bool sinks_prepare(struct sinks *s, const struct run_options *options,
		   const struct gpuctr_opened *opened)
{
	static const struct keys by_kernel = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };

	s->options = options;
	s->driver = strdup(opened->driver ? opened->driver : "");
	ranks_plan(&s->ranks, opened->plan);
	s->summary = summary_new(&by_kernel);
	s->attributor = attributor_new();
	if (!s->driver || !s->summary || !s->attributor ||
	    summary_begin(s->summary, opened->plan, "", NULL)) {
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
		.graphs = (options->trace || options->mode == MODE_SAMPLE) &&
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

/* NULL: there is none, or it is written at the end. */
static struct stream *live_stream(const struct sinks *s)
{
	return s->capture.sampled && !s->capture.timeline ? NULL : s->stream;
}

void sinks_process(struct sinks *s, const struct gpuctr_process *process)
{
	summary_process(s->summary, process);
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
	if (s->options->capture_path || s->stream) {
		attributor_take(s->attributor, record, &what);
	}
	files_record(&s->files, record, &what);
	if (s->capture.sampled) {
		return;
	}
	summary_record(s->summary, record, NULL);
	ranks_record(&s->ranks, record);
	if (s->stream) {
		stream_record(s->stream, record, &what);
	}
}

void sinks_mark(struct sinks *s, const struct gpuctr_mark *mark)
{
	files_mark(&s->files, mark);
	if (live_stream(s)) {
		stream_mark(s->stream, mark);
	}
}

void sinks_image(struct sinks *s, const struct gpuctr_image *image)
{
	files_image(&s->files, image);
}

void sinks_sample(struct sinks *s, const struct kept_sample *sample)
{
	files_sample(&s->files, sample);
	if (live_stream(s)) {
		stream_sample(s->stream, sample);
	}
}

void sinks_unknown(struct sinks *s, const struct store_unknown *unknown)
{
	files_unknown(&s->files, unknown);
}

void sinks_discard(struct sinks *s, int64_t since_ns)
{
	files_discard(&s->files, since_ns);
}

void sinks_unsampled(struct sinks *s, const char *text, uint64_t sample_ns)
{
	s->unsampled = text;
	s->sampled_ns = sample_ns;
	files_unsampled(&s->files, text, sample_ns);
}

void sinks_copy(struct sinks *s, const struct gpuctr_copy *copy)
{
	files_copy(&s->files, copy);
}

/* GPUCTR_E_QUOTA says that notices were left out; all other notices of a process are about its
 * measuring. */
static void note_refusal(struct sinks *s, const struct gpuctr_notice *notice)
{
	if (notice->error.code == GPUCTR_E_KERNEL_NO_MATCH) {
		s->unmatched = s->unmatched ? s->unmatched : strdup(notice->error.message);
	} else if (notice->process != 0 && notice->error.code != GPUCTR_E_QUOTA &&
		   notice->error.code != GPUCTR_OK) {
		s->refused = true;
	}
}

void sinks_notice(struct sinks *s, const struct gpuctr_notice *notice)
{
	note_refusal(s, notice);
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
		stream_process_end(s->stream, end);
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

/* The end of a run with a file says how to look into it. Names are as a shell takes them: of
 * several files their pattern, with a star for each letter. */

/* A path as one word of a shell, and neither an option nor what a terminal would obey. Of a pattern
 * each letter becomes a star, outside of the quotes. */
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

/* Without totals at least the records that came are known, and what processes reported beyond these
 * is lost. */
static void complete_totals(struct sinks *s)
{
	struct gpuctr_totals *t = &s->totals;

	if (s->has_totals) {
		return;
	}
	t->measured = groups_records(s->summary->groups);
	if (t->seen < totals_accounted(t)) {
		t->seen = totals_accounted(t);
	}
	t->lost += t->seen - totals_accounted(t);
}

void sinks_end(struct sinks *s, const struct gpuctr_end *end)
{
	struct gpuctr_end whole = *end;

	s->error = end->error.code;
	s->has_totals =
		end->error.code != GPUCTR_E_DISCONNECTED && end->error.code != GPUCTR_E_PROTOCOL;
	if (s->has_totals) {
		s->totals = end->totals;
	}
	complete_totals(s);
	whole.totals = s->totals;
	whole.processes = summary_processes(s->summary) > end->processes
				  ? summary_processes(s->summary)
				  : end->processes;
	files_end(&s->files, &whole);
	/* The stream needs the plan, which ends with this call. */
	if (live_stream(s)) {
		stream_end(s->stream, &whole);
	}
}

enum { SUMMARY_ROWS = 20 };

/* A program may have any number of children, so their notices are limited; each notice of a chosen
 * process is printed. */
static void print_ranks(struct sinks *s, struct buf *b)
{
	bool chosen = !selector_is_empty(&s->options->selector);

	if (ranks_tell(&s->ranks)) {
		ranks_print(&s->ranks, chosen ? 0 : SUMMARY_ROWS, b);
	}
}

/* On standard output, which is no program's here, unless the stream has it. */
static void conclude_timeline(struct sinks *s, bool with_table)
{
	const char *path = s->options->stream_path;
	struct store_reader *reader = files_read(&s->files);
	CLEAN_BUF struct buf table = { 0 }, next = { 0 };

	if (reader && with_table && !(path && strcmp(path, "-") == 0)) {
		timeline_print(reader, terminal_width(STDOUT_FILENO),
			       terminal_has_style(STDOUT_FILENO), &table);
		fwrite(table.data, 1, table.n, stdout);
		fflush(stdout);
	}
	if (s->unsampled && *s->unsampled && with_table) {
		say("%s", s->unsampled);
	}
	if (with_table) {
		add_next(s->options, &s->files, &next);
		say_text(&next);
	}
	store_reader_free(reader);
}

static bool are_whole(const struct sinks *s)
{
	return files_are_whole(&s->files) && !s->stream_is_cut;
}

bool sinks_conclude(struct sinks *s, bool with_summary)
{
	struct summary_end end = { .recorded = s->capture.recorded,
				   .unanswered = ranks_none_answered(&s->ranks),
				   .speechless = s->ranks.n_speechless + s->ranks.n_cut_off > 0,
				   .has_totals = s->has_totals,
				   .error = s->error,
				   .refused = s->refused,
				   .program_refused = s->program_refused,
				   .unmatched = s->unmatched,
				   .driver = s->driver,
				   .unsaved = files_unsaved(&s->files),
				   .sampled_ns = s->sampled_ns,
				   .unsampled = s->unsampled,
				   .width = terminal_width(STDERR_FILENO),
				   .verbose = s->options->verbose,
				   .styled = terminal_has_style(STDERR_FILENO),
				   .wrapped = isatty(STDERR_FILENO),
				   .rows = SUMMARY_ROWS };
	CLEAN_BUF struct buf b = { 0 };

	if (s->capture.timeline) {
		conclude_timeline(s, with_summary);
		sinks_close_stream(s);
		return are_whole(s);
	}
	complete_totals(s);
	end.totals = s->totals;
	ranks_end(&s->ranks, &s->totals);
	if (with_summary) {
		summary_print(s->summary, &end, &b);
		print_ranks(s, &b);
		if (groups_records(s->summary->groups) > 0) {
			add_next(s->options, &s->files, &b);
		}
	} else {
		summary_print_nothing(s->summary, &end, &b);
	}
	if (b.n > 0) {
		say_text(&b);
	}
	/* If there were several processes, --kernel may have been meant for another one than
	 * this. */
	if (s->unmatched && groups_records(s->summary->groups) > 0 &&
	    summary_processes(s->summary) == 1) {
		say_warning(gpuctr_error_name(GPUCTR_E_KERNEL_NO_MATCH), s->unmatched, "");
	}
	if (s->stream && s->capture.sampled) {
		sinks_write_stream(s);
	}
	sinks_close_stream(s);
	return are_whole(s);
}

void sinks_close(struct sinks *s)
{
	sinks_close_stream(s);
	if (s->options && s->options->part) {
		if (s->options->capture_path) {
			ranks_tell_why(&s->ranks);
		}
		files_write_names(&s->files, expand_node(), stdout);
	}
	ranks_deinit(&s->ranks);
	files_close(&s->files);
	s->summary = summary_free(s->summary);
	s->attributor = attributor_free(s->attributor);
	free_gpus(s);
	free(s->driver);
	s->driver = NULL;
	free(s->unmatched);
	s->unmatched = NULL;
}
