/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/outside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/trust.h"
#include "daemon/doctor/ask.h"
#include "daemon/doctor/running.h"

/* --- the processes --- */

static void tell_capabilities(const struct running *d, struct finding_sink *sink)
{
	const struct running_worker *w = d->workers;
	bool kept = w[RUNNING_GRANTER].has_perfmon && w[RUNNING_GPU].has_perfmon;

	for (int i = 0; i < RUNNING_WORKERS; i++) {
		if (w[i].has_others ||
		    (w[i].has_perfmon && i != RUNNING_GRANTER && i != RUNNING_GPU)) {
			finding_tell(sink, FINDING_FAULT, "capability",
				     "Restart it by its systemd unit, and see its log.",
				     "%s (pid %d) has a capability that it must not have",
				     running_names[i], (int)w[i].pid);
			return;
		}
	}
	if (kept) {
		finding_tell(
			sink, FINDING_OK, "capability", "",
			"granter and gpu have CAP_PERFMON and nothing else, the others nothing");
	} else {
		finding_tell(sink, FINDING_WARNING, "capability",
			     "Start it by systemd or as root: it keeps that one and leaves root.",
			     "it runs without CAP_PERFMON: a driver that restricts counters "
			     "refuses it");
	}
}

static void tell_filters(const struct running *d, struct finding_sink *sink)
{
	for (int i = 0; i < RUNNING_WORKERS; i++) {
		if (!d->workers[i].is_filtered) {
			finding_tell(sink, FINDING_FAULT, "seccomp",
				     "Use a build without sanitizers.",
				     "%s (pid %d) runs without a filter of system calls",
				     running_names[i], (int)d->workers[i].pid);
			return;
		}
	}
	finding_tell(sink, FINDING_OK, "seccomp", "", "each worker has its filter");
}

static void tell_running(const struct running *d, struct finding_sink *sink)
{
	for (int i = 0; i < RUNNING_WORKERS; i++) {
		if (d->workers[i].pid == 0) {
			finding_tell(sink, FINDING_FAULT, "daemon",
				     "See `journalctl -u gpucountd`: it says why.",
				     "it runs (pid %d) without its %s", (int)d->pid,
				     running_names[i]);
			return;
		}
	}
	finding_tell(sink, FINDING_OK, "daemon", "", "it runs, pid %d, with its four workers",
		     (int)d->pid);
	tell_capabilities(d, sink);
	tell_filters(d, sink);
}

/* --- the socket --- */

static bool is_ours(uid_t owner, const struct running *d)
{
	return owner == 0 || owner == geteuid() || (d->pid != 0 && owner == d->uid);
}

static void tell_socket(const char *path, const struct stat *st, const struct running *d,
			struct finding_sink *sink)
{
	if (!S_ISSOCK(st->st_mode)) {
		finding_tell(sink, FINDING_FAULT, "socket", "Move it away and restart the daemon.",
			     "%s is not a socket", path);
	} else if (!is_ours(st->st_uid, d)) {
		finding_tell(sink, FINDING_FAULT, "socket",
			     "Find out whose it is, remove it and restart the daemon.",
			     "%s belongs to uid %u, which is neither root nor the daemon", path,
			     (unsigned)st->st_uid);
	} else if ((st->st_mode & 0666) != 0666) {
		finding_tell(sink, FINDING_WARNING, "socket",
			     "SocketMode=0666 lets everybody connect, and the settings decide.",
			     "%s has mode %o: whom it keeps out hears no reason", path,
			     st->st_mode & 0777u);
	} else {
		finding_tell(sink, FINDING_OK, "socket", "", "%s, of uid %u", path,
			     (unsigned)st->st_uid);
	}
}

static void look_at_folder(const char *path, const struct running *d, struct finding_sink *sink)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX], error[PATH_MAX + 160];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	if (trust_check_folder(folder, d->pid != 0 ? d->uid : geteuid(), NULL, error,
			       sizeof(error)) < 0) {
		finding_tell(sink, FINDING_FAULT, "socket",
			     "Give it a folder that only root can change.", "%.600s", error);
	}
}

static void look_at_socket(const char *path, const struct running *d, struct finding_sink *sink)
{
	struct stat st;

	if (lstat(path, &st) == 0) {
		look_at_folder(path, d, sink);
		tell_socket(path, &st, d, sink);
	} else if (errno == ENOENT && d->pid == 0) {
		finding_tell(sink, FINDING_WARNING, "socket",
			     "`systemctl enable --now gpucountd.socket` makes it at every start.",
			     "%s is not there: nobody can connect", path);
	} else {
		finding_tell(sink, FINDING_FAULT, "socket",
			     "Name the one that the daemon listens at by --socket, or restart it.",
			     "%s: %s", path, strerror(errno));
	}
}

/* --- what the daemon answers --- */

static enum ask_result look_at_answer(const char *path, struct finding_sink *sink)
{
	struct ask_answer a;
	enum ask_result result = ask_daemon(path, &a);

	switch (result) {
	case ASK_WELL:
		finding_tell(sink, FINDING_OK, "answer", "", "it says that all is well");
		break;
	case ASK_TROUBLED:
		finding_tell(sink, FINDING_FAULT, "answer", a.remedy, "%s", a.message);
		break;
	case ASK_REFUSED:
		finding_tell(sink, FINDING_WARNING, "answer", "Run this as root.",
			     "it does not answer this user: %s", a.message);
		break;
	case ASK_SILENT:
		finding_tell(sink, FINDING_FAULT, "answer",
			     "See `journalctl -u gpucountd`; restart it if it says nothing.",
			     "it does not answer at %s: %s", path, a.message);
		break;
	}
	return result;
}

struct outside_result outside_look(const struct config *config, struct finding_sink *sink)
{
	pid_t listener = running_is_any() ? ask_listener(config->socket) : 0;
	struct outside_result result = { false, false };
	struct running d = { 0 };

	if (listener != 0) {
		running_find(listener, &d);
	}
	if (d.pid == 0) {
		finding_tell(sink, FINDING_OK, "daemon", "",
			     "none runs at this socket: under systemd the first connection starts "
			     "it");
	} else {
		tell_running(&d, sink);
	}
	look_at_socket(config->socket, &d, sink);
	if (d.pid != 0) {
		result.runs = true;
		result.is_well = look_at_answer(config->socket, sink) == ASK_WELL;
	}
	return result;
}
