/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/procstat.h"

#include <stdio.h>
#include <string.h>

/* PF_EXITING of the kernel's include/linux/sched.h, where proc(5) refers to. */
enum { EXITING = 0x4 };

bool procstat_read(pid_t pid, struct procstat *ret)
{
	char path[32], line[512];
	const char *end;
	unsigned flags = 0;
	int parent = 0;
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f) {
		return false;
	}
	/* The name in parentheses may hold anything, a parenthesis too. */
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	good = end &&
	       sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &ret->state, &parent, &flags) == 3;
	ret->parent = parent;
	ret->exiting = good && (ret->state == 'Z' || ret->state == 'X' || (flags & EXITING) != 0);
	fclose(f);
	return good;
}

bool procstat_is_stopped(const struct procstat *s)
{
	return s->state == 'T' || s->state == 't';
}
