/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/limits.h"

/* Rules that decide, each from both sides of its border, with the code that the user hears and the
 * line that the audit log gets. */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

/* A child of root's connects and hands its socket on. While it lives the socket speaks for root of
 * this machine. Once it has ended nobody knows whose pid it is: its number may be another's. */
static int connect_by_child(struct fixture *f, bool lives, pid_t *ret)
{
	int fds[2], fd = -1;
	pid_t pid;
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	if (pid == 0) {
		int own = raw_dial(f->socket);

		(void)!raw_send_descriptors(fds[1], "x", 1, own, 1);
		while (lives) {
			pause();
		}
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(recvmsg(fds[0], &m, 0), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	close(fds[0]);
	close(fds[1]);
	if (!lives) { /* it has ended, and its pid and /proc entry are still there: a zombie */
		siginfo_t info;

		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	}
	*ret = pid;
	return fd;
}

/* What the daemon answers to a statement of jobs on this socket. */
static struct wire_message state_job(int fd, struct arena *a)
{
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "raw" } };
	struct wire_message end = { .type = WIRE_JOB_END, .job_end = { 7, "none" } };

	assert_true(raw_send(fd, &hello, -1));
	assert_int_equal(raw_receive(fd, a).type, WIRE_WELCOME);
	assert_true(raw_send(fd, &end, -1));
	return raw_receive(fd, a);
}

SYSTEM_TEST(who_has_ended_is_not_root_of_this_machine)
{
	struct fixture *f = *state;
	struct wire_message answer;
	struct arena a;
	pid_t pid;
	int fd, pidfd;
	socklen_t n = sizeof(pidfd);

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fd = connect_by_child(f, true, &pid);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) < 0) {
		fixture_skip("needs SO_PEERPIDFD, of Linux 6.5");
	}
	answer = state_job(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_BAD_REQUEST); /* no such job: it may ask */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);

	kill(fixture_worker(f, "front"), SIGSTOP); /* it looks when the child has ended */
	fd = connect_by_child(f, false, &pid);
	kill(fixture_worker(f, "front"), SIGCONT);
	answer = state_job(fd, &a);
	assert_int_equal(answer.type, WIRE_REFUSAL);
	assert_int_equal(answer.refusal.code, GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	arena_deinit(&a);
}

/* Says hello; true when she is refused because nobody knows her groups. */
static bool is_refused_for_groups(struct fixture *f, struct arena *a)
{
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "raw" } };
	int fd = raw_connect(f, USER_ANN);
	struct wire_message m;
	bool refused = false;

	raw_send(fd, &hello, -1);
	if (raw_next(fd, a, &m) && m.type == WIRE_REFUSAL &&
	    strstr(m.refusal.message, "your groups could not be read")) {
		assert_int_equal(m.refusal.code, GPUCTR_E_NOT_ALLOWED);
		refused = true;
		assert_false(raw_next(fd, a, &m));
	}
	close(fd);
	return refused;
}

/* The kernel is asked twice: how many there are, and which. The front's calls fail one after the
 * other, so each of the two is met. */
SYSTEM_TEST(whose_groups_are_not_known_is_not_let_in)
{
	const gid_t groups[] = { 5001, 5002 };
	struct fixture *f = *state;
	unsigned refused = 0;
	struct arena a;

	fixture_need_root();
	f->preloads_failures = true;
	fixture_start_daemon(f, NULL);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	assert_false(is_refused_for_groups(f, &a));
	fixture_set_knob(f, "fail_in", 3); /* the front */
	fixture_set_knob(f, "fail_errno", ENOMEM);
	for (unsigned i = 0; i < 48 && refused < 2; i++) {
		fixture_set_knob(f, "fail_call", 1 + i % 16);
		refused += is_refused_for_groups(f, &a);
	}
	fixture_set_knob(f, "fail_call", 0);
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(refused, 2);
	arena_deinit(&a);
}
