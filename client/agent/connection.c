/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/agent/courier.h"
#include "client/agent/descriptor.h"
#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "proto/wire/limits.h"

enum { CONNECT_TIMEOUT_S = 5, LAST_WORD_S = 1, LOOK_MS = 1000 };

/* False: the program has closed the descriptor, and may have a file of its own at that number. */
static bool is_ours(const struct connection *l)
{
	return l->fd >= 0 && descriptor_file(l->fd) == l->file;
}

/* connect() may wait for seconds, in which the program may close the descriptor or fork. So before,
 * the number is made high and stored in l, where a forked child finds it. */
static int open_socket(struct connection *l)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), high;

	if (fd < 0) {
		return -errno;
	}
	l->file = descriptor_file(fd);
	high = fcntl(fd, F_DUPFD_CLOEXEC, descriptor_high_number());
	if (high >= 0) {
		descriptor_leave(fd, l->file);
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
	/* Set now: a filter may forbid it later, and read() and write() have no MSG_DONTWAIT. */
	fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
	arena_init(&l->arena, LIMIT_UNPACKED_BYTES);
	arena_init(&l->scratch, 2 * LIMIT_UNPACKED_BYTES);
	return 0;
}

void connection_close(struct connection *l)
{
	if (!l->courier || courier_quit()) {
		descriptor_leave(l->fd, l->file);
	}
	l->fd = -1;
	l->courier = false;
	buffer_deinit(&l->in);
	buffer_deinit(&l->out);
	arena_deinit(&l->arena);
	arena_deinit(&l->scratch);
}

/* With a courier the socket is safe, because the courier has it. */
static bool is_there(const struct connection *l)
{
	return l->courier || is_ours(l);
}

/* 1: ready; 0: by_ns has passed; -errno. */
static int wait_ready(const struct connection *l, short events, uint64_t by_ns)
{
	if (l->courier) {
		return courier_wait(events == POLLIN, by_ns);
	}
	for (;;) {
		struct pollfd p = { l->fd, events, 0 };
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

/* If SIGPIPE is blocked, uses write(), which seccomp filters usually still allow. */
static ssize_t send_some(struct connection *l, int fd)
{
	const void *data = l->out.data + l->out.start;
	size_t bytes = buffer_length(&l->out);
	ssize_t n;

	if (l->courier) {
		n = courier_write(data, bytes);
		return n == 0 ? -EAGAIN : n;
	}
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

/* 0: try again; -ETIMEDOUT, or another -errno. Checks the descriptor every LOOK_MS. */
static int wait_for_reader(struct connection *l, uint64_t timeout_ns)
{
	uint64_t begin_ns = clock_now_ns(), look_ns = begin_ns + LOOK_MS * CLOCK_NS_PER_MS, by_ns;
	int r;

	by_ns = timeout_ns < UINT64_MAX - begin_ns ? begin_ns + timeout_ns : UINT64_MAX;
	atomic_store(&l->waits_since_ns, begin_ns);
	do {
		r = wait_ready(l, POLLOUT, by_ns < look_ns ? by_ns : look_ns);
		look_ns += LOOK_MS * CLOCK_NS_PER_MS;
	} while (r == 0 && is_there(l) && clock_now_ns() < by_ns);
	atomic_fetch_add(&l->waited_ns, clock_now_ns() - begin_ns);
	atomic_store(&l->waits_since_ns, 0);
	return r < 0 ? r : r == 0 && is_there(l) ? -ETIMEDOUT : 0;
}

/* r: result of putting the bytes into l->out; nothing is sent if it is negative. */
static int send_all(struct connection *l, int r, int fd, uint64_t timeout_ns)
{
	while (r >= 0 && buffer_length(&l->out) > 0) {
		ssize_t n = send_some(l, fd);

		if (n >= 0) {
			fd = -1;
			buffer_consume(&l->out, (size_t)n);
		} else if (n == -EAGAIN) {
			r = wait_for_reader(l, timeout_ns);
		} else {
			r = (int)n;
		}
	}
	if (r < 0) {
		connection_close(l);
	}
	return r < 0 ? r : 0;
}

int connection_send(struct connection *l, const struct wire_message *m, int fd, uint64_t timeout_ns)
{
	int r = l->fd < 0 ? -ENOTCONN : wire_encode(&l->scratch, &l->out, m);

	arena_reset(&l->scratch);
	r = send_all(l, r, fd, timeout_ns);
	if (r == 0 && l->courier && m->type == WIRE_GOODBYE) { /* the program may end after it */
		courier_flush(clock_now_ns() + LAST_WORD_S * CLOCK_NS_PER_S);
	}
	return r;
}

int connection_send_encoded(struct connection *l, const struct buffer *b)
{
	int r = l->fd < 0 ? -ENOTCONN
			  : buffer_append(&l->out, b->data + b->start, buffer_length(b));

	return send_all(l, r, -1, CONNECTION_NO_LIMIT);
}

static int read_some(struct connection *l)
{
	ssize_t n;
	int r = buffer_reserve(&l->in, 64 * 1024);

	if (r < 0) {
		return r;
	}
	if (l->courier) {
		n = courier_read(l->in.data + l->in.end, l->in.size - l->in.end);
		l->in.end += n > 0 ? (size_t)n : 0;
		return n < 0 ? (int)n : 0;
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
	uint64_t by = timeout_ns == COURIER_FOR_EVER ? timeout_ns : clock_now_ns() + timeout_ns;
	int r = l->fd < 0 ? -ENOTCONN : wire_next(&l->in, &l->arena, ret);

	while (r == FRAME_E_MORE) {
		r = wait_ready(l, POLLIN, by);
		if (r == 0 && is_there(l)) {
			return -EAGAIN;
		}
		r = r < 0 ? r : read_some(l);
		r = r < 0 ? r : wire_next(&l->in, &l->arena, ret);
	}
	if (r < 0) {
		connection_close(l);
	}
	return r;
}

enum { HELLO_TIMEOUT_S = 5 };

bool hello_keep(const struct wire_message *m, struct arena *arena, struct wire_agent_welcome *ret)
{
	struct wire_message copy;

	if (wire_copy(arena, m, &copy) < 0) {
		return false;
	}
	*ret = copy.agent_welcome;
	return true;
}

int hello_send(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	       bool plain)
{
	struct wire_message m = { .type = WIRE_AGENT_HELLO, .agent_hello = *hello };
	int r = connection_open(l, socket_path);

	l->plain = plain;
	m.agent_hello.version = PROTO_VERSION;
	return r < 0 ? r : connection_send(l, &m, -1, HELLO_TIMEOUT_S * CLOCK_NS_PER_S);
}

int hello_say(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	      struct arena *arena, struct wire_agent_welcome *ret, struct refusal *r)
{
	struct wire_message m;
	int e = hello_send(l, socket_path, hello, false);

	if (e == 0) {
		e = connection_receive(l, &m, HELLO_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (e < 0) {
		refusal_set(r, GPUCTR_E_NO_DAEMON, "Start it through gpuctr-client.",
			    "no gpucountd answers at %s (%s)", socket_path, strerror(-e));
	} else if (m.type == WIRE_REFUSAL) {
		refusal_set(r, refusal_code(m.refusal.code), m.refusal.remedy, "%s",
			    m.refusal.message);
	} else if (m.type != WIRE_AGENT_WELCOME || !hello_keep(&m, arena, ret)) {
		refusal_set(r, GPUCTR_E_PROTOCOL, "Use an agent and daemon of the same release.",
			    "the daemon's answer was not understood");
	} else {
		return 0;
	}
	connection_close(l);
	return r->code;
}
