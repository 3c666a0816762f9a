/* SPDX-License-Identifier: Apache-2.0 */

/* Capture files, while they are written or later: another client measures with -o, and this one
 * reads what is committed. A reading takes the whole file, a second for a million kernels, so the
 * next reading waits at least four times as long as the last one took, and only a file that has
 * changed is read again. When a reading fails, the frame keeps what was read before. */

#include "client/cli/top_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/progress.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/cli/verb.h"
#include "client/report/reading.h"
#include "proto/base/clock.h"

enum { REST = 4 /* times the time of a reading */ };

struct file_reading {
	struct summary *summary;
	struct buf head, why;
	unsigned unfinished;
};

static int on_capture(const struct store_info *info, void *userdata)
{
	struct file_reading *r = userdata;

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
	summary_process(((struct file_reading *)userdata)->summary, &process->process);
	return 0;
}

static int on_record(const struct gpuctr_record *record, const struct attribution *what,
		     void *userdata)
{
	summary_attributed(((struct file_reading *)userdata)->summary, record, what);
	return 0;
}

static int read_one(struct file_reading *r, const char *path, struct store_error *error)
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

static bool read_all(struct top_files *f, struct store_error *error)
{
	struct file_reading r = { .summary = summary_new(f->keys) };
	uint64_t began_ns = clock_now_ns();
	int result = r.summary ? 0 : -ENOMEM;

	*error = (struct store_error){ 0 };
	for (char **path = f->paths; *path && result == 0; path++) {
		result = read_one(&r, *path, error);
	}
	if (result == 0) {
		top_files_deinit(f);
		f->summary = r.summary;
		f->head = r.head;
		f->unfinished = r.unfinished;
	} else {
		summary_free(r.summary);
		buf_deinit(&r.head);
	}
	f->next_ns = clock_now_ns() + REST * (clock_now_ns() - began_ns);
	buf_deinit(&r.why);
	return result == 0;
}

/* The log beside a file counts too: what is committed stands there first. */
static uint64_t find_changed(char *const *paths)
{
	uint64_t mixed = 0;
	char path[4096];

	for (size_t i = 0; paths[i / 2]; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s%s", paths[i / 2], i % 2 ? "-wal" : "");
		if (stat(path, &st) == 0) {
			mixed = (mixed ^ (uint64_t)st.st_ino ^ (uint64_t)st.st_size ^
				 (uint64_t)st.st_mtim.tv_sec << 30 ^ (uint64_t)st.st_mtim.tv_nsec) *
				UINT64_C(0x9e3779b97f4a7c15);
		}
	}
	return mixed;
}

/* Reads what has changed. 0, or an exit status when nothing could ever be read. */
static int refresh(struct top_files *f, struct buf *b)
{
	uint64_t changed = find_changed(f->paths);
	struct store_error error;

	if (f->summary && (changed == f->changed || clock_now_ns() < f->next_ns)) {
		return 0;
	}
	f->changed = changed;
	if (read_all(f, &error)) {
		return 0;
	}
	if (!f->summary) {
		say_error(error.code > 0 ? store_error_name(error.code) : "input", error.message,
			  error.remedy);
		return EXIT_VERB_FAILED;
	}
	text_terminal(b, error.message);
	buf_char(b, '\n');
	return 0;
}

int top_files_add(void *source, struct live *l, struct buf *b)
{
	struct top_files *f = source;
	struct buf why = { 0 };
	int r = refresh(f, b);
	unsigned n;

	if (r) {
		return r;
	}
	n = summary_processes(f->summary);
	buf_text(b, buf_string(&f->head));
	buf_char(b, '\n');
	live_add_records(l, f->summary, f->unfinished > 0, b);
	buf_printf(b, ", %u process%s, %s\n", n, n == 1 ? "" : "es",
		   f->unfinished > 0 ? "not complete" : "complete");
	r = live_add_table(l, f->summary, b, &why);
	if (r) {
		say_usage("top: %s", r == -ENOMEM ? strerror(ENOMEM) : buf_string(&why));
	}
	buf_deinit(&why);
	return r == 0 ? 0 : r == -ENOMEM ? EXIT_VERB_FAILED : EXIT_VERB_USAGE;
}

void top_files_deinit(struct top_files *f)
{
	f->summary = summary_free(f->summary);
	buf_deinit(&f->head);
}
