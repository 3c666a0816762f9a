/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/utf8.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5; Debian 12's headers are older */
#endif

/* The first line of /proc/PID/status that begins with key; -ENOENT also when the process has just
 * ended. */
static int read_status(pid_t pid, const char *key, char *text, int size)
{
	CLEAN_FILE FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f) {
		return -errno;
	}
	while (fgets(text, size, f)) {
		if (strncmp(text, key, strlen(key)) == 0) {
			return 0;
		}
	}
	return -ENOENT;
}

int proc_read_uid(pid_t pid, uid_t *ret)
{
	char text[128];
	int r = read_status(pid, "Uid:", text, sizeof(text));

	return r < 0 || sscanf(text, "Uid: %u", ret) == 1 ? r : -EIO;
}

uint64_t proc_read_begin(pid_t pid)
{
	CLEAN_FILE FILE *f = NULL;
	char path[64], text[1024];
	unsigned long long begin = 0;
	const char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	/* The name in parentheses may contain any character, even a parenthesis. */
	name_end = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	if (!name_end || sscanf(name_end + 1,
				" %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
				"%*d %*d %*d %llu",
				&begin) != 1) {
		return 0;
	}
	return begin;
}

/* A line is "hierarchy:controllers:path", and neither of the first two has a colon. */
static const char *path_of_cgroup(char *line)
{
	char *path = strchr(line, ':');

	line[strcspn(line, "\n")] = '\0';
	path = path ? strchr(path + 1, ':') : NULL;
	return path ? path + 1 : "";
}

void proc_read_cgroup(pid_t pid, char *text, size_t size)
{
	CLEAN_FILE FILE *f = NULL;
	char path[64], line[4096 + 256];

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *cgroup = path_of_cgroup(line);

		if (strlen(cgroup) > strlen(text)) {
			snprintf(text, size, "%s", cgroup);
		}
	}
	utf8_repair(text);
}

static bool has_ended(int pidfd)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	return poll(&p, 1, 0) != 0;
}

static bool read_uid_map(const char *path, char text[64])
{
	CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, 63);

	text[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* The two processes are in one user namespace if their uid maps are equal. Our map does not change
 * while this process lives. */
static bool has_our_users(pid_t pid)
{
	static char ours[64];
	char path[64], theirs[64];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	return (ours[0] != '\0' || read_uid_map("/proc/self/uid_map", ours)) &&
	       read_uid_map(path, theirs) && strcmp(theirs, ours) == 0;
}

/* NSpid lists the process's number in each pid namespace, from ours down to its own. */
bool proc_peer_is_of_this_host(int socket, pid_t pid)
{
	CLEAN_FD int pidfd = -1;
	socklen_t n = sizeof(pidfd);
	char text[256];
	int number, more;

	/* A reaped peer has no pidfd; its pid may belong to another process now. */
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) < 0 && errno != ENOPROTOOPT) {
		return false;
	}
	return read_status(pid, "NSpid:", text, sizeof(text)) == 0 &&
	       sscanf(text, "NSpid: %d %d", &number, &more) == 1 && has_our_users(pid) &&
	       (pidfd < 0 || !has_ended(pidfd));
}

bool proc_shows_others(void)
{
	struct stat st;

	return stat("/proc/1", &st) == 0;
}
