/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/descriptor.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HIGH_NUMBER = 512 };

ino_t descriptor_file(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

void descriptor_leave(int fd, ino_t file)
{
	if (fd >= 0 && descriptor_file(fd) == file) {
		close(fd);
	}
}

int descriptor_high_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 2 * HIGH_NUMBER) {
		return HIGH_NUMBER;
	}
	return (int)(limit.rlim_cur / 2);
}
