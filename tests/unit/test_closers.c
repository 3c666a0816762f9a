/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "daemon/front/closers.h"

/* The threads that close what users have sent. What hangs them here is a TCP socket that lingers
 * for a minute, because its peer does not read; a kick ends that. */

enum { ANN = 1234, BOB = 1235, SOON_MS = 5000, WHILE_MS = 100, LINGER_S = 60 };

static int lingering_socket(void)
{
	static int listener = -1;
	static const char zeros[4096];
	const struct linger linger = { 1, LINGER_S };
	const int small = 4096; /* the kernel resets what takes too much of its memory */
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener < 0) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
		assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
		assert_int_equal(listen(listener, 64), 0);
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0) {
	}
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static void give(int fd, enum closing_kind kind, uid_t uid)
{
	closers_close(&(struct closing){ fd, kind, uid, NULL }, 1);
}

/* Who sent the next one that is closed within ms; 0: none is. */
static uid_t next_done(int ms, bool kicks)
{
	uint64_t by = clock_now_ns() + (uint64_t)ms * CLOCK_NS_PER_MS;
	struct closing c;

	while (clock_now_ns() < by) {
		struct pollfd p = { closers_fd(), POLLIN, 0 };

		if (kicks) {
			closers_kick(clock_now_ns());
		}
		if (poll(&p, 1, 1) == 1 && closers_take_done(&c)) {
			return c.uid;
		}
	}
	return 0;
}

static void expect_idle(void)
{
	assert_int_equal(closers_kick(clock_now_ns()), 0);
	assert_int_equal(next_done(1, false), 0);
}

TEST(one_user_hangs_one_thread)
{
	for (int i = 0; i < 20; i++) {
		give(lingering_socket(), CLOSING_RECEIVED, ANN);
	}
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_RECEIVED, BOB);
	assert_int_equal(next_done(SOON_MS, false), BOB);
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_CONNECTION, ANN);
	assert_int_equal(next_done(SOON_MS, false), ANN);
	assert_int_equal(next_done(WHILE_MS, false), 0); /* the others wait */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(next_done(SOON_MS, true), ANN);
	}
	expect_idle();
}

TEST(many_users_leave_threads_for_connections)
{
	for (uid_t uid = 2000; uid < 2020; uid++) {
		give(lingering_socket(), CLOSING_RECEIVED, uid);
	}
	assert_int_equal(next_done(WHILE_MS, false), 0);
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_CONNECTION, BOB);
	assert_int_equal(next_done(SOON_MS, false), BOB);
	for (int i = 0; i < 20; i++) {
		assert_int_not_equal(next_done(SOON_MS, true), 0);
	}
	expect_idle();
}

TEST(numbers_are_used_again)
{
	for (int i = 0; i < 5000; i++) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		give(fd, CLOSING_RECEIVED, ANN);
		assert_int_equal(next_done(SOON_MS, false), ANN);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
	expect_idle();
}

int main(void)
{
	/* So few places that numbers_are_used_again() has to use each several times. */
	const struct rlimit few = { 1024, 1024 };

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	return closers_start() < 0 ? 1 : unit_run();
}
