/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* A finding is shorter than what a pipe takes in one piece, so each arrives whole. */

struct writer {
	struct finding_sink sink;
	int fd;
};

static void write_finding(struct finding_sink *sink, const struct finding *f)
{
	if (write(((struct writer *)sink)->fd, f, sizeof(*f)) != (ssize_t)sizeof(*f)) {
		_exit(1);
	}
}

/* 1: *ret is set; 0: the other end is closed; -ETIMEDOUT. */
static int read_finding(int fd, uint64_t by_ns, struct finding *ret)
{
	struct pollfd p = { fd, POLLIN, 0 };
	uint64_t now_ns = clock_now_ns();
	int ms = now_ns < by_ns ? (int)((by_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;

	if (poll(&p, 1, ms) <= 0) {
		return -ETIMEDOUT;
	}
	if (read(fd, ret, sizeof(*ret)) != (ssize_t)sizeof(*ret)) {
		return 0;
	}
	ret->what[sizeof(ret->what) - 1] = '\0';
	ret->text[sizeof(ret->text) - 1] = '\0';
	ret->remedy[sizeof(ret->remedy) - 1] = '\0';
	return ret->grade <= FINDING_STEP ? 1 : 0;
}

static void pass_on(struct finding_sink *sink, pid_t pid, int fd)
{
	static const char remedy[] =
		"See `dmesg` and `nvidia-smi`; when they show nothing, reinstall the driver.";
	uint64_t by_ns = clock_now_ns() + APART_PATIENCE_MS * CLOCK_NS_PER_MS;
	struct finding f, step = { .what = "start" };
	int r, status;

	while ((r = read_finding(fd, by_ns, &f)) == 1) {
		if (f.grade == FINDING_STEP) {
			step = f;
		} else {
			sink->take(sink, &f);
		}
	}
	if (r < 0) {
		kill(pid, SIGKILL);
		finding_tell(sink, FINDING_FAULT, step.what, remedy,
			     "looking at it did not end within %d s", APART_PATIENCE_MS / 1000);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (r == 0 && WIFSIGNALED(status)) {
		finding_tell(sink, FINDING_FAULT, step.what, remedy,
			     "looking at it ended by signal %d (%s)", WTERMSIG(status),
			     strsignal(WTERMSIG(status)));
	} else if (r == 0 && WEXITSTATUS(status) != 0) {
		finding_tell(sink, FINDING_FAULT, step.what, remedy,
			     "looking at it ended with status %d", WEXITSTATUS(status));
	}
}

void apart_run(struct finding_sink *sink, void (*look)(struct finding_sink *sink, void *userdata),
	       void *userdata)
{
	int pair[2] = { -1, -1 };
	pid_t pid = pipe2(pair, O_CLOEXEC) < 0 ? -1 : fork();

	if (pid == 0) {
		struct writer w = { { write_finding }, pair[1] };

		close(pair[0]);
		look(&w.sink, userdata);
		_exit(0);
	}
	if (pid < 0) {
		finding_tell(sink, FINDING_FAULT, "start", "Free some memory and run it again.",
			     "there can be no process for the rest: %s", strerror(errno));
	}
	if (pair[1] >= 0) {
		close(pair[1]);
	}
	if (pid > 0) {
		pass_on(sink, pid, pair[0]);
	}
	if (pair[0] >= 0) {
		close(pair[0]);
	}
}
