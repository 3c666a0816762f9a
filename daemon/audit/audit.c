/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/audit/journal.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/base/utf8.h"
#include "daemon/base/log.h"
#include "proto/wire/status.h"

/* A line is one write(2) to a file opened for appending, so that lines never mix and a reader sees
 * whole ones. It is written synchronously because a grant waits for it. */

enum {
	REFUSALS_OF_EACH = 60,
	REFUSALS_OF_UNADMITTED = 120,
	REFUSALS_OF_OTHERS = 600
}; /* a minute
    */

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
	[AUDIT_LEASE_RENEWED] = { "lease-renewed", "lease renewed", LOG_INFO,
				  "0ac1c97966f94090bf0b63cbd04cfcfd" },
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
	/* A file that could not be opened is logged now, before it makes the first refusal. Any
	 * other error is over with the next line that can be written. */
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

static void add_optional(struct json *j, const char *key, const char *value)
{
	if (value && *value) {
		json_text(j, key, value);
	}
}

static void add_count(struct json *j, const char *key, uint64_t value)
{
	if (value) {
		json_u64(j, key, value);
	}
}

static void add_list(struct json *j, const char *key, const char *const *values, size_t n)
{
	if (n) {
		json_texts(j, key, values, n);
	}
}

static void format_line(struct buf *out, const struct audit_line *l)
{
	struct json j = { out };

	json_begin(&j, NULL, '{');
	add_time(&j);
	json_text(&j, "event", events[l->event].name);
	json_u64(&j, "uid", l->uid);
	add_optional(&j, "user", l->user);
	json_u64(&j, "pid", (uint64_t)l->pid);
	add_optional(&j, "program", l->program);
	add_optional(&j, "owner", l->owner);
	add_count(&j, "capture", l->capture);
	add_list(&j, "gpus", l->gpus, l->n_gpus);
	add_list(&j, "metrics", l->metrics, l->n_metrics);
	add_optional(&j, "job", l->job);
	json_text(&j, "status", status_to_string(l->code));
	add_count(&j, "driver_status", l->driver_status);
	add_optional(&j, "why", l->why);
	add_count(&j, "refused_before", l->missed);
	add_count(&j, "others_refused_before", l->missed_others);
	json_end(&j, '}');
	buf_char(out, '\n');
}

static int write_file(struct audit *a, const struct audit_line *l)
{
	struct buf *line = &a->line;
	ssize_t n;

	if (!a->wants_file) {
		return 0;
	}
	if (a->fd < 0) {
		return -EBADF;
	}
	buf_clear(line);
	line->failed = false;
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

/* --- the log --- */

/* Joins the elements of the list that fit. */
static void join(char *text, size_t size, const char *const *v, size_t n)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n && used < size; i++) {
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", v[i]);
	}
}

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

static int write_journal(const struct audit_line *l, const char *message)
{
	struct journal_entry e;
	char list[3072];

	journal_begin(&e);
	journal_add(&e, "MESSAGE=%s", message);
	journal_add(&e, "MESSAGE_ID=%s", events[l->event].message_id);
	journal_add(&e, "PRIORITY=%d", events[l->event].level);
	journal_add(&e, "SYSLOG_IDENTIFIER=gpucountd");
	journal_add(&e, "GPUCTR_EVENT=%s", events[l->event].name);
	journal_add(&e, "GPUCTR_UID=%u", (unsigned)l->uid);
	journal_add(&e, "GPUCTR_USER=%s", l->user ? l->user : "");
	journal_add(&e, "GPUCTR_OWNER=%s", l->owner ? l->owner : "");
	journal_add(&e, "GPUCTR_PID=%d", (int)l->pid);
	journal_add(&e, "GPUCTR_PROGRAM=%s", l->program ? l->program : "");
	journal_add(&e, "GPUCTR_STATUS=%s", status_to_string(l->code));
	journal_add(&e, "GPUCTR_CAPTURE=%u", l->capture);
	journal_add(&e, "GPUCTR_JOB=%s", l->job ? l->job : "");
	join(list, sizeof(list), l->gpus, l->n_gpus);
	journal_add(&e, "GPUCTR_GPUS=%s", list);
	join(list, sizeof(list), l->metrics, l->n_metrics);
	journal_add(&e, "GPUCTR_METRICS=%s", list);
	return journal_send(&e);
}

static int write_log(const struct audit_line *l)
{
	char message[1024];

	format_message(l, message, sizeof(message));
	if (journal_is_used()) {
		return write_journal(l, message);
	}
	return log_always(events[l->event].level, "%s", message);
}

static bool takes_refusal(struct audit_refusals *r, unsigned of_all, struct audit_line *l)
{
	uint64_t now_ns = clock_now_ns();

	if (!rate_take(&r->each, l->uid, REFUSALS_OF_EACH, now_ns, &l->missed)) {
		return false;
	}
	if (!rate_take_from(&r->all, of_all, now_ns, &l->missed_others)) {
		r->all.missed += l->missed; /* this line would have reported the loss */
		return false;
	}
	l->missed_others += r->each.forgotten;
	r->each.forgotten = 0;
	return true;
}

bool audit_takes(struct audit *a, struct audit_line *l)
{
	bool is_refusal =
		(l->event == AUDIT_REFUSED || l->event == AUDIT_PERMISSION_REFUSED) && !l->corrects;

	if (!is_refusal) {
		return true;
	}
	return l->unadmitted ? takes_refusal(&a->unadmitted, REFUSALS_OF_UNADMITTED, l)
			     : takes_refusal(&a->others, REFUSALS_OF_OTHERS, l);
}

int audit_write(struct audit *a, const struct audit_line *l)
{
	int r = write_file(a, l);

	note_error(a, r < 0 ? r : write_log(l));
	return a->error;
}
