/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/agent/descriptor.h"
#include "client/agent/connection.h"
#include "client/agent/descriptor.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* The agent's end of its connection, with a peer that reads slowly, not at all, or is gone. */

enum {
	PIECE_BYTES = 65536,
	MESSAGES = 300,
	PATIENCE_MS = 400,
	LONGER_MS = 5000, /* than one who reads all the time may have to stand still */
	PAUSE_MS = 20,
};

static struct connection begin(int *ret_peer)
{
	struct connection l = { 0 };
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	l.fd = fds[0];
	l.file = descriptor_file(l.fd);
	arena_init(&l.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&l.scratch, 2 * LIMIT_UNPACKED_BYTES);
	*ret_peer = fds[1];
	return l;
}

static struct wire_message big_message(void)
{
	static uint8_t data[PIECE_BYTES];

	return (struct wire_message){ .type = WIRE_RAW_IMAGE,
				      .raw_image = { .capture = 1,
						     .process = 1,
						     .count = 1,
						     .size = sizeof(data),
						     .data = { sizeof(data), data } } };
}

static int send_many(struct connection *l, uint64_t patience_ms)
{
	const struct wire_message m = big_message();
	int r = 0;

	for (int i = 0; r == 0 && i < MESSAGES; i++) {
		r = connection_send(l, &m, -1, patience_ms * CLOCK_NS_PER_MS);
	}
	return r;
}

TEST(who_reads_nothing_is_given_up)
{
	uint64_t begin_ns = clock_now_ns();
	struct wire_message m = big_message();
	int peer;
	struct connection l = begin(&peer);

	assert_int_equal(send_many(&l, PATIENCE_MS), -ETIMEDOUT);
	assert_true(clock_now_ns() - begin_ns >= PATIENCE_MS * CLOCK_NS_PER_MS);
	assert_int_equal(l.fd, -1);
	assert_int_equal(connection_send(&l, &m, -1, 0), -ENOTCONN);
	close(peer);
	connection_close(&l);
}

/* A little at a time, until the sender closes. */
static void *read_slowly(void *argument)
{
	static char data[PIECE_BYTES];
	size_t *total = argument;
	int peer = (int)*total;
	ssize_t n;

	*total = 0;
	while ((n = read(peer, data, sizeof(data))) > 0) {
		*total += (size_t)n;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * CLOCK_NS_PER_MS }, NULL);
	}
	close(peer);
	return NULL;
}

/* The limit is on silence, and not on how long it all takes. */
TEST(who_reads_slowly_is_waited_for)
{
	uint64_t begin_ns = clock_now_ns();
	pthread_t thread;
	size_t total;
	int peer;
	struct connection l = begin(&peer);

	total = (size_t)peer;
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &total), 0);
	assert_int_equal(send_many(&l, LONGER_MS), 0);
	connection_close(&l);
	pthread_join(thread, NULL);
	assert_true(clock_now_ns() - begin_ns > LONGER_MS * CLOCK_NS_PER_MS);
	assert_true(total > (size_t)MESSAGES * PIECE_BYTES);
}

TEST(who_says_nothing_is_not_waited_for_longer)
{
	uint64_t begin_ns = clock_now_ns();
	struct wire_message m;
	int peer;
	struct connection l = begin(&peer);

	assert_int_equal(connection_receive(&l, &m, PATIENCE_MS * CLOCK_NS_PER_MS), -EAGAIN);
	assert_true(clock_now_ns() - begin_ns >= PATIENCE_MS * CLOCK_NS_PER_MS);
	assert_true(l.fd >= 0); /* it may speak later */
	close(peer);
	assert_int_equal(connection_receive(&l, &m, PATIENCE_MS * CLOCK_NS_PER_MS), -EPIPE);
	assert_int_equal(l.fd, -1);
	connection_close(&l);
}

/* The program closes all descriptors that it does not know, and opens a socket which gets our
 * number. Returns the other end of the program's. */
static int take_number(const struct connection *l)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(dup2(fds[0], l->fd), l->fd);
	close(fds[0]);
	assert_int_equal(write(fds[1], "mine", 4), 4);
	return fds[1];
}

static void expect_untouched(int fd, int other)
{
	char text[8];

	assert_int_equal(recv(fd, text, sizeof(text), MSG_DONTWAIT), 4);
	assert_memory_equal(text, "mine", 4);
	assert_int_equal(recv(other, text, sizeof(text), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	close(other);
}

TEST(what_the_program_opened_at_our_number_is_its_own)
{
	struct wire_message m = big_message();
	int peer, other, fd;
	struct connection l = begin(&peer);

	fd = l.fd;
	other = take_number(&l);
	assert_int_equal(connection_receive(&l, &m, PATIENCE_MS * CLOCK_NS_PER_MS), -EBADF);
	assert_int_equal(l.fd, -1);
	expect_untouched(fd, other);
	close(peer);
	l = begin(&peer);
	fd = l.fd;
	other = take_number(&l);
	m = big_message();
	assert_int_equal(connection_send(&l, &m, -1, PATIENCE_MS * CLOCK_NS_PER_MS), -EBADF);
	expect_untouched(fd, other);
	close(peer);
	l = begin(&peer);
	fd = l.fd;
	other = take_number(&l);
	descriptor_leave(l.fd, l.file); /* as a forked child does */
	connection_close(&l);
	expect_untouched(fd, other);
	close(peer);
}

static void *take_number_meanwhile(void *argument)
{
	struct connection *l = argument;

	while (atomic_load(&l->waits_since_ns) == 0) {
		nanosleep(&(struct timespec){ .tv_nsec = CLOCK_NS_PER_MS }, NULL);
	}
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * CLOCK_NS_PER_MS }, NULL);
	return (void *)(intptr_t)take_number(l);
}

