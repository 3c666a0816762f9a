/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the capture files of a report and adds them up, one after the other. */

#include "client/cli/report_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/say.h"
#include "client/cli/text.h"

/* Differs from every result of client/store. */
enum { REPORT_E_GROWN = 1000 };

static void add_totals(struct gpuctr_totals *sum, const struct gpuctr_totals *t)
{
#define ADD(name) sum->name += t->name;
	GPUCTR_TOTALS(ADD)
#undef ADD
}

/* Notes how many kernels have no value, and why: a line for each capture. */
static void take_unsampled(struct report_source *s, const struct store_info *info)
{
	struct buf *b = &s->unsampled;

	if (!s->attributes && !*info->unsampled) {
		return;
	}
	buf_text(b, b->n > 0 ? "\n" : "");
	if (s->attributes) {
		sampled_describe(s->sampled, b);
	} else {
		text_terminal(b, info->unsampled);
	}
	s->end.sampled_ns =
		s->captures == 1 || s->end.sampled_ns == info->sample_ns ? info->sample_ns : 0;
}

static int on_capture(const struct store_info *info, void *userdata)
{
	struct report_source *s = userdata;
	int r;

	s->captures++;
	s->driver = s->driver ? s->driver : strdup(info->driver);
	s->end.driver = s->driver ? s->driver : "";
	s->lacks[store_lack(info)]++;
	/* A run that ends (s->open) has already printed its error. */
	if (info->end_code != GPUCTR_OK && !s->open && !s->end_message) {
		s->end_message = strdup(info->end_message);
	}
	s->end.error = s->end.error ? s->end.error : info->end_code;
	s->end.has_totals &= summary_has_totals(info->end_code);
	s->before = groups_records(s->summary->groups);
	r = summary_begin(s->summary, &info->plan, info->path, &s->why);
	r = r ? r : groups_host(s->summary->groups, info->host);
	r = r ? r : where_begin(s->where, info->path, info->host);
	return r || !s->page ? r : page_capture(s->page, info);
}

static int on_process(const struct store_process *process, void *userdata)
{
	struct report_source *s = userdata;

	s->speechless += process->ended && !process->clean;
	summary_process(s->summary, &process->process);
	if (where_process(s->where, &process->process)) {
		return -ENOMEM;
	}
	if (!s->recorded_from && *process->process.recorded_from) {
		s->recorded_from = strdup(process->process.recorded_from);
	}
	if (s->page) {
		page_process(s->page, &process->process);
	}
	return 0;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	struct report_source *s = userdata;
	struct gpuctr_record copy;
	bool wanted;

	if (s->sampled) {
		copy = *record;
		sampled_apply(s->sampled, s->next++, &copy);
		record = &copy;
	}
	s->records++;
	if (where_record(s->where, record, what, &wanted)) {
		return -ENOMEM;
	}
	if (!wanted) {
		return 0;
	}
	summary_record(s->summary, record, what);
	if (s->hints) {
		hints_record(s->hints, record);
	}
	if (s->page) {
		page_record(s->page, record);
	}
	return 0;
}

static int on_samples(const struct store_samples *samples, void *userdata)
{
	struct report_source *s = userdata;

	return page_samples(s->page, samples);
}

/* Samples without kernels are shown over time; they are no part of a table of kernels. */
static int add_timeline(struct report_source *s, const struct store_info *info)
{
	struct store_reader *reader = s->open;
	int r;

	if (!timeline_is(info) || (!reader && store_open(info->path, NULL, &reader) != 0)) {
		return 0;
	}
	r = timeline_print(reader, s->form, s->width, s->styled, &s->timelines);
	if (r > 0) {
		const struct store_error *e = store_reader_error(reader);

		say_error(store_error_name(r), e->message, e->remedy);
	}
	if (!s->open) {
		store_reader_free(reader);
	}
	return r == -ENOMEM ? r : 0;
}

/* Notes why a process was not measured. GPUCTR_E_QUOTA means that notices were left out; all other
 * notices of a process are about its measuring. */
