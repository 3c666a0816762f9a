/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/clean.h"
#include "daemon/base/log.h"

static int bind_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEAN_FD int probe = -1;
	struct stat st;
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		return -ENAMETOOLONG;
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe >= 0 && connect(probe, (struct sockaddr *)&a, sizeof(a)) == 0) {
		return -EADDRINUSE;
	}
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		return -EEXIST;
	}
	unlink(path); /* left behind by one that was killed */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1024) < 0) {
		int r = -errno;

		if (fd >= 0) {
			close(fd);
		}
		return r;
	}
	/* Who may ask is decided by identity, with a reason, not by a mode. */
	chmod(path, 0666);
	return fd;
}

static void make_parent(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash && slash != folder) {
		*slash = '\0';
		mkdir(folder, 0755);
	}
}

static size_t take_passed(int *fds, size_t room)
{
	int n = sd_listen_fds(1);
	size_t taken = 0;

	for (int i = 0; i < n && taken < room; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		fds[taken++] = fd;
	}
	return taken;
}

int sockets_open(const char *path, int *fds, size_t room, size_t *ret_n, bool *ret_own)
{
	int fd;

	*ret_n = take_passed(fds, room);
	*ret_own = *ret_n == 0;
	if (*ret_n > 0) {
		return 0;
	}
	make_parent(path);
	fd = bind_socket(path);
	if (fd < 0) {
		log_error("cannot listen on %s: %s%s", path, strerror(-fd),
			  fd == -EADDRINUSE ? " by another gpucountd; choose another --socket"
					    : "");
		return fd;
	}
	fds[0] = fd;
	*ret_n = 1;
	return 0;
}