/* While somebody waits for a reader without a limit, and says so. */
TEST(a_number_that_is_taken_meanwhile_is_noticed)
{
	const struct wire_message m = big_message();
	uint64_t begin_ns = clock_now_ns();
	pthread_t thread;
	void *other;
	int peer, fd, r = 0;
	struct connection l = begin(&peer);

	fd = l.fd;
	assert_int_equal(pthread_create(&thread, NULL, take_number_meanwhile, &l), 0);
	while (r == 0) {
		r = connection_send(&l, &m, -1, CONNECTION_NO_LIMIT);
	}
	pthread_join(thread, &other);
	assert_int_equal(r, -EBADF);
	assert_true(clock_now_ns() - begin_ns < LONGER_MS * CLOCK_NS_PER_MS);
	assert_int_equal(atomic_load(&l.waits_since_ns), 0);
	assert_true(atomic_load(&l.waited_ns) >= PAUSE_MS * CLOCK_NS_PER_MS);
	expect_untouched(fd, (int)(intptr_t)other);
	close(peer);
}

/* --- opening --- */

enum { NUMBERS = 600 };

static struct {
	int listener; /* of a daemon that is slow to take us */
	int fds[NUMBERS];
	size_t n;
} program;

/* Stands for the program, which closes all that it does not know while we wait for the daemon to
 * take us, and opens files of its own there. */
static void *close_and_open(void *argument)
{
	(void)argument;
	nanosleep(&(struct timespec){ .tv_nsec = 300 * CLOCK_NS_PER_MS }, NULL);
	for (int fd = 3; fd < 2 * NUMBERS; fd++) {
		if (fd != program.listener && descriptor_file(fd) != 0) {
			close(fd);
		}
	}
	while (program.n < NUMBERS &&
	       (program.fds[program.n] = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0) {
		program.n++;
	}
	accept(program.listener, NULL, NULL); /* the one that held us up */
	return NULL;
}

/* None is closed, and none was connected in place of ours. */
static bool are_untouched(void)
{
	for (size_t i = 0; i < program.n; i++) {
		struct sockaddr_un a;
		socklen_t size = sizeof(a);

		if (descriptor_file(program.fds[i]) == 0 ||
		    getpeername(program.fds[i], (struct sockaddr *)&a, &size) == 0) {
			return false;
		}
	}
	return true;
}

/* In a child, whose descriptors are its own. */
static int open_while_all_is_closed(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int other = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_t thread;
	struct wire_message m;
	struct connection l;
	int r;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	program.listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(program.listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(program.listener, 0) < 0 ||
	    connect(other, (struct sockaddr *)&a, sizeof(a)) < 0 || /* the only place is taken */
	    pthread_create(&thread, NULL, close_and_open, NULL) != 0) {
		return 1;
	}
	r = connection_open(&l, path);
	pthread_join(thread, NULL);
	if (r == 0 && connection_receive(&l, &m, 0) != -EBADF) {
		return 3;
	}
	return program.n > 500 && are_untouched() ? 0 : 2;
}

TEST(what_is_opened_while_we_connect_is_the_programs)
{
	char path[] = "/tmp/gpuctr-link.XXXXXX";
	int status;
	pid_t pid;

	close(mkstemp(path));
	unlink(path);
	pid = fork();
	if (pid == 0) {
		_exit(open_while_all_is_closed(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(path);
	assert_int_equal(status, 0);
}

/* In a child. Whoever calls sendmsg() or sendto() from here on is killed. */
static int say_hello_within_filter(const char *path)
{
	struct sock_filter allows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(allows) / sizeof(allows[0]), allows };
	const struct wire_agent_hello hello = { .program = "sleep" };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct connection l;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	program.listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(program.listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(program.listener, 1) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
		return 1;
	}
	return hello_send(&l, path, &hello, true) == 0 ? 0 : 2;
}

/* A program in standby without a courier connects again when the daemon starts again, and may have
 * loaded a filter in the meantime. */
TEST(a_plain_hello_is_written_and_not_sent)
{
	char path[] = "/tmp/gpuctr-link.XXXXXX";
	int status;
	pid_t pid;

	close(mkstemp(path));
	unlink(path);
	pid = fork();
	if (pid == 0) {
		_exit(say_hello_within_filter(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(path);
	assert_int_equal(status, 0);
}

int main(void)
{
	alarm(300); /* a wait without end is what these are about */
	return unit_run();
}
