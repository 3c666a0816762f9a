/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/clean.h"

/* The first line of /proc/PID/status that begins with key, or false. */
static bool read_status(pid_t pid, const char *key, char *text, int size)
{
	CLEAN_FILE FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(text, size, f)) {
		if (strncmp(text, key, strlen(key)) == 0) {
			return true;
		}
	}
	return false;
}

bool proc_read_uid(pid_t pid, uid_t *ret)
{
	char text[128];

	return read_status(pid, "Uid:", text, sizeof(text)) && sscanf(text, "Uid: %u", ret) == 1;
}

/* NSpid has its number in each namespace from ours down to its own. */
bool proc_is_of_this_machine(pid_t pid)
{
	char text[256];
	int number, more;

	return read_status(pid, "NSpid:", text, sizeof(text)) &&
	       sscanf(text, "NSpid: %d %d", &number, &more) == 1;
}

bool proc_shows_others(void)
{
	struct stat st;

	return stat("/proc/1", &st) == 0;
}
