/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/audit.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/base/utf8.h"
#include "daemon/base/log.h"
#include "proto/wire/status.h"

/* A line is one write(2) to a file opened for appending, so that lines never mix and a reader sees
 * whole ones. It is written synchronously because a grant waits for it. */

enum { REFUSALS_OF_EACH = 60, REFUSALS_OF_ALL = 600 }; /* refusals a minute */

/* A message id never changes: administrators filter by it. */
static const struct {
	const char *name, *text;
	int level;
	const char *message_id;
} events[] = {
	[AUDIT_STARTED] = { "started", "started", LOG_INFO, "5faecb0cf93d4252bb71d0a8983ff38a" },
	[AUDIT_REFUSED] = { "refused", "refused", LOG_NOTICE, "7d73fefec6b149238a4272234c2edea2" },
	[AUDIT_LEASE_GRANTED] = { "lease-granted", "lease granted", LOG_INFO,
				  "e55a1952beb44a678d227a4002797867" },
	[AUDIT_LEASE_ENDED] = { "lease-ended", "lease ended", LOG_INFO,
				"cac519eea5c642df860ee2eef5552fe9" },
	[AUDIT_LEASE_EXPIRED] = { "lease-expired", "lease expired", LOG_NOTICE,
				  "b9f63c144cc645d084b5806d5a27dbfb" },
	[AUDIT_LEASE_REVOKED] = { "lease-revoked", "lease revoked", LOG_NOTICE,
				  "a83589c63c3c43edb36f9803b369169b" },
	[AUDIT_TRACE_GRANTED] = { "trace-granted", "trace granted", LOG_INFO,
				  "e6ece9ec4b43b25cfdf5e110d4008f1f" },
	[AUDIT_TRACE_ENDED] = { "trace-ended", "trace ended", LOG_INFO,
				"ee9af0e29ee745a9afb031f2a7742e47" },
	[AUDIT_PERMISSION_GRANTED] = { "permission-granted", "permission granted", LOG_INFO,
				       "c71ea84ab8974bcd85ac1588e8be70d5" },
	[AUDIT_PERMISSION_REFUSED] = { "permission-refused", "permission refused", LOG_NOTICE,
				       "b30b143ebe40488eab14a62c6ae5eb60" },
	[AUDIT_JOB_BEGUN] = { "job-begun", "job begun", LOG_INFO,
			      "d928d387ddd744179cfe4e4b83235270" },
	[AUDIT_JOB_ENDED] = { "job-ended", "job ended", LOG_INFO,
			      "13e9c1b4c9cb40f4aa2ac2fa663cc04b" },
};

const char *audit_problem(const struct audit *a)
{
	return a->error == -EBADF ? "its file could not be opened" : strerror(-a->error);
}

static void note_error(struct audit *a, int error)
{
	int before = a->error;

	a->error = error;
	if (error != 0 && before == 0) {
		log_error("the audit log cannot be written (%s): nothing is granted until it can",
			  audit_problem(a));
	} else if (error == 0 && before != 0) {
		log_notice("the audit log can be written again");
	}
}

/* --- the fields of a line --- */

enum kind { TEXT, NUMBER, COUNT, LIST };

/* A field has this name in the file; in the journal the name is in capitals behind GPUCTR_. The
 * file leaves out empty texts and lists, and counts that are 0. */
struct field {
	const char *name;
	enum kind kind;
	const char *text;
	uint64_t number;
	const char *const *list;
	size_t n;
};

enum { FIELDS = 15 };

static void describe(const struct audit_line *l, struct field ret[FIELDS])
{
	const struct field all[FIELDS] = {
		{ "event", TEXT, .text = events[l->event].name },
		{ "uid", NUMBER, .number = l->uid },
		{ "user", TEXT, .text = l->user },
		{ "pid", NUMBER, .number = (uint64_t)l->pid },
		{ "program", TEXT, .text = l->program },
		{ "owner", TEXT, .text = l->owner },
		{ "capture", COUNT, .number = l->capture },
		{ "gpus", LIST, .list = l->gpus, .n = l->n_gpus },
		{ "metrics", LIST, .list = l->metrics, .n = l->n_metrics },
		{ "job", TEXT, .text = l->job },
		{ "status", TEXT, .text = status_to_string(l->code) },
		{ "driver_status", COUNT, .number = l->driver_status },
		{ "why", TEXT, .text = l->why },
		{ "refused_before", COUNT, .number = l->missed },
		{ "others_refused_before", COUNT, .number = l->missed_others },
	};

	memcpy(ret, all, sizeof(all));
}

