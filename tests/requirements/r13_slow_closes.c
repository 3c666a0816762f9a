/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/fdpass.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R13, of users who are not allowed: descriptors whose close takes long, in every place where the
 * front could come to close one. They are TCP sockets that linger for two minutes over data that
 * nobody reads, and their sender has closed its own. Bob has a connection, and is answered on it as
 * if nothing were; afterwards nothing is left of it in the front. */

enum {
	LINGER_S = 120,
	SHARE = 10, /* of that, at most, on a machine that is busy */
	ROUNDS = 4,
	CONNECTIONS = 64, /* of a user */
	BOUND_MS = 500,
	FEW_DESCRIPTORS = 1024,
	CROWD = 480, /* more than are accepted then */
	USER_CROWD = 5000,
};

/* --- the hostile process; no expectation may fail here --- */

static int open_sink(struct sockaddr_in *ret)
{
	const int small = 4096; /* the kernel resets what takes too much of its memory */
	socklen_t size = sizeof(*ret);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (bind(fd, (struct sockaddr *)ret, size) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)ret, &size) < 0) {
		_exit(121);
	}
	return fd;
}

static int lingering_socket(void)
{
	static struct sockaddr_in sink;
	static const char zeros[4096];
	const struct linger linger = { 1, LINGER_S };
	const int small = 4096;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sink.sin_port == 0) {
		open_sink(&sink);
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	if (connect(fd, (struct sockaddr *)&sink, sizeof(sink)) < 0) {
		_exit(122);
	}
	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0) {
	}
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

/* Nobody has taken them: they would hang us. */
static void end_linger(const int *fds, size_t n)
{
	const struct linger none = { 0 };

	for (size_t i = 0; i < n; i++) {
		setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	}
}

static void on_alarm(int signo)
{
	(void)signo;
}

/* The front may have been faster: then the last reference is ours, and hangs us until a signal. */
static void close_impatiently(const int *fds, size_t n)
{
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	const struct sigaction interrupt = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (size_t i = 0; i < n; i++) {
		close(fds[i]);
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

/* A byte and n descriptors of their own, which are closed here at once. */
static void send_lingering(int socket, size_t n, int flags)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (char[]){ 'x' }, 1 };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	int fds[FDPASS_MAX];

	for (size_t i = 0; i < n; i++) {
		fds[i] = lingering_socket();
	}
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	if (sendmsg(socket, &m, flags | MSG_NOSIGNAL) < 0) {
		end_linger(fds, n);
	}
	close_impatiently(fds, n);
}

static void in_messages(const char *path)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd = raw_dial(path);

		send_lingering(fd, FDPASS_MAX, 0);
		send_lingering(fd, 1, 0);
		close(fd);
	}
}

/* Has said everything before the front accepts the first of them. */
static void in_refused_connections(const char *path)
{
	for (int i = 0; i < ROUNDS * 100; i++) {
		int fd = raw_dial(path);

		send_lingering(fd, 1, 0);
		send_lingering(fd, 2, 0);
		close(fd);
	}
	raise(SIGSTOP);
}

static void out_of_band(const char *path)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd = raw_dial(path);

		send_lingering(fd, 1, MSG_OOB);
		send(fd, "more", 4, MSG_NOSIGNAL);
		send_lingering(fd, 2, MSG_OOB);
		close(fd);
	}
}

/* --- what Bob feels --- */

static pid_t start_hostile(struct fixture *f, void (*attack)(const char *path))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresgid(USER_ANN, USER_ANN, USER_ANN) < 0 ||
		    setresuid(USER_ANN, USER_ANN, USER_ANN) < 0) {
			_exit(120);
		}
		attack(f->socket);
		sleep_ms(200);
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

/* The front does not run until the hostile process has said everything. */
static pid_t start_hostile_first(struct fixture *f, void (*attack)(const char *path))
{
	pid_t front = fixture_worker(f, "front"), pid;
	int status;

	assert_int_equal(kill(front, SIGSTOP), 0);
	pid = start_hostile(f, attack);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(kill(front, SIGCONT), 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	return pid;
}

static void expect_answers_under(struct fixture *f, int bob, const char *what,
				 void (*attack)(const char *path))
{
	struct latencies quiet = { 0 }, during = { 0 };
	struct footprint before;
	int status = -1;
	pid_t pid;

	load_take_footprint(f, &before);
	load_ask(bob, &quiet, 300);
	pid = attack == in_refused_connections ? start_hostile_first(f, attack)
					       : start_hostile(f, attack);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		load_ask(bob, &during, 50);
	}
	load_ask(bob, &during, 300);
	assert_int_equal(status, 0);
	requirement_figure("R13",
			   "sockets that linger, %s: round trip p99 %.0f us quiet, %.0f during, "
			   "at worst %.0f",
			   what, latencies_us(&quiet, 99), latencies_us(&during, 99),
			   latencies_us(&during, 100));
	assert_true(latencies_us(&during, 100) < 1e6 * LINGER_S / SHARE);
	assert_true(!requirement_times_hold() || latencies_us(&during, 100) < 1000.0 * BOUND_MS);
	expect_no_leak(f, &before);
	latencies_deinit(&quiet);
	latencies_deinit(&during);
}

static int start_for_bob(struct fixture *f, const char *setting)
{
	fixture_need_root();
	fixture_limit(120);
	fixture_start_strict_daemon(f, "--set", setting, NULL);
	expect_service(f, 1000);
	return raw_client(f, USER_BOB);
}

SYSTEM_TEST(closes_that_take_long_hurt_nobody_else)
{
	struct fixture *f = *state;
	int bob = start_for_bob(f, "allow-users=0,1235"), anns[CONNECTIONS];
	pid_t front = fixture_worker(f, "front");

	expect_answers_under(f, bob, "253 in a message", in_messages);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		anns[i] = raw_connect(f, USER_ANN);
	}
	expect_answers_under(f, bob, "in refused connections", in_refused_connections);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		close(anns[i]);
	}
	expect_answers_under(f, bob, "out of band", out_of_band);
	assert_int_equal(fixture_worker(f, "front"), front);
	expect_service(f, 1000);
	close(bob);
}

/* The kernel closes what finds no place in the table. The limit stays with this process, so this is
 * the last test. */
SYSTEM_TEST(nor_do_they_when_descriptors_are_few)
{
	const struct rlimit few = { FEW_DESCRIPTORS, FEW_DESCRIPTORS };
	struct fixture *f = *state;
	int bob, crowd[CROWD];

	fixture_need_root();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	bob = start_for_bob(f, "allow-users=*"); /* whom nothing lets in holds no descriptor */
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i] = raw_connect(f, USER_CROWD + (int)i / 64);
	}
	expect_text_soon(f->daemon->err, "out of descriptors");
	for (size_t i = 0; i < 32; i++) {
		close(crowd[i]);
	}
	expect_answers_under(f, bob, "253 in a message, with few descriptors", in_messages);
	for (size_t i = 32; i < ARRAY_SIZE(crowd); i++) {
		close(crowd[i]);
	}
	close(bob);
}
