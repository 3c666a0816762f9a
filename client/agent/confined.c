/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/connection.h"
#include "client/agent/lock.h"

/* Linux tells of each thread in /proc how many filters it has. The file is opened early and kept
 * open, because the next filter may forbid opening files. If the program has closed the descriptor,
 * and perhaps opened a file of its own at that number, the file is opened again. */

enum { STATUS_BYTES = 16384, UNKNOWN = -2 }; /* lists of groups and processors make the file long */

static struct {
	struct lock lock;
	bool begun;
	pid_t thread;
	int fd;
	dev_t device;
	ino_t file;
	struct filters first;
} confined = { .lock = LOCK_INITIALIZER(LOCK_LEAF), .fd = -1 };

static bool is_ours(void)
{
	struct stat st;

	return confined.fd >= 0 && fstat(confined.fd, &st) == 0 && st.st_dev == confined.device &&
	       st.st_ino == confined.file;
}

static void open_status(void)
{
	char path[64];
	struct stat st;
	int fd, high;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)confined.thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	high = fcntl(fd, F_DUPFD_CLOEXEC, connection_high_number());
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fstat(fd, &st) < 0) {
		close(fd);
		return;
	}
	confined.fd = fd;
	confined.device = st.st_dev;
	confined.file = st.st_ino;
}

static int number_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	int n = UNKNOWN;

	if (at) {
		sscanf(at + strlen(name), "%d", &n);
	}
	return n;
}

static struct filters parse(int fd)
{
	char text[STATUS_BYTES];
	struct filters f = { UNKNOWN, UNKNOWN };
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (n > 0) {
		text[n] = '\0';
		f.mode = number_of(text, "\nSeccomp:");
		f.n = number_of(text, "\nSeccomp_filters:");
	}
	return f;
}

static struct filters read_filters(void)
{
	if (!is_ours()) {
		confined.fd = -1;
		open_status();
	}
	return parse(confined.fd);
}

struct filters filters_of_thread(void)
{
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	struct filters f = parse(fd);

	if (fd >= 0) {
		close(fd);
	}
	return f;
}

/* If the number of filters was unknown at first, nobody can tell whether one was added. */
bool filters_differ(struct filters first, struct filters now)
{
	return first.mode != UNKNOWN && (now.mode != first.mode || now.n != first.n);
}

void confined_begin(void)
{
	LOCK_SCOPE(&confined.lock);
	if (!confined.begun) {
		confined.begun = true;
		confined.thread = (pid_t)syscall(SYS_gettid);
		confined.first = read_filters();
	}
}

bool confined_is(void)
{
	LOCK_SCOPE(&confined.lock);
	return confined.begun && filters_differ(confined.first, read_filters());
}

void confined_refusal(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_PROFILER,
		    "Load the filter before cuInit(), or in single threads, without "
		    "SECCOMP_FILTER_FLAG_TSYNC.",
		    "the program has shut its threads in with a seccomp filter after cuInit(), "
		    "which may kill whoever asks the daemon: the agent does not ask, and kernels "
		    "run on unmeasured");
}

void confined_leave_to_parent(void)
{
	if (is_ours()) {
		close(confined.fd);
	}
	confined.fd = -1;
}
