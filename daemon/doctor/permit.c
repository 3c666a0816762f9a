/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/permit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/config/names.h"
#include "daemon/doctor/probe.h"
#include "proto/base/clean.h"

enum { REFUSED = 125, NOT_STARTED = 127 };

static const char what[] = "permit";

static int become(uid_t uid)
{
	const struct passwd *p = getpwuid(uid);
	gid_t gid = p ? p->pw_gid : (gid_t)uid; /* a number alone, as containers have them */
	int r = p ? initgroups(p->pw_name, gid) : setgroups(0, NULL);

	return r < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ? -errno : 0;
}

/* The driver refuses root nothing, so a try as root would prove nothing. */
static bool become_caller(struct finding_sink *sink)
{
	const char *number = getenv("SUDO_UID");
	uint32_t uid = 0;
	int r;

	if (geteuid() != 0) {
		return true;
	}
	if (!number || !names_parse_id(number, &uid) || uid == 0) {
		finding_tell(sink, FINDING_WARNING, what,
			     "Run this as a user who may measure, or by sudo from such a user.",
			     "not tried: the driver refuses nothing to root");
		return false;
	}
	r = become(uid);
	if (r < 0) {
		finding_tell(sink, FINDING_WARNING, what, "",
			     "not tried: cannot become user %u: %s", (unsigned)uid, strerror(-r));
	}
	return r == 0;
}

static _Noreturn void run_client(const char *socket, int output)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execlp("gpuctr-client", "gpuctr-client", "permit", "--no-wait", "--socket", socket, "--",
	       self, "--doctor-probe", (char *)NULL);
	_exit(NOT_STARTED);
}

static void read_all(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, text + n, size - 1 - n)) > 0 || (got < 0 && errno == EINTR)) {
		n += got > 0 ? (size_t)got : 0;
		if (n == size - 1) {
			break;
		}
	}
	text[n] = '\0';
}

/* The rest of the line that holds begin, from behind it; "": there is none. */
static void find_line(const char *text, const char *begin, char *ret, size_t size)
{
	const char *at = strstr(text, begin);

	at = at ? at + strlen(begin) : "";
	snprintf(ret, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void judge(struct finding_sink *sink, int status, const char *text)
{
	char remedy[512], says[512], failed[512];
	int exit_status = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	find_line(text, "remedy: ", remedy, sizeof(remedy));
	find_line(text, "gpuctr-client: ", says, sizeof(says));
	find_line(text, PROBE_SAYS, failed, sizeof(failed));
	switch (exit_status) {
	case 0:
		finding_tell(sink, FINDING_OK, what, "",
			     "a profiler that user %u starts is given the counters",
			     (unsigned)geteuid());
		break;
	case NOT_STARTED:
		finding_tell(sink, FINDING_WARNING, what, "Install gpuctr-client.",
			     "not tried: gpuctr-client is not in PATH");
		break;
	case REFUSED:
		/* The client's remedy is to leave out --no-wait, which the doctor gave it. */
		finding_tell(sink, FINDING_WARNING, what,
			     strstr(says, "[gpu-busy]") ? "Run this again when they are free."
							: remedy,
			     "user %u gets none now: %s", (unsigned)geteuid(), says);
		break;
	case PROBE_REFUSED:
		finding_tell(sink, FINDING_FAULT, what,
			     remedy[0] ? remedy : "See the daemon's log for the same time.",
			     "a permit was given, and a profiler under it has no counters: %s",
			     failed);
		break;
	default:
		finding_tell(sink, FINDING_WARNING, what,
			     remedy[0] ? remedy : "Run gpuctr-client permit -- true by hand.",
			     "not tried: gpuctr-client ended with wait status %d: %s", status,
			     says);
	}
}

void permit_try(struct finding_sink *sink, void *userdata)
{
	const struct doctor_case *c = userdata;
	char text[2048];
	int ends[2], status = -1;
	pid_t pid;

	if (!become_caller(sink)) {
		return;
	}
	finding_tell(sink, FINDING_STEP, what, "", "%s", "");
	pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
	if (pid < 0) {
		finding_tell(sink, FINDING_WARNING, what, "Free some memory and run it again.",
			     "not tried: there can be no process for it: %s", strerror(errno));
		return;
	}
	if (pid == 0) {
		run_client(c->config->socket, ends[1]);
	}
	close(ends[1]);
	read_all(ends[0], text, sizeof(text));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	judge(sink, status, text);
}
