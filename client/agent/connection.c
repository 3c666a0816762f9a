/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "proto/wire/limits.h"

enum { CONNECT_TIMEOUT_S = 5, HIGH_NUMBER = 512 };

ino_t connection_file(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

void connection_leave(int fd, ino_t file)
{
	if (fd >= 0 && connection_file(fd) == file) {
		close(fd);
	}
}

/* The program may have closed the descriptor, and may have a file of its own at that number. */
static bool is_ours(const struct connection *l)
{
	return l->fd >= 0 && connection_file(l->fd) == l->file;
}

int connection_high_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 2 * HIGH_NUMBER) {
		return HIGH_NUMBER;
	}
	return (int)(limit.rlim_cur / 2);
}

/* connect() may wait for seconds, and the program may close the descriptor meanwhile. So the number
 * is high by then, and known to a forked child. */
static int open_socket(struct connection *l)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), high;

	if (fd < 0) {
		return -errno;
	}
	l->file = connection_file(fd);
	high = fcntl(fd, F_DUPFD_CLOEXEC, connection_high_number());
	if (high >= 0) {
		connection_leave(fd, l->file);
		fd = high;
	}
	l->fd = fd;
	return 0;
}

int connection_open(struct connection *l, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int r;

	*l = (struct connection){ .fd = -1 };
	if (strlen(path) >= sizeof(a.sun_path)) {
		return -ENAMETOOLONG;
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	r = open_socket(l);
	if (r < 0) {
		return r;
	}
	/* Also limits connect(), which waits while the daemon does not accept. */
	setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = CONNECT_TIMEOUT_S },
		   sizeof(struct timeval));
	r = !is_ours(l)						   ? -EBADF
	    : connect(l->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno
								   : 0;
	if (r < 0) {
		connection_close(l);
		return r;
	}
	/* Called before a filter may forbid it: write() has no flag against SIGPIPE. */
	fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
	arena_init(&l->arena, LIMIT_UNPACKED_BYTES);
	arena_init(&l->scratch, 2 * LIMIT_UNPACKED_BYTES);
	return 0;
}

void connection_close(struct connection *l)
{
	connection_leave(l->fd, l->file);
	l->fd = -1;
	buffer_deinit(&l->in);
	buffer_deinit(&l->out);
	arena_deinit(&l->arena);
	arena_deinit(&l->scratch);
}

/* 1: ready; 0: time is over; -errno. */
static int wait_ready(int fd, short events, uint64_t by_ns)
{
	for (;;) {
		struct pollfd p = { fd, events, 0 };
		uint64_t now = clock_now_ns();
		int r = poll(&p, 1,
			     now >= by_ns ? 0
					  : (int)((by_ns - now + CLOCK_NS_PER_MS - 1) /
						  CLOCK_NS_PER_MS));

		if (r >= 0) {
			return r;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

/* If SIGPIPE is blocked, uses write(), which people who confine a program usually still allow. */
static ssize_t send_some(struct connection *l, int fd)
{
	const void *data = l->out.data + l->out.start;
	size_t bytes = buffer_length(&l->out);
	ssize_t n;

	if (!is_ours(l)) {
		return -EBADF;
	}
	if (!l->plain || fd >= 0) {
		return fdpass_send(l->fd, data, bytes, fd, MSG_DONTWAIT);
	}
	do {
		n = write(l->fd, data, bytes);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int connection_send(struct connection *l, const struct wire_message *m, int fd, uint64_t timeout_ns)
{
	int r = l->fd < 0 ? -ENOTCONN : wire_encode(&l->scratch, &l->out, m);

	arena_reset(&l->scratch);
	while (r >= 0 && buffer_length(&l->out) > 0) {
		ssize_t n = send_some(l, fd);

		if (n >= 0) {
			fd = -1;
			buffer_consume(&l->out, (size_t)n);
		} else if (n == -EAGAIN) {
			r = wait_ready(l->fd, POLLOUT, clock_now_ns() + timeout_ns);
			r = r == 0 ? -ETIMEDOUT : r;
		} else {
			r = (int)n;
		}
	}
	if (r < 0) {
		connection_close(l);
		return r;
	}
	return 0;
}

/* 0, FRAME_E_MORE or -EPROTO. */
static int next_message(struct connection *l, struct wire_message *ret)
{
	struct frame f;
	int r = frame_parse(l->in.data + l->in.start, buffer_length(&l->in), &f);

	if (r == FRAME_E_MORE) {
		return r;
	}
	arena_reset(&l->arena);
	if (r != 0 || wire_decode(&l->arena, f.type, f.payload, f.size, ret) != 0) {
		return -EPROTO;
	}
	buffer_consume(&l->in, FRAME_HEADER_BYTES + f.size);
	return 0;
}

static int read_some(struct connection *l)
{
	ssize_t n;
	int r = buffer_reserve(&l->in, 64 * 1024);

	if (r < 0) {
		return r;
	}
	if (!is_ours(l)) {
		return -EBADF;
	}
	n = l->plain ? read(l->fd, l->in.data + l->in.end, l->in.size - l->in.end)
		     : recv(l->fd, l->in.data + l->in.end, l->in.size - l->in.end, MSG_DONTWAIT);
	if (n < 0) {
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (n == 0) {
		return -EPIPE;
	}
	l->in.end += (size_t)n;
	return 0;
}

int connection_receive(struct connection *l, struct wire_message *ret, uint64_t timeout_ns)
{
	uint64_t by = clock_now_ns() + timeout_ns;
	int r = l->fd < 0 ? -ENOTCONN : next_message(l, ret);

	while (r == FRAME_E_MORE) {
		r = wait_ready(l->fd, POLLIN, by);
		if (r == 0 && is_ours(l)) {
			return -EAGAIN;
		}
		r = r < 0 ? r : read_some(l);
		r = r < 0 ? r : next_message(l, ret);
	}
	if (r < 0) {
		connection_close(l);
	}
	return r;
}
