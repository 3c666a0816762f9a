/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/fdpass.h"

struct pair {
	int fds[2];
	int n_before;
};

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d)) {
		n++;
	}
	closedir(d);
	return n;
}

static int setup(void **state)
{
	static struct pair p;

	*state = &p;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p.fds) +
	       ((p.n_before = count_fds()) == 0);
}

/* Every test ends with the descriptors it began with: a refused one that stayed open would show. */
static int teardown(void **state)
{
	struct pair *p = *state;
	int leaked = count_fds() - p->n_before;

	close(p->fds[0]);
	close(p->fds[1]);
	if (leaked != 0) {
		print_error("%d descriptors leaked\n", leaked);
	}
	return leaked;
}

/* Sends one byte with n copies of stdin, as type of level. */
static void send_control(int socket, int level, int type, size_t n)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = { 0 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};

	control.header.cmsg_level = level;
	control.header.cmsg_type = type;
	control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
	assert_int_equal(sendmsg(socket, &m, MSG_NOSIGNAL), 1);
}

TEST_WITH(passes_bytes_alone, setup, teardown)
{
	struct pair *p = *state;
	char data[8];
	int fd = 99;

	assert_int_equal(fdpass_send(p->fds[0], "abc", 3, -1, 0), 3);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), 3);
	assert_memory_equal(data, "abc", 3);
	assert_int_equal(fd, -1);
}

TEST_WITH(passes_one_descriptor, setup, teardown)
{
	struct pair *p = *state;
	struct stat a, b;
	char data[8];
	int fd = -1;

	assert_int_equal(fdpass_send(p->fds[0], "x", 1, p->fds[0], 0), 1);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), 1);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(fstat(p->fds[0], &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	close(fd);
}

TEST_WITH(refuses_several_descriptors_and_closes_them, setup, teardown)
{
	static const size_t numbers[] = { 2, 3, 8, 9, 64, 253 };
	struct pair *p = *state;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		char data[8];
		int fd = 99;

		send_control(p->fds[0], SOL_SOCKET, SCM_RIGHTS, numbers[i]);
		assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), -EPROTO);
		assert_int_equal(fd, -1);
		assert_int_equal(count_fds(), p->n_before);
	}
}

/* Nothing that a hostile sender passes is closed before its receiver says so. */
TEST_WITH(hands_over_all_that_a_message_can_bring, setup, teardown)
{
	struct pair *p = *state;
	struct fdpass_set set;
	char data[8];

	send_control(p->fds[0], SOL_SOCKET, SCM_RIGHTS, FDPASS_MAX);
	assert_int_equal(fdpass_receive_set(p->fds[1], data, sizeof(data), &set, 0), 1);
	assert_int_equal(set.n, FDPASS_MAX);
	assert_int_equal(count_fds(), p->n_before + FDPASS_MAX);
	for (size_t i = 0; i < set.n; i++) {
		assert_int_equal(close(set.fds[i]), 0);
	}
	assert_int_equal(fdpass_receive_set(p->fds[1], data, sizeof(data), &set, MSG_DONTWAIT),
			 -EAGAIN);
	assert_int_equal(set.n, 0);
}

/* With SO_PASSCRED the kernel adds SCM_CREDENTIALS to every message. */
TEST_WITH(refuses_foreign_control_messages, setup, teardown)
{
	struct pair *p = *state;
	char data[8];
	int on = 1, fd = 99;

	assert_int_equal(setsockopt(p->fds[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_int_equal(fdpass_send(p->fds[0], "x", 1, -1, 0), 1);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), -EPROTO);
	assert_int_equal(fdpass_send(p->fds[0], "x", 1, p->fds[0], 0), 1);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), -EPROTO);
	assert_int_equal(fd, -1);
	assert_int_equal(count_fds(), p->n_before);
}

TEST_WITH(refuses_a_packet_longer_than_the_buffer, setup, teardown)
{
	struct pair *p = *state;
	char data[4];
	int fd = 99;

	assert_int_equal(fdpass_send(p->fds[0], "longer", 6, p->fds[0], 0), 6);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), -EPROTO);
	assert_int_equal(fd, -1);
}

TEST_WITH(tells_end_and_emptiness_apart, setup, teardown)
{
	struct pair *p = *state;
	char data[4];
	int fd = 99;

	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(fd, -1);
	assert_int_equal(shutdown(p->fds[0], SHUT_WR), 0);
	assert_int_equal(fdpass_receive(p->fds[1], data, sizeof(data), &fd, 0), 0);
	assert_int_equal(fdpass_send(p->fds[0], "x", 1, -1, 0), -EPIPE); /* and no SIGPIPE */
}
