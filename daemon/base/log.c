/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/utf8.h"

/* The sink is the one mutable global of the daemon. A message is formatted into one buffer and
 * written by one write(2), so that lines of several processes never mix. Characters that are not
 * visible are replaced, because many messages contain text that users chose. */

enum { LOG_LINE_MAX = 1024 };

static struct {
	char process[16];
	int max_level;
	bool journal;
} sink = { "gpucountd", LOG_INFO, false };

bool log_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *process, int max_level)
{
	snprintf(sink.process, sizeof(sink.process), "%s", process);
	sink.max_level = max_level;
	sink.journal = log_is_journal();
}

static int write_line(int level, const char *format, va_list ap)
{
	char line[LOG_LINE_MAX];
	size_t n;

	if (sink.journal) {
		snprintf(line, sizeof(line), "<%d>%s: ", level, sink.process);
	} else {
		snprintf(line, sizeof(line), "gpucountd[%s]: ", sink.process);
	}
	n = strlen(line);
	vsnprintf(line + n, sizeof(line) - n - 1, format, ap);
	utf8_replace_unsafe(line);
	n = strlen(line);
	line[n] = '\n';
	return write(STDERR_FILENO, line, n + 1) < 0 ? -errno : 0;
}

int log_write(int level, const char *format, ...)
{
	va_list ap;
	int r = 0;

	va_start(ap, format);
	if (level <= sink.max_level) {
		r = write_line(level, format, ap);
	}
	va_end(ap);
	return r;
}

int log_always(int level, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = write_line(level, format, ap);
	va_end(ap);
	return r;
}