static struct buf *begin_line(struct audit *a)
{
	buf_clear(&a->line);
	a->line.failed = false;
	return &a->line;
}

/* --- the file --- */

static int open_file(const char *path, int flags)
{
	CLEAN_FD int fd =
		open(path,
		     O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | flags,
		     0640);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		return -errno;
	}
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

int audit_check(const char *path)
{
	CLEAN_FD int fd = open_file(path, 0);
	char folder[PATH_MAX];

	if (fd != -ENOENT) {
		return fd < 0 ? fd : 0;
	}
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path + 1), path);
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int audit_open(const char *path)
{
	int fd = open_file(path, O_CREAT);

	if (fd >= 0) {
		return fd;
	}
	log_error("audit-file %s: %s; nothing is granted without it: make its folder writable for "
		  "the daemon's user and reload",
		  path, strerror(-fd));
	return fd;
}

void audit_set_file(struct audit *a, bool wants_file, int fd)
{
	if (a->fd >= 0) {
		close(a->fd);
	}
	a->wants_file = wants_file;
	a->fd = fd;
	a->torn = false;
	/* Logs now that the file could not be opened, before that causes the first refusal. Any
	 * other error ends with the next line that is written. */
	if (wants_file && fd < 0) {
		note_error(a, -EBADF);
	} else if (a->error == -EBADF) {
		note_error(a, 0);
	}
}

void audit_deinit(struct audit *a)
{
	if (a->fd >= 0) {
		close(a->fd);
	}
	a->fd = -1;
	buf_deinit(&a->line);
}

static void add_time(struct json *j)
{
	uint64_t now = clock_wall_ns();
	time_t seconds = (time_t)(now / CLOCK_NS_PER_S);
	struct tm tm;
	char text[40];
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%06uZ", (unsigned)(now % CLOCK_NS_PER_S / 1000));
	json_text(j, "time", text);
}

static void add_field(struct json *j, const struct field *f)
{
	if (f->kind == LIST && f->n > 0) {
		json_texts(j, f->name, f->list, f->n);
	} else if (f->kind == TEXT && f->text && *f->text) {
		json_text(j, f->name, f->text);
	} else if (f->kind == NUMBER || (f->kind == COUNT && f->number > 0)) {
		json_u64(j, f->name, f->number);
	}
}

static void format_line(struct buf *out, const struct audit_line *l)
{
	struct field fields[FIELDS];
	struct json j = { out };

	describe(l, fields);
	json_begin(&j, NULL, '{');
	add_time(&j);
	for (size_t i = 0; i < FIELDS; i++) {
		add_field(&j, &fields[i]);
	}
	json_end(&j, '}');
	buf_char(out, '\n');
}

