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
#include "client/agent/courier.h"
#include "client/agent/descriptor.h"
#include "client/agent/lock.h"
#include "proto/base/clock.h"

/* /proc has the number of filters of each thread. The file is opened early and kept open, because
 * the next filter may forbid opening files. If the program has closed the descriptor, and perhaps
 * opened a file of its own under that number, the file is opened again. */

enum { SEND_TIMEOUT_S = 5 };

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
	high = fcntl(fd, F_DUPFD_CLOEXEC, descriptor_high_number());
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

static struct filters read_filters(void)
{
	char text[FILTERS_STATUS_BYTES];
	ssize_t n;

	if (!is_ours()) {
		confined.fd = -1;
		open_status();
	}
	n = confined.fd < 0 ? -1 : pread(confined.fd, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	return filters_parse(text);
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
	if (courier_is_there()) {
		return courier_look();
	}
	LOCK_SCOPE(&confined.lock);
	return confined.begun && filters_differ(confined.first, read_filters());
}

bool confined_is_caller(void)
{
	return courier_is_there() ? courier_look_at_caller() : confined_is();
}

void confined_refusal(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_PROFILER,
		    "Load the filter before cuInit(): then the agent tries first, in another "
		    "process, whether it lets it work; see docs/troubleshooting.md.",
		    "the program has loaded a seccomp filter after cuInit(), which may kill "
		    "whoever makes a call that it forbids: the agent makes none, and kernels run "
		    "on unmeasured");
}

void confined_decline(struct connection *l, const struct wire_message *welcome)
{
	struct wire_message notice = { .type = WIRE_NOTICE }, bye = { .type = WIRE_GOODBYE };
	struct refusal why;

	confined_refusal(&why);
	notice.notice = (struct wire_notice){
		.capture = welcome->agent_welcome.capture,
		.process = welcome->agent_welcome.process,
		.code = (uint32_t)why.code,
		.message = why.message,
		.remedy = why.remedy,
	};
	connection_send(l, &notice, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
	connection_send(l, &bye, -1, SEND_TIMEOUT_S * CLOCK_NS_PER_S);
}

void confined_leave_to_parent(void)
{
	if (is_ours()) {
		close(confined.fd);
	}
	confined.fd = -1;
}
