/* SPDX-License-Identifier: Apache-2.0 */

/* Walks through a capture file. Standard input is copied first, because SQLite needs to seek. The
 * copy lies in a folder that others cannot enter. It loses its name once it is open, so nothing is
 * left behind, however the program ends. */

#include "client/report/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/store/private.h"

/* --- standard input -------------------------------------------------------------------------- */

static int tell_errno(struct store_error *error, int code, const char *doing)
{
	*error = (struct store_error){ .code = -code };
	snprintf(error->message, sizeof(error->message), "%s: %s.", doing, strerror(code));
	snprintf(error->remedy, sizeof(error->remedy),
		 "Set TMPDIR to a folder with room for the capture, or name its file.");
	return -code;
}

static int open_path(const char *path, bool check_beside, struct store_error *error,
		     struct store_reader **ret)
{
	return check_beside ? store_open_unchecked(path, error, ret) : store_open(path, error, ret);
}

/* Messages do not name the copy, which the user does not know. */
static void name_input(struct store_error *error, const char *path)
{
	char *at = path ? strstr(error->message, path) : NULL;
	char rest[sizeof(error->message)];

	if (at) {
		snprintf(rest, sizeof(rest), "%s", at + strlen(path));
		snprintf(at, sizeof(error->message) - (size_t)(at - error->message),
			 "standard input%s", rest);
	}
}

static int refuse_empty(struct store_error *error)
{
	*error = (struct store_error){ .code = STORE_E_NOT_CAPTURE };
	snprintf(error->message, sizeof(error->message), "Standard input is empty.");
	snprintf(error->remedy, sizeof(error->remedy),
		 "Check the command that writes to it: it must write a capture file.");
	return STORE_E_NOT_CAPTURE;
}

static int copy_to(const char *path, struct store_error *error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0) {
		return tell_errno(error, errno, "No temporary file can be made for standard input");
	}
	r = store_private_copy_data(STDIN_FILENO, fd);
	r = r ? tell_errno(error, -r, "Copying standard input to a temporary file failed") : 0;
	r = r == 0 && lseek(fd, 0, SEEK_END) == 0 ? refuse_empty(error) : r;
	close(fd);
	return r;
}

/* The caller frees *ret_path, also after a failure. */
static int open_input(bool check_beside, struct store_error *error, struct store_reader **ret,
		      char **ret_path)
{
	char *path = store_private_temporary();
	int r;

	if (!path) {
		return tell_errno(error, errno, "No temporary file can be made for standard input");
	}
	*ret_path = strdup(path);
	r = copy_to(path, error);
	r = r ? r : open_path(path, check_beside, error, ret);
	store_private_remove(path);
	return r;
}

/* --- the capture ----------------------------------------------------------------------------- */

enum { LAUNCHES_KEPT = 1 << 12 };

struct reading {
	struct store_reader *reader;
	struct attribution *launches; /* direct-mapped; NULL without scopes */
	const struct reading_handler *handler;
	void *userdata;
	struct store_error *error;
	int handled; /* result of the handler of samples */
};

/* If result is an error, sets r->error to the reader's error. */
static int tell(struct reading *r, int result)
{
	if (result) {
		*r->error = *store_reader_error(r->reader);
	}
	return result;
}

/* Records of one launch differ in step and sequence number only. */
static int attribute(struct reading *r, const struct gpuctr_record *record,
		     const struct store_found *found, struct attribution **ret)
{
	struct attribution *what = &r->launches[found->launch % LAUNCHES_KEPT];
	int result = what->launch == found->launch
			     ? 0
			     : attribution_read(r->handler->scopes, record, found, what);

	if (what->scope) {
		what->step_number = found->step;
		what->seq = found->seq;
	}
	*ret = what;
	return result;
}

static int read_records(struct reading *r, unsigned process)
{
	const struct reading_handler *h = r->handler;
	struct attribution *what = NULL;
	const struct gpuctr_record *record;
	struct store_cursor *cursor;
	int result = tell(r, store_records(r->reader, process, 0, 0, &cursor));

	if (result) {
		return result;
	}
	while ((result = tell(r, store_next_record(cursor, &record))) == 0 && record) {
		result = r->launches ? attribute(r, record, store_record_found(cursor), &what) : 0;
		result = result ? result : h->on_record(record, what, r->userdata);
		if (result) {
			break;
		}
	}
	store_cursor_free(cursor);
	return result;
}

