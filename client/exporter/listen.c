/* SPDX-License-Identifier: Apache-2.0 */
#include "client/exporter/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int complain(const char *where, const char *why)
{
	fprintf(stderr, "gpuctr-exporter: cannot listen on %s: %s\n", where, why);
	return -1;
}

static int make_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t size,
			   const char *where)
{
	if (fd < 0 || bind(fd, address, size) < 0 || listen(fd, BACKLOG) < 0) {
		complain(where, strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
		return -1;
	}
	return fd;
}

/* True: somebody answers there, or what is there is not ours to remove. */
static int is_taken(const struct sockaddr_un *a)
{
	int fd = make_socket(AF_UNIX), taken;
	struct stat st;

	if (lstat(a->sun_path, &st) < 0) {
		taken = 0;
	} else if (!S_ISSOCK(st.st_mode)) {
		taken = 1;
	} else {
		taken = fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 ||
			errno == EAGAIN;
	}
	if (fd >= 0) {
		close(fd);
	}
	return taken;
}

int listen_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	mode_t before;
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		return complain(path, "the path is too long; choose a shorter one");
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (is_taken(&a)) {
		return complain(path, "it is in use; choose another --listen");
	}
	unlink(path);
	before = umask(0117);
	fd = bind_and_listen(make_socket(AF_UNIX), (const struct sockaddr *)&a, sizeof(a), path);
	umask(before);
	return fd;
}

/* "[::1]:9836" -> "::1", "9836" */
static int split(const char *address, char *host, size_t size, const char **ret_port)
{
	const char *colon = strrchr(address, ':');
	size_t n = colon ? (size_t)(colon - address) : 0;

	if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
		address++;
		n -= 2;
	}
	if (n == 0 || n >= size) {
		return -1;
	}
	memcpy(host, address, n);
	host[n] = '\0';
	*ret_port = colon + 1;
	return 0;
}

int listen_tcp(const char *address)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	const char *port;
	const int on = 1;
	struct addrinfo *found;
	char host[64];
	int fd, r;

	if (split(address, host, sizeof(host), &port) < 0) {
		return complain(address, "write ADDRESS:PORT, such as 127.0.0.1:9836");
	}
	r = getaddrinfo(host, port, &hints, &found);
	if (r != 0) {
		return complain(address, gai_strerror(r));
	}
	fd = make_socket(found->ai_family);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	}
	fd = bind_and_listen(fd, found->ai_addr, found->ai_addrlen, address);
	freeaddrinfo(found);
	return fd;
}

size_t listen_passed(int *fds, size_t room)
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
