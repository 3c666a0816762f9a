/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void standard_hold(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
			/* The descriptor is opened for the opposite direction, so reading or
			 * writing fails as before. The lowest free number is this one, because
			 * those below are in use. */
			(void)!open("/dev/null",
				    (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
		}
	}
}

int standard_flush(void)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout)) {
		return 0;
	}
	return errno ? -errno : -EIO; /* an earlier failure has not left its errno */
}
