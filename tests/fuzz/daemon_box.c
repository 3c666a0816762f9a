/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/daemon_box.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/wire/frame.h"
#include "tests/fuzz/fuzz.h"

#define EXPORT __attribute__((visibility("default")))

static struct {
	bool active, ended, awaited;
	const uint8_t *data;
	size_t size, at, chunk;
	int fd; /* the box's end; -1: nobody has asked for a socket */
} box = { .fd = -1 };

void daemon_box_open(const uint8_t *data, size_t size, size_t chunk)
{
	box.active = true;
	box.ended = box.awaited = false;
	box.data = data;
	box.size = size;
	box.at = 0;
	box.chunk = chunk;
}

void daemon_box_close(void)
{
	if (box.fd >= 0) {
		close(box.fd);
	}
	box.fd = -1;
	box.active = box.awaited = false;
}

static void listen_to_them(void)
{
	char ignored[16 * 1024];

	while (recv(box.fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0) {
	}
}

/* All at once is: the first frame, which is read before anything is asked, and then the rest. */
static size_t chunk_size(size_t left)
{
	uint32_t payload;

	if (box.chunk != 0 || box.at != 0 || left < FRAME_HEADER_BYTES) {
		return box.chunk != 0 && box.chunk < left ? box.chunk : left;
	}
	memcpy(&payload, box.data, sizeof(payload));
	payload = le32toh(payload);
	return payload < left - FRAME_HEADER_BYTES ? FRAME_HEADER_BYTES + payload : left;
}

static void say_next_chunk(void)
{
	size_t n = box.size - box.at;
	ssize_t sent;

	if (n == 0 && !box.ended) {
		shutdown(box.fd, SHUT_WR);
		box.ended = true;
	}
	if (n == 0) {
		return;
	}
	n = chunk_size(n);
	sent = send(box.fd, box.data + box.at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0) {
		box.at += (size_t)sent;
	} else if (errno != EAGAIN) {
		box.at = box.size; /* they have gone */
	}
}

/* The socket is connected from the beginning: who makes one remembers which file it is. */
EXPORT int socket(int domain, int type, int protocol)
{
	int pair[2];

	if (!box.active || domain != AF_UNIX || box.fd >= 0) {
		return (int)syscall(SYS_socket, domain, type, protocol);
	}
	fuzz_check(socketpair(AF_UNIX, type, 0, pair) == 0);
	box.fd = pair[0];
	box.awaited = true;
	return pair[1];
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	if (!box.awaited || address->sa_family != AF_UNIX) {
		return (int)syscall(SYS_connect, fd, address, size);
	}
	box.awaited = false;
	return 0;
}

/* Of the one socket that is watched, here without the compiler's idea that poll() only writes. */
static int turn(void *fds, nfds_t n)
{
	int r = 0;

	for (int i = 0; r == 0 && i < 4; i++) {
		listen_to_them();
		say_next_chunk();
		r = (int)syscall(SYS_poll, fds, n, 0);
	}
	return r;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	if (box.active && box.fd >= 0) {
		return turn(fds, n);
	}
	return (int)syscall(SYS_poll, fds, n, timeout_ms);
}

/* What poll() becomes where the compiler knows the size of the array. */
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
	(void)size;
	return poll(fds, n, timeout_ms);
}