static int on_notice(const struct gpuctr_notice *notice, void *userdata)
{
	struct report_source *s = userdata;
	int code = notice->error.code;

	if (code == GPUCTR_E_KERNEL_NO_MATCH) {
		s->unmatched = s->unmatched ? s->unmatched : strdup(notice->error.message);
		s->end.unmatched = s->unmatched;
	} else if (notice->process != 0 && code != GPUCTR_E_QUOTA && code != GPUCTR_OK) {
		s->end.refused = true;
	}
	return 0;
}

/* Has the file more records now than when its values were calculated? Records are read process by
 * process, so one more record of the first process would shift all later values by one record. */
static bool has_grown(const struct report_source *s)
{
	return s->attributes && s->next != sampled_counts(s->sampled)->records;
}

static int on_end(const struct store_info *info, void *userdata)
{
	struct report_source *s = userdata;
	int r = has_grown(s) ? REPORT_E_GROWN : add_timeline(s, info);

	if (r) {
		return r;
	}
	/* If a file lacks some processes of its capture, the largest number is not their count. */
	s->summary->processes_here = (unsigned)info->n_processes;
	take_unsampled(s, info);
	s->unattributed += info->has_samples && !timeline_is(info) && !s->sampled &&
			   !info->complete && info->sample_ns == 0;
	if (info->complete || info->totals.seen > 0) {
		add_totals(&s->end.totals, &info->totals);
	} else {
		/* The totals were not written yet, or never will be: only what the file holds is
		 * known. */
		struct gpuctr_totals known = { .measured = groups_records(s->summary->groups) -
							   s->before };

		known.seen = known.measured;
		add_totals(&s->end.totals, &known);
		s->end.unfinished = true;
	}
	return r;
}

static void forget_attributed(struct report_source *s)
{
	s->sampled = sampled_free(s->sampled);
	s->attributed = store_reader_free(s->attributed);
	s->next = 0;
}

/* False: the reason was reported. */
static bool attribute(struct report_source *s, const char *path)
{
	struct store_error error = { 0 };
	const char *const *gpus;
	size_t n;
	int r;

	if (strcmp(path, "-") == 0) {
		say_usage("report: --attribute reads a file twice, and standard input comes once");
		return false;
	}
	forget_attributed(s);
	r = store_open(path, &error, &s->attributed);
	if (r == 0) {
		r = store_sampled_gpus(s->attributed, &gpus, &n);
		r = r == 0 && n == 0 ? SAMPLED_NO_SAMPLES : r;
		r = r ? r : sampled_read(s->attributed, NULL, NULL, &s->sampled);
		error = r ? *store_reader_error(s->attributed) : error;
	}
	if (r == SAMPLED_NO_SAMPLES) {
		CLEAN_BUF struct buf b = { 0 };

		buf_printf(&b, "%s keeps no samples that its values could be attributed from.",
			   path);
		say_error("no-samples", buf_string(&b),
			  "Take a capture with --mode sample and -o FILE; a "
			  "file for each process (%p, %r, %t) keeps the samples of GPUs that no "
			  "other "
			  "one has used.");
	} else if (r && error.code) {
		say_error(store_error_name(r), error.message, error.remedy);
	} else if (r) {
		say_usage("out of memory");
	}
	return r == 0;
}

/* Reads from open; if that is NULL, from the file at path. */
static bool read_capture(struct report_source *s, struct store_reader *open, const char *path)
{
	const struct reading_handler handler = {
		.on_capture = on_capture,
		.on_process = on_process,
		.on_record = on_record,
		.on_samples = s->page ? on_samples : NULL,
		.on_notice = on_notice,
		.on_end = on_end,
		.check_beside = true,
		.brief = true,
		.scopes = &s->scopes,
	};
	struct store_error error;
	int r;

	s->open = open;
	r = open ? reading_reader(open, &handler, s, &error)
		 : reading_capture(path, &handler, s, &error);
	s->open = NULL;
	if (r && error.code) {
		say_error(r < 0 ? "input" : store_error_name(r), error.message, error.remedy);
	} else if (r == REPORT_E_GROWN) {
		say_error("still-written",
			  "The capture has grown while its values were calculated.",
			  "Report on it with --attribute once the capture has ended.");
	} else if (r == -EINVAL) {
		say_error("unit-clash", buf_string(&s->why),
			  "Report on these captures one by one.");
	} else if (r) {
		say_usage("out of memory");
	}
	return r == 0;
}

