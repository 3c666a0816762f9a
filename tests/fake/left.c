/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/left.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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

/* Opened early: a program that shuts itself in opens no file when it exits. High, where a program
 * that closes what it does not know leaves it alone; else it is opened again. */
enum { LOG_NUMBER = 900 };

static struct {
	pthread_once_t once;
	int fd;
	ino_t file;
} log_file = { .once = PTHREAD_ONCE_INIT, .fd = -1 };

static void open_log(void)
{
	const char *folder = getenv("GPUCTR_FAKE_DIR");
	char path[PATH_MAX];
	struct stat st;
	int fd, high;

	snprintf(path, sizeof(path), "%s/left.log", folder ? folder : "");
	fd = folder ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
	if (fd < 0) {
		return;
	}
	(void)fchmod(fd, 0666);
	high = fcntl(fd, F_DUPFD_CLOEXEC, LOG_NUMBER);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	if (fstat(fd, &st) == 0) {
		log_file.file = st.st_ino;
		log_file.fd = fd;
	}
}

static bool log_is_open(void)
{
	struct stat st;

	return log_file.fd >= 0 && fstat(log_file.fd, &st) == 0 && st.st_ino == log_file.file;
}

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

void left_begin(void)
{
	pthread_once(&log_file.once, open_log);
}

void left_count(enum left_kind kind, int number)
{
	left_begin();
	atomic_fetch_add(&numbers[kind], number);
}

__attribute__((destructor)) static void on_unload(void)
{
	char line[128];
	int n;

	for (int i = 0; i < LEFT_KINDS; i++) {
		if (atomic_load(&numbers[i]) == 0) {
			continue;
		}
		if (!log_is_open()) {
			open_log();
		}
		/* Not dprintf(), which allocates: the program may exit in a signal handler. */
		n = snprintf(line, sizeof(line), "%d %s %d\n", (int)getpid(), names[i],
			     atomic_load(&numbers[i]));
		if (write(log_file.fd, line, (size_t)n) != n) {
			break;
		}
	}
}
