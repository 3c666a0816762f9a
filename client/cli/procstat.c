/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/procstat.h"

#include <stdio.h>
#include <string.h>

/* PF_EXITING of the kernel's include/linux/sched.h, to which proc(5) refers. */
enum { EXITING = 0x4 };

bool procstat_read(pid_t pid, struct procstat *ret)
{
	char path[32], line[512];
	const char *begin, *end;
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
	begin = fgets(line, sizeof(line), f) ? strchr(line, '(') : NULL;
	end = begin ? strrchr(begin, ')') : NULL;
	good = end &&
	       sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &ret->state, &parent, &flags) == 3;
	snprintf(ret->name, sizeof(ret->name), "%.*s", good ? (int)(end - begin - 1) : 0,
		 good ? begin + 1 : "");
	ret->parent = parent;
	ret->exiting = good && (ret->state == 'Z' || ret->state == 'X' || (flags & EXITING) != 0);
	fclose(f);
	return good;
}

bool procstat_is_stopped(const struct procstat *s)
{
	return s->state == 'T' || s->state == 't';
}