static int read_marks(struct reading *r, unsigned process)
{
	const struct gpuctr_mark *mark;
	struct store_cursor *cursor;
	int result = tell(r, store_marks(r->reader, process, &cursor));

	if (result) {
		return result;
	}
	while ((result = tell(r, store_next_mark(cursor, &mark))) == 0 && mark) {
		result = r->handler->on_mark(mark, r->userdata);
		if (result) {
			break;
		}
	}
	store_cursor_free(cursor);
	return result;
}

static int read_notices(struct reading *r)
{
	const struct gpuctr_notice *notices;
	size_t n;
	int result = tell(r, store_notices(r->reader, &notices, &n));

	for (size_t i = 0; result == 0 && i < n; i++) {
		result = r->handler->on_notice(&notices[i], r->userdata);
	}
	return result;
}

static int on_samples(const struct store_samples *samples, void *reading)
{
	struct reading *r = reading;

	r->handled = r->handler->on_samples(samples, r->userdata);
	return r->handled;
}

static int read_samples(struct reading *r)
{
	int result = store_each_samples(r->reader, on_samples, r);

	return r->handled ? result : tell(r, result);
}

static int read_process(struct reading *r, const struct store_process *process)
{
	const struct reading_handler *h = r->handler;
	int result = h->on_process ? h->on_process(process, r->userdata) : 0;

	if (result == 0 && h->on_record && process->has_records) {
		result = read_records(r, process->process.process);
	}
	if (result == 0 && h->on_mark && process->has_marks) {
		result = read_marks(r, process->process.process);
	}
	if (result == 0 && h->on_process_end) {
		result = h->on_process_end(process, r->userdata);
	}
	return result;
}

/* Damaged pages are reported before errors that may result from them. */
static int check(struct reading *r, int result)
{
	int wrong = result == 0 || r->error->code ? tell(r, store_check_pages(r->reader)) : 0;

	return wrong ? wrong : result;
}

static int read_all(struct reading *r)
{
	const struct reading_handler *h = r->handler;
	const struct store_info *info = store_info(r->reader);
	int result = h->needs_first ? tell(r, store_find_first(r->reader)) : 0;

	result = result || !h->on_capture ? result : h->on_capture(info, r->userdata);
	for (size_t i = 0; result == 0 && i < info->n_processes; i++) {
		result = read_process(r, &info->processes[i]);
	}
	if (result == 0 && h->on_samples && info->has_samples) {
		result = read_samples(r);
	}
	result = check(r, result);
	if (result == 0 && h->on_notice) {
		result = read_notices(r);
	}
	if (result == 0 && h->on_end) {
		result = h->on_end(info, r->userdata);
	}
	return result;
}

int reading_reader(struct store_reader *reader, const struct reading_handler *handler,
		   void *userdata, struct store_error *error)
{
	struct reading r = {
		.reader = reader, .handler = handler, .userdata = userdata, .error = error
	};
	int result;

	memset(error, 0, sizeof(*error));
	store_be_brief(reader, handler->brief);
	if (handler->scopes) {
		scopes_next_capture(handler->scopes);
		r.launches = calloc(LAUNCHES_KEPT, sizeof(*r.launches));
	}
	result = r.launches || !handler->scopes ? read_all(&r) : -ENOMEM;
	free(r.launches);
	return result;
}

int reading_capture(const char *path, const struct reading_handler *handler, void *userdata,
		    struct store_error *error)
{
	struct store_reader *reader;
	char *copy = NULL;
	int result;

	memset(error, 0, sizeof(*error));
	result = strcmp(path, "-") == 0 ? open_input(handler->check_beside, error, &reader, &copy)
					: open_path(path, handler->check_beside, error, &reader);
	if (result == 0) {
		result = reading_reader(reader, handler, userdata, error);
		store_reader_free(reader);
	}
	name_input(error, copy);
	free(copy);
	return result;
}
