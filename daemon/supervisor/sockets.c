/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/trust.h"

enum { PREDECESSOR_MS = 2000, PREDECESSOR_PAUSE_MS = 50 };

/* The socket's group is the first gate: a user outside it cannot connect. If the settings admit
 * more than one group, everybody may connect, and only the front decides. umask() gives the socket
 * its mode when bind() makes it, because a later chmod() could change another file under that name;
 * no other thread runs yet. Nobody can connect before the socket listens. */
static int bind_gate(int fd, const struct sockaddr_un *a, const struct policy *policy)
{
	gid_t group = (gid_t)-1, own = getegid();
	bool gated = policy_is_one_group(policy, &group);
	bool given = group == (gid_t)-1 || group == own || setegid(group) == 0;
	mode_t before = umask(gated && given ? 0117 : 0111);
	int r = bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 ? -errno : 0;

	umask(before);
	if (setegid(own) < 0) {
		return -errno;
	}
	if (r == 0 && !given) {
		log_warning("%s cannot be given to the group %u: everybody may connect, and the "
			    "settings decide",
			    a->sun_path, (unsigned)group);
	}
	return r;
}

/* Returns 0 if nobody listens at the path; -EADDRINUSE if somebody does, also with a full backlog
 * (for which connect() would wait without SOCK_NONBLOCK); or another -errno. */
static int probe(const struct sockaddr_un *a)
{
	CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0) {
		return -errno;
	}
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN) {
		return -EADDRINUSE;
	}
	return errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
}

static int free_address(const struct sockaddr_un *a)
{
	struct stat st;
	int r;

	if (lstat(a->sun_path, &st) < 0) {
		return 0;
	}
	if (!S_ISSOCK(st.st_mode)) {
		return -EEXIST;
	}
	r = probe(a);
	if (r == 0) {
		unlink(a->sun_path); /* left behind by a daemon that was killed */
	}
	return r;
}

/* When a supervisor is killed, its front still listens for some milliseconds, until the kernel has
 * ended it, and a manager may restart the daemon within that time. So this waits a while for a
 * listener to end; one that stays is another daemon, and keeps the socket. */
static int free_address_in_time(const struct sockaddr_un *a)
{
	uint64_t by = clock_now_ns() + PREDECESSOR_MS * CLOCK_NS_PER_MS;
	int r;

	while ((r = free_address(a)) == -EADDRINUSE && clock_now_ns() < by) {
		poll(NULL, 0, PREDECESSOR_PAUSE_MS);
	}
	return r;
}

static int bind_socket(const struct sockaddr_un *a, const struct policy *policy)
{
	CLEAN_FD int fd = -1;
	int r = free_address_in_time(a);

	if (r < 0) {
		return r;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_gate(fd, a, policy);
	if (r == 0 && listen(fd, 1024) < 0) {
		r = -errno;
	}
	return r < 0 ? r : TAKE_FD(fd);
}

/* Makes the folder if it is missing. Fails if another user could replace our socket there by
 * another socket or a link. */
static int find_address(const char *path, struct sockaddr_un *ret)
{
	char folder[PATH_MAX], real[PATH_MAX], error[PATH_MAX + 160];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int n, r;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	mkdir(folder, 0755);
	r = trust_check_folder(folder, geteuid(), real, error, sizeof(error));
	if (r < 0) {
		log_error("cannot listen on %s: %s", path, error);
		return r;
	}
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", real[1] ? real : "", name);
	if (n >= (int)sizeof(ret->sun_path)) {
		log_error("cannot listen on %s/%s: %s", real, name, strerror(ENAMETOOLONG));
		return -ENAMETOOLONG;
	}
	return 0;
}

size_t sockets_take_passed(int *fds, size_t room)
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

static const char *remedy_of(int error)
{
	return error == -EADDRINUSE ? " by another gpucountd; choose another --socket"
	       : error == -EEXIST   ? " and is no socket; choose another --socket, or remove it"
				    : "";
}

int sockets_open(const struct config *c, int *fds, size_t room, size_t *ret_n, bool *ret_own)
{
	struct sockaddr_un a;
	int fd;

	*ret_n = sockets_take_passed(fds, room);
	*ret_own = *ret_n == 0;
	if (*ret_n > 0) {
		return 0;
	}
	fd = find_address(c->socket, &a);
	if (fd < 0) {
		return fd;
	}
	fd = bind_socket(&a, &c->policy);
	if (fd < 0) {
		log_error("cannot listen on %s: %s%s", c->socket, strerror(-fd), remedy_of(fd));
		return fd;
	}
	fds[0] = fd;
	*ret_n = 1;
	return 0;
}
