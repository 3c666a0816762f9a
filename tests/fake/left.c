/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/left.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[LEFT_KINDS] = {
	[LEFT_HOOKS] = "hooks",		  [LEFT_PROFILERS] = "profilers",
	[LEFT_HOSTS] = "hosts",		  [LEFT_SUBSCRIBERS] = "subscribers",
	[LEFT_ACTIVITIES] = "activities", [LEFT_BUFFERS] = "buffers",
	[LEFT_SAMPLERS] = "samplers",	  [LEFT_EVENTS] = "events",
};

static _Atomic int numbers[LEFT_KINDS];

static void on_fork_in_child(void)
{
	for (int i = 0; i < LEFT_KINDS; i++) {
		atomic_store(&numbers[i], 0);
	}
}

__attribute__((constructor)) static void on_load(void)
{
	pthread_atfork(NULL, NULL, on_fork_in_child);
}

void left_count(enum left_kind kind, int number)
{
	atomic_fetch_add(&numbers[kind], number);
}

__attribute__((destructor)) static void on_unload(void)
{
	const char *folder = getenv("GPUCTR_FAKE_DIR");
	char path[PATH_MAX], line[128];
	int fd = -1, n;

	for (int i = 0; folder && i < LEFT_KINDS; i++) {
		if (atomic_load(&numbers[i]) == 0) {
			continue;
		}
		if (fd < 0) {
			snprintf(path, sizeof(path), "%s/left.log", folder);
			fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
			(void)fchmod(fd, 0666);
		}
		/* Not dprintf(), which allocates: the program may exit in a signal handler. */
		n = snprintf(line, sizeof(line), "%d %s %d\n", (int)getpid(), names[i],
			     atomic_load(&numbers[i]));
		if (write(fd, line, (size_t)n) != n) {
			break;
		}
	}
	if (fd >= 0) {
		close(fd);
	}
}