static int write_file(struct audit *a, const struct audit_line *l)
{
	struct buf *line;
	ssize_t n;

	if (!a->wants_file) {
		return 0;
	}
	if (a->fd < 0) {
		return -EBADF;
	}
	line = begin_line(a);
	if (a->torn) {
		buf_char(line, '\n');
	}
	format_line(line, l);
	if (line->failed) {
		return -ENOMEM;
	}
	n = write(a->fd, line->data, line->n);
	if (n >= 0) {
		a->torn = (size_t)n != line->n;
	}
	return n == (ssize_t)line->n ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* --- the journal, or the log --- */

/* Users choose the names in a message. So that no name controls a reader's terminal, and because a
 * journal hides messages with other bytes, a message is nothing but text. */
static void format_message(const struct audit_line *l, char *text, size_t size)
{
	bool foreign = l->owner && *l->owner;
	char what[160] = "", refused[128] = "";

	if (l->job) {
		snprintf(what, sizeof(what), "job %s of ", l->job);
	} else if (l->capture) {
		snprintf(what, sizeof(what), "capture %u of ", l->capture);
	}
	if (l->missed + l->missed_others) {
		snprintf(refused, sizeof(refused),
			 " (%llu refusals before it and %llu of other users are not listed)",
			 (unsigned long long)l->missed, (unsigned long long)l->missed_others);
	}
	snprintf(text, size, "%s: %s%s (uid %u, %s, pid %d)%s%s%s%s%s", events[l->event].text, what,
		 l->user ? l->user : "user", (unsigned)l->uid,
		 l->program && *l->program ? l->program : "unknown program", (int)l->pid,
		 foreign ? ", measures programs of " : "", foreign ? l->owner : "",
		 l->why ? ": " : "", l->why ? l->why : "", refused);
	utf8_replace_unsafe(text);
}

/* The text of an entry, and its fields within the text. */
struct entry {
	struct buf *text;
	size_t begins[FIELDS + 4], n;
};

static void begin_field(struct entry *e)
{
	e->begins[e->n++] = e->text->n;
}

static void begin_entry(struct entry *e, const char *message, const char *id, int level)
{
	begin_field(e);
	buf_printf(e->text, "MESSAGE=%s", message);
	begin_field(e);
	buf_printf(e->text, "MESSAGE_ID=%s", id);
	begin_field(e);
	buf_printf(e->text, "PRIORITY=%d", level);
	begin_field(e);
	buf_text(e->text, "SYSLOG_IDENTIFIER=gpucountd");
}

static void add_entry(struct entry *e, const struct field *f)
{
	begin_field(e);
	buf_text(e->text, "GPUCTR_");
	for (const char *c = f->name; *c; c++) {
		buf_char(e->text, (char)toupper((unsigned char)*c));
	}
	buf_char(e->text, '=');
	if (f->kind == TEXT) {
		buf_text(e->text, f->text ? f->text : "");
	} else if (f->kind != LIST) {
		buf_u64(e->text, f->number);
	}
	for (size_t i = 0; i < f->n; i++) {
		buf_printf(e->text, "%s%s", i ? " " : "", f->list[i]);
	}
}

static int send_entry(const struct entry *e)
{
	struct iovec v[ARRAY_SIZE(e->begins)];

	for (size_t i = 0; i < e->n; i++) {
		size_t end = i + 1 < e->n ? e->begins[i + 1] : e->text->n;

		v[i] = (struct iovec){ e->text->data + e->begins[i], end - e->begins[i] };
	}
	return e->text->failed ? -ENOMEM : sd_journal_sendv(v, (int)e->n);
}

int audit_open_journal(void)
{
	CLEAN_BUF struct buf text = { 0 };
	struct entry e = { .text = &text };

	begin_entry(&e, "gpucountd " GPUCTR_VERSION " starts", "18b379ec275549f29d26e1f25b10ea56",
		    LOG_NOTICE);
	return send_entry(&e);
}

static int write_journal(struct audit *a, const struct audit_line *l, const char *message)
{
	struct entry e = { .text = begin_line(a) };
	struct field fields[FIELDS];

	describe(l, fields);
	begin_entry(&e, message, events[l->event].message_id, events[l->event].level);
	for (size_t i = 0; i < FIELDS; i++) {
		add_entry(&e, &fields[i]);
	}
	return send_entry(&e);
}

static bool takes_refusal(struct audit *a, struct audit_line *l)
{
	struct audit_limit *limit = l->is_stranger ? &a->strangers : &a->users;
	uint64_t now_ns = clock_now_ns();

	if (!rate_take(&limit->each, l->uid, REFUSALS_OF_EACH, now_ns, &l->missed)) {
		return false;
	}
	if (!rate_take_from(&limit->all, REFUSALS_OF_ALL, now_ns, &l->missed_others)) {
		limit->all.missed += l->missed; /* the line with this number is left out too */
		return false;
	}
	l->missed_others += limit->each.forgotten;
	limit->each.forgotten = 0;
	return true;
}

bool audit_takes(struct audit *a, struct audit_line *l)
{
	bool is_refusal =
		(l->event == AUDIT_REFUSED || l->event == AUDIT_PERMISSION_REFUSED) && !l->corrects;

	return !is_refusal || takes_refusal(a, l);
}

/* Without a journal, the text also goes to the log, for people. */
int audit_write(struct audit *a, const struct audit_line *l)
{
	char message[1024];
	int r;

	format_message(l, message, sizeof(message));
	if (a->journal) {
		r = write_journal(a, l, message);
	} else {
		r = write_file(a, l);
		r = r < 0 ? r : log_always(events[l->event].level, "%s", message);
	}
	note_error(a, r);
	return a->error;
}
