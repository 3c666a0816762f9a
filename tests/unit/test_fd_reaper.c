/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "daemon/front/fd_reaper.h"

/* The threads that close what users have sent. What hangs them here is a file that the test holds,
 * as a file system in user space may, and a TCP socket that lingers for a minute, because its peer
 * does not read; a kick ends that. */

enum { ROOM = 1024, RECEIVED = 8 /* threads that take what was received */ };
enum { ANN = 1234, BOB = 1235, SOON_MS = 5000, WHILE_MS = 100, LINGER_S = 60 };

static atomic_bool is_held[ROOM];
static atomic_int n_held; /* threads that hang */
static sem_t gate;

__attribute__((visibility("default"))) int close(int fd)
{
	if (fd >= 0 && fd < ROOM && atomic_exchange(&is_held[fd], false)) {
		atomic_fetch_add(&n_held, 1);
		while (sem_wait(&gate) < 0) {
		}
		atomic_fetch_sub(&n_held, 1);
	}
	return (int)syscall(SYS_close, fd);
}

static int held_file(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	atomic_store(&is_held[fd], true);
	return fd;
}

static void let_go(unsigned n)
{
	while (n-- > 0) {
		sem_post(&gate);
	}
}

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
		assert_int_equal(listen(listener, 256), 0);
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
	fd_reaper_close(&(struct closing){ fd, kind, uid, NULL }, 1);
}

static uv_loop_t loop;
static uid_t done_uid; /* of the last one */
static size_t n_done;

static void on_done(const struct closing *c, void *userdata)
{
	done_uid = c->uid;
	n_done++;
}

static void on_time(uv_timer_t *t)
{
}

/* Are n more closed within ms? */
static bool are_done(size_t n, int ms)
{
	uint64_t by = clock_now_ns() + (uint64_t)ms * CLOCK_NS_PER_MS;
	uv_timer_t timer;

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, on_time, 1, 1);
	n_done = 0;
	while (n_done < n && clock_now_ns() < by) {
		uv_run(&loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&loop, UV_RUN_NOWAIT);
	return n_done >= n;
}

static void expect_done(size_t n, uid_t uid)
{
	assert_true(are_done(n, SOON_MS));
	assert_int_equal(n_done, n);
	assert_int_equal(done_uid, uid);
}

static void expect_idle(void)
{
	assert_int_equal(fd_reaper_count(), 0);
	assert_false(are_done(1, 2));
}

TEST(one_user_hangs_one_thread)
{
	for (int i = 0; i < 20; i++) {
		give(held_file(), CLOSING_RECEIVED, ANN);
	}
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_RECEIVED, BOB);
	expect_done(1, BOB);
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_CONNECTION, BOB);
	expect_done(1, BOB);
	give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_CONNECTION, ANN);
	assert_false(are_done(1, WHILE_MS)); /* all of Ann's wait */
	assert_int_equal(n_held, 1);
	assert_int_equal(fd_reaper_count(), 21);
	let_go(20);
	expect_done(21, ANN);
	expect_idle();
}

TEST(many_users_leave_threads_for_connections)
{
	for (uid_t uid = 2000; uid < 2020; uid++) {
		give(held_file(), CLOSING_RECEIVED, uid);
	}
	assert_false(are_done(1, WHILE_MS));
	assert_int_equal(n_held, RECEIVED);
	for (int i = 0; i < 100; i++) {
		give(open("/dev/null", O_RDONLY | O_CLOEXEC), CLOSING_CONNECTION, BOB);
	}
	expect_done(100, BOB);
	let_go(20);
	assert_true(are_done(20, SOON_MS));
	expect_idle();
}

TEST(a_thread_that_waits_for_long_is_kicked)
{
	for (int i = 0; i < 40; i++) {
		give(lingering_socket(), i % 2 ? CLOSING_RECEIVED : CLOSING_CONNECTION, ANN);
	}
	expect_done(40, ANN);
	expect_idle();
}

TEST(numbers_are_used_again)
{
	for (int i = 0; i < 5000; i++) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		give(fd, CLOSING_RECEIVED, ANN);
		while (fd_reaper_count() > 0) {
			uv_run(&loop, UV_RUN_ONCE);
		}
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
	expect_idle();
}

int main(void)
{
	const struct rlimit few = { ROOM, ROOM };

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	sem_init(&gate, 0, 0);
	return fd_reaper_start() < 0 || uv_loop_init(&loop) < 0 ||
			       fd_reaper_init(&loop, on_done, NULL) < 0
		       ? 1
		       : unit_run();
}
