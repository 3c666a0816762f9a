/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/filters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { UNKNOWN = -2 };

static int number_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	int n = UNKNOWN;

	if (at) {
		sscanf(at + strlen(name), "%d", &n);
	}
	return n;
}

struct filters filters_parse(const char *text)
{
	return (struct filters){ number_of(text, "\nSeccomp:"),
				 number_of(text, "\nSeccomp_filters:") };
}

static const struct filters unknown = { UNKNOWN, UNKNOWN };

/* Makes only system calls that the dynamic linker has made to load us: open, read, close. */
static int read_file(const char *path, char text[FILTERS_STATUS_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		return -errno;
	}
	n = read(fd, text, FILTERS_STATUS_BYTES - 1);
	n = n < 0 ? -errno : n;
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? (int)n : 0;
}

struct filters filters_of_thread(void)
{
	char text[FILTERS_STATUS_BYTES];

	return read_file("/proc/thread-self/status", text) == 0 ? filters_parse(text) : unknown;
}

bool filters_are_known(struct filters f)
{
	return f.mode != UNKNOWN;
}

int filters_of_task(pid_t process, pid_t thread, struct filters *ret, uid_t *ret_uid)
{
	char path[64], text[FILTERS_STATUS_BYTES];
	const char *uid;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)process, (int)thread);
	r = read_file(path, text);
	if (r < 0) {
		return r == -ESRCH ? -ENOENT : r;
	}
	*ret = filters_parse(text);
	if (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX")) {
		return -ENOENT;
	}
	uid = strstr(text, "\nUid:");
	return uid && sscanf(uid + 5, "%*u %u", ret_uid) == 1 ? 0 : -EIO;
}

/* If the filters were unknown at first, an added one cannot be noticed. */
bool filters_differ(struct filters first, struct filters now)
{
	return first.mode != UNKNOWN && (now.mode != first.mode || now.n != first.n);
}
