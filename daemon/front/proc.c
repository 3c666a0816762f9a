/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/proc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/clean.h"

/* The first line of /proc/PID/status that begins with key; -ENOENT also when it ended meanwhile. */
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

/* NSpid has its number in each namespace from ours down to its own. */
bool proc_is_of_this_machine(pid_t pid)
{
	char text[256];
	int number, more;

	return read_status(pid, "NSpid:", text, sizeof(text)) == 0 &&
	       sscanf(text, "NSpid: %d %d", &number, &more) == 1;
}

bool proc_shows_others(void)
{
	struct stat st;

	return stat("/proc/1", &st) == 0;
}
