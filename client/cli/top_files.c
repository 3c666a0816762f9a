/* SPDX-License-Identifier: Apache-2.0 */

/* Capture files, while they are written or later: another client measures with -o, this one reads
 * what it has committed. A file is read as a whole each time, which for a million kernels takes a
 * second; so the next reading waits at least four times as long as the last one took, and a file
 * that has not changed is not read. What was there stays on the screen when a reading fails. */

#include "client/cli/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/cli/verb.h"
#include "client/report/reading.h"

enum { REST = 4 /* times the time of a reading */ };

struct files_state {
	const struct top_options *o;
	struct summary *summary;
	struct buf head;      /* what the files are, safe */
	struct buf why;	      /* a reading failed */
	uint64_t changed;     /* of the files when they were read: sizes and times, mixed */
	uint64_t next_ns;     /* no reading before */
	unsigned unfinished;  /* files that are still being written, or were cut short */
	struct top_rate rate; /* of kernels */
	bool fresh;
};

/* --- reading --------------------------------------------------------------------------------- */

struct reading {
	struct files_state *s;
	struct summary *summary;
	struct buf why;
	unsigned unfinished;
	struct buf head;
};

static int on_capture(const struct store_info *info, void *userdata)
{
	struct reading *r = userdata;

	r->unfinished += !info->complete;
	buf_text(&r->head, r->head.n > 0 ? ", " : "");
	text_terminal(&r->head, info->path);
	if (*info->command) {
		buf_text(&r->head, " of ");
		text_terminal(&r->head, info->command);
	}
	if (*info->recorded_from) {
		buf_text(&r->head, ", RECORDED on ");
		text_terminal(&r->head, info->recorded_from);
	}
	return summary_begin(r->summary, &info->plan, info->path, &r->why);
}

static int on_process(const struct store_process *process, void *userdata)
{
	summary_process(((struct reading *)userdata)->summary, &process->process);
	return 0;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	(void)what;
	summary_record(((struct reading *)userdata)->summary, record);
	return 0;
}

static int read_one(struct reading *r, const char *path, struct store_error *error)
{
	const struct reading_handler handler = { .on_capture = on_capture,
						 .on_process = on_process,
						 .on_record = on_record,
						 .without = summary_without(r->summary) };
	int result = reading_capture(path, &handler, r, error);

	if (result && error->code == 0) {
		snprintf(error->message, sizeof(error->message), "%s",
			 result == -EINVAL ? buf_string(&r->why) : strerror(ENOMEM));
	}
	return result;
}

static void take_over(struct files_state *s, struct reading *r)
{
	summary_free(s->summary);
	s->summary = r->summary;
	r->summary = NULL;
	buf_deinit(&s->head);
	s->head = r->head;
	r->head = (struct buf){ 0 };
	s->unfinished = r->unfinished;
	top_rate_update(&s->rate, summary_records(s->summary), top_now_ns());
}

static bool read_all(struct files_state *s, struct store_error *error)
{
	struct reading r = { .s = s, .summary = summary_new(&s->o->keys) };
	uint64_t began_ns = top_now_ns();
	int result = r.summary ? 0 : -ENOMEM;

	*error = (struct store_error){ 0 };
	for (size_t i = 0; i < s->o->files.n && result == 0; i++) {
		result = read_one(&r, s->o->files.items[i], error);
	}
	if (result == 0) {
		take_over(s, &r);
	}
	s->next_ns = top_now_ns() + REST * (top_now_ns() - began_ns);
	summary_free(r.summary);
	buf_deinit(&r.why);
	buf_deinit(&r.head);
	return result == 0;
}

/* Also of the log beside it, in which what is committed stands first. */
static uint64_t find_changed(const struct strings *files)
{
	uint64_t mixed = 0;
	char path[4096];

	for (size_t i = 0; i < files->n * 2; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s%s", files->items[i / 2], i % 2 ? "-wal" : "");
		if (stat(path, &st) == 0) {
			mixed = (mixed ^ (uint64_t)st.st_ino ^ (uint64_t)st.st_size ^
				 (uint64_t)st.st_mtim.tv_sec << 30 ^ (uint64_t)st.st_mtim.tv_nsec) *
				UINT64_C(0x9e3779b97f4a7c15);
		}
	}
	return mixed;
}

/* --- the source ------------------------------------------------------------------------------ */

static void files_close(void *state)
{
	struct files_state *s = state;

	summary_free(s->summary);
	buf_deinit(&s->head);
	buf_deinit(&s->why);
	free(s);
}

static void *files_open(const struct top_options *o)
{
	struct files_state *s = calloc(1, sizeof(*s));
	struct store_error error;

	if (!s) {
		say_usage("out of memory");
		return NULL;
	}
	s->o = o;
	s->changed = find_changed(&o->files);
	if (!read_all(s, &error)) {
		say_error(error.code > 0 ? store_error_name(error.code) : "input", error.message,
			  error.remedy);
		files_close(s);
		return NULL;
	}
	s->fresh = true;
	return s;
}

static struct gpuctr *files_connection(void *state)
{
	(void)state;
	return NULL;
}

static void files_look(void *state)
{
	struct files_state *s = state;
	uint64_t changed = find_changed(&s->o->files);
	struct store_error error;

	/* Also without news: a rate is one until it is 0. */
	s->fresh = s->unfinished > 0;
	if (top_now_ns() < s->next_ns) {
		return;
	}
	if (changed == s->changed) {
		top_rate_update(&s->rate, summary_records(s->summary), top_now_ns());
		return;
	}
	buf_clear(&s->why);
	if (!read_all(s, &error)) {
		text_terminal(&s->why, error.message);
	}
	s->changed = changed;
	s->fresh = true;
}

static bool files_fresh(const void *state)
{
	return ((const struct files_state *)state)->fresh;
}

static int files_over(const void *state)
{
	(void)state;
	return 0;
}

static int files_draw(void *state, const struct top_look *look, struct frame *f, struct buf *why)
{
	struct files_state *s = state;

	s->fresh = false;
	frame_add(f, buf_string(&s->head), LOOK_TITLE);
	text_count(&f->text, summary_records(s->summary));
	buf_printf(&f->text, " kernel%s, %u process%s, ",
		   summary_records(s->summary) == 1 ? "" : "s", summary_processes(s->summary),
		   summary_processes(s->summary) == 1 ? "" : "es");
	if (s->unfinished > 0) {
		buf_text(&f->text, "not complete");
		top_rate_add_behind(&s->rate, &f->text);
	} else {
		buf_text(&f->text, "complete");
	}
	frame_end_line(f, LOOK_PLAIN);
	if (s->why.n > 0) {
		frame_add(f, buf_string(&s->why), LOOK_TITLE);
	}
	return top_add_kernels(s->summary, s->o->sort, look, f, why);
}

const struct top_source top_files = {
	.open = files_open,
	.close = files_close,
	.connection = files_connection,
	.look = files_look,
	.is_fresh = files_fresh,
	.is_over = files_over,
	.draw = files_draw,
};
