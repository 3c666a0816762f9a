/* SPDX-License-Identifier: Apache-2.0 */
/* Shared state of the fakes.
 *
 * Two files in $GPUCTR_FAKE_DIR are mapped shared: "state" (struct fake_state) and "ioctl.log"
 * (text, then zeros up to its fixed size). The first process makes "state" under another name and
 * links it into place, so nobody ever sees it half made. A process that is killed while it holds
 * the lock leaves it to the next one: the mutex is robust, and every change under it is small
 * enough to be repeated or lost.
 *
 * A process may be under seccomp when it comes here: after the constructor nothing but
 * fake_violation(), the liveness checks and a contended lock (futex) makes a system call. */

#include "tests/fake/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAGIC UINT64_C(0x67707566616b6531)

static struct fake_state *state;
static char *log_text;
static char directory[PATH_MAX];

static const struct {
	const char *name;
	size_t offset;
	bool counts_down; /* its file is out of date at once, so it is not read */
} knobs[] = {
	{ "ioctl_delay_ms", offsetof(struct fake_state, ioctl_delay_ms) },
	{ "ioctl_hang", offsetof(struct fake_state, ioctl_hang) },
	{ "ioctl_errno", offsetof(struct fake_state, ioctl_errno) },
	{ "rm_status", offsetof(struct fake_state, rm_status) },
	{ "strict_handles", offsetof(struct fake_state, strict_handles) },
	{ "nvml_auto", offsetof(struct fake_state, nvml_auto) },
	{ "nvml_fail", offsetof(struct fake_state, nvml_fail) },
	{ "gpus", offsetof(struct fake_state, gpus) },
	{ "sampling_fail", offsetof(struct fake_state, sampling_fail) },
	{ "fail_in", offsetof(struct fake_state, fail_in) },
	{ "fail_malloc", offsetof(struct fake_state, fail_malloc), true },
	{ "fail_call", offsetof(struct fake_state, fail_call), true },
	{ "fail_errno", offsetof(struct fake_state, fail_errno) },
};

_Atomic int32_t *fake_knob(struct fake_state *st, const char *name)
{
	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++) {
		if (strcmp(knobs[i].name, name) == 0) {
			return (_Atomic int32_t *)((char *)st + knobs[i].offset);
		}
	}
	return NULL;
}

/* Reads the files that tests write before a process starts; `fakectl set` also changes running
 * processes. */
static void read_knob_files(struct fake_state *st)
{
	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++) {
		char path[PATH_MAX + 32];
		char text[32] = "";
		int fd;

		snprintf(path, sizeof(path), "%s/%s", directory, knobs[i].name);
		fd = knobs[i].counts_down ? -1 : open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			continue;
		}
		if (read(fd, text, sizeof(text) - 1) > 0) {
			*fake_knob(st, knobs[i].name) = (int32_t)strtol(text, NULL, 0);
		}
		close(fd);
	}
}

static void state_init(struct fake_state *st, uint64_t log_bytes)
{
	pthread_mutexattr_t attr;

	st->log_bytes = log_bytes;
	st->next_handle = 0xcaf00000;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&st->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	st->magic = STATE_MAGIC;
}

static void *map_file(const char *path, size_t bytes)
{
	struct stat info;
	void *map;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		return NULL;
	}
	if (fstat(fd, &info) != 0 || info.st_size < (off_t)bytes) {
		close(fd);
		return NULL;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/* Makes a file that processes of other users can write to later. */
static int make_file(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0) {
		return -errno;
	}
	(void)fchmod(fd, 0666);
	if (ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		return -EIO;
	}
	return close(fd) == 0 ? 0 : -EIO;
}

static uint64_t log_bytes_wanted(void)
{
	const char *text = getenv("GPUCTR_FAKE_LOG_KIB");
	long kib = text ? strtol(text, NULL, 10) : 0;

	return (uint64_t)(kib > 0 ? kib : 64 * 1024) * 1024;
}

static void make_state(const char *path, const char *log_path)
{
	char temporary[PATH_MAX + 32];
	struct fake_state *st;
	uint64_t log_bytes = log_bytes_wanted();

	snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
	if (make_file(temporary, sizeof(*st)) != 0) {
		return;
	}
	st = map_file(temporary, sizeof(*st));
	if (st) {
		state_init(st, log_bytes);
		(void)make_file(log_path, log_bytes);
		(void)!link(temporary, path);
		munmap(st, sizeof(*st));
	}
	unlink(temporary);
}

static struct fake_state *map_shared_state(void)
{
	char path[PATH_MAX + 16], log_path[PATH_MAX + 16];
	struct fake_state *st;

	snprintf(path, sizeof(path), "%s/state", directory);
	snprintf(log_path, sizeof(log_path), "%s/ioctl.log", directory);
	st = map_file(path, sizeof(*st));
	if (!st) {
		make_state(path, log_path);
		st = map_file(path, sizeof(*st));
	}
	if (st && st->magic == STATE_MAGIC) {
		log_text = map_file(log_path, st->log_bytes);
		read_knob_files(st);
		return st;
	}
	return NULL;
}

static pthread_once_t map_once = PTHREAD_ONCE_INIT;

static void map_state(void)
{
	const char *dir = getenv("GPUCTR_FAKE_DIR");
	struct fake_state *st = NULL;

	if (dir && dir[0] == '/' && strlen(dir) < sizeof(directory)) {
		strcpy(directory, dir);
		st = map_shared_state();
		if (!st) {
			fprintf(stderr, "fake: cannot use GPUCTR_FAKE_DIR=%s\n", dir);
		}
	}
	if (!st) {
		st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
		if (st == MAP_FAILED) {
			abort();
		}
		state_init(st, 0);
	}
	state = st;
}

__attribute__((constructor)) static void on_load(void)
{
	pthread_once(&map_once, map_state);
}

struct fake_state *fake_state(void)
{
	if (!state) {
		pthread_once(&map_once, map_state);
	}
	return state;
}

void fake_lock(struct fake_state *st)
{
	int r = EBUSY;

	/* A futex call may be forbidden here, and the lock is held for microseconds. */
	for (int i = 0; i < 20000 && r == EBUSY; i++) {
		r = pthread_mutex_trylock(&st->lock);
	}
	if (r == EBUSY) {
		r = pthread_mutex_lock(&st->lock);
	}
	if (r == EOWNERDEAD) {
		pthread_mutex_consistent(&st->lock);
	}
}

void fake_unlock(struct fake_state *st)
{
	pthread_mutex_unlock(&st->lock);
}

void fake_log(struct fake_state *st, const char *line, size_t len)
{
	uint64_t at;

	if (!log_text) {
		return;
	}
	at = atomic_fetch_add(&st->log_used, len);
	if (at + len <= st->log_bytes) {
		memcpy(log_text + at, line, len);
	} else {
		atomic_fetch_add(&st->counters.log_lost, 1);
	}
}

void fake_violation(const char *format, ...)
{
	struct fake_state *st = fake_state();
	char path[PATH_MAX + 32], line[512];
	va_list args;
	int len, fd;

	atomic_fetch_add(&st->counters.violations, 1);
	len = snprintf(line, sizeof(line), "pid %d: ", (int)getpid());
	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - (size_t)len - 1, format, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2) {
		len = (int)sizeof(line) - 2;
	}
	line[len++] = '\n';
	if (!directory[0]) {
		(void)!write(STDERR_FILENO, line, (size_t)len);
		return;
	}
	snprintf(path, sizeof(path), "%s/violations.log", directory);
	(void)make_file(path, 0);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd >= 0) {
		(void)!write(fd, line, (size_t)len);
		close(fd);
	}
}