bool report_source_read(struct report_source *s, const char *path)
{
	return (!s->attributes || attribute(s, path)) && read_capture(s, NULL, path);
}

bool report_source_read_open(struct report_source *s, struct store_reader *reader,
			     struct sampled *sampled)
{
	bool ok;

	s->sampled = sampled;
	ok = read_capture(s, reader, NULL);
	s->sampled = NULL;
	s->next = 0;
	return ok;
}

static bool has_samples_alone(const struct report_source *s)
{
	return s->records == 0 && s->timelines.n > 0;
}

/* Appends why captures are not complete. */
static void add_lacks(const struct report_source *s, struct buf *b)
{
	for (size_t i = STORE_LACKS_NOTHING + 1; i < STORE_LACKS; i++) {
		bool tells = i == STORE_ENDED_EARLY && s->lacks[i] == 1 && s->end_message;

		if (s->lacks[i] == 0) {
			continue;
		}
		buf_text(b, "NOT COMPLETE: ");
		if (s->captures > 1) {
			buf_printf(b, "%u of %u captures: ", s->lacks[i], s->captures);
		}
		buf_text(b, store_lacks[i]);
		buf_text(b, tells ? ": " : "");
		text_terminal(b, tells ? s->end_message : "");
		buf_char(b, '\n');
	}
}

void report_source_print_tail(struct report_source *s, const struct view *view, struct buf *b)
{
	s->end.unsampled = buf_string(&s->unsampled);
	if (has_samples_alone(s)) {
		buf_printf(b, "%s%s", s->end.unsampled, s->unsampled.n > 0 ? "\n" : "");
	} else {
		summary_print_tail(s->summary, &s->end, view, b);
	}
	if (!where_is_empty(s->where)) {
		buf_printf(b, "%s of %s measured launches are included: where ",
			   TEXT_COUNT(groups_records(s->summary->groups)), TEXT_COUNT(s->records));
		where_print(s->where, b);
		buf_char(b, '\n');
	}
	if (s->speechless > 0) {
		buf_printf(b,
			   "%zu process%s ended without a last word, killed or by _exit(): what %s "
			   "launched after %s last counts may be in no figure\n",
			   s->speechless, s->speechless == 1 ? "" : "es",
			   s->speechless == 1 ? "it" : "they",
			   s->speechless == 1 ? "its" : "their");
	}
	if (s->unattributed > 0) {
		buf_printf(b,
			   "of %s values are not known yet, or never were: --attribute divides the "
			   "samples that %s\n",
			   s->unattributed == 1 ? "a sampled capture" : "several sampled captures",
			   s->unattributed == 1 ? "it keeps" : "they keep");
	}
	add_lacks(s, b);
}

void report_source_print_nothing(struct report_source *s, struct buf *b)
{
	if (has_samples_alone(s)) {
		return; /* the user asked for samples only */
	}
	if (s->records == 0) {
		summary_add_nothing(s->summary, &s->end, b);
		return;
	}
	buf_printf(b, "None of the %s measured launches matches --where: try a shorter pattern.\n",
		   TEXT_COUNT(s->records));
}

bool report_source_open(struct report_source *s, const struct keys *keys, bool hints,
			const struct strings *where)
{
	*s = (struct report_source){ .end = { .has_totals = true, .driver = "" } };
	s->summary = summary_new(keys);
	s->hints = hints && s->summary ? hints_new(s->summary->groups) : NULL;
	s->where = where_new();
	for (size_t i = 0; s->where && i < where->n; i++) {
		/* where_add() has accepted these before, so only memory can run out. */
		if (where_add(s->where, where->items[i], &s->why)) {
			s->where = where_free(s->where);
		}
	}
	if (!s->summary || !s->where || (hints && !s->hints)) {
		say_usage("out of memory");
		return false;
	}
	return true;
}

void report_source_close(struct report_source *s)
{
	forget_attributed(s);
	page_free(s->page);
	summary_free(s->summary);
	hints_free(s->hints);
	where_free(s->where);
	scopes_deinit(&s->scopes);
	free(s->driver);
	free(s->recorded_from);
	free(s->unmatched);
	free(s->end_message);
	buf_deinit(&s->why);
	buf_deinit(&s->unsampled);
	buf_deinit(&s->timelines);
}
