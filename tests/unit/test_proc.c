/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/front/proc.h"

/* What /proc tells of processes. */

enum { NOBODY = 65534, NO_MOUNT = 77, PEERPIDFD = 77 };

static int pidfd_error; /* 0: the kernel answers */

/* Before libc's. */
__attribute__((visibility("default"))) int getsockopt(int fd, int level, int name, void *value,
						      socklen_t *size)
{
	if (level == SOL_SOCKET && name == PEERPIDFD && pidfd_error != 0) {
		errno = pidfd_error;
		return -1;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
}

/* In a child with a mount namespace of its own. */
static int shows_others(const char *options)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, options) < 0 ||
	    setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0) {
		return NO_MOUNT;
	}
	return proc_shows_others();
}

static int ask_with(const char *options)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		_exit(shows_others(options));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(hidepid_hides_others)
{
	int open = ask_with(""), hidden = ask_with("hidepid=2");

	if (open == NO_MOUNT || hidden == NO_MOUNT) {
		unit_skip("no other /proc can be mounted here");
	}
	assert_int_equal(open, 1);
	assert_int_equal(hidden, 0);
}

TEST(who_runs_is_told)
{
	uid_t uid = NOBODY;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_int_equal(proc_read_uid(pid, &uid), 0);
	assert_int_equal(uid, getuid());
	assert_true(proc_read_begin(pid) >= proc_read_begin(getpid()));
	assert_true(proc_read_begin(getpid()) > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(proc_read_uid(pid, &uid), -ENOENT);
	assert_int_equal(proc_read_begin(pid), 0);
}

/* It is in no pid namespace below ours. */
TEST(a_peer_is_of_this_machine)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_true(proc_peer_is_of_this_host(ends[0], getpid()));
	close(ends[0]);
	close(ends[1]);
}

static int listen_anywhere(struct sockaddr_un *ret, socklen_t *ret_size)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*ret_size = sizeof(*ret);
	assert_int_equal(bind(listener, (struct sockaddr *)ret, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)ret, ret_size), 0);
	return listener;
}

static _Noreturn void connect_and_stay(const struct sockaddr_un *a, socklen_t size)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	_exit(connect(fd, (const struct sockaddr *)a, size) < 0 ? 1 : pause());
}

/* Its pid may be another's soon, even while it is a zombie. */
TEST(a_peer_that_has_ended_is_not_of_this_machine)
{
	struct sockaddr_un a;
	socklen_t size, n = sizeof(int);
	int listener = listen_anywhere(&a, &size), fd, pidfd;
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0) {
		connect_and_stay(&a, size);
	}
	fd = accept(listener, NULL, NULL);
	assert_true(proc_peer_is_of_this_host(fd, pid));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	if (getsockopt(fd, SOL_SOCKET, PEERPIDFD, &pidfd, &n) < 0 && errno == ENOPROTOOPT) {
		skip(); /* older than Linux 6.5 */
	}
	assert_false(proc_peer_is_of_this_host(fd, pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	close(listener);
}

TEST(a_peer_in_another_pid_namespace_is_not_of_this_machine)
{
	struct sockaddr_un a;
	struct ucred peer;
	socklen_t size, n = sizeof(peer);
	int listener = listen_anywhere(&a, &size), fd, status;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0) {
			_exit(NO_MOUNT);
		}
		if (fork() == 0) {
			connect_and_stay(&a, size);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == NO_MOUNT) {
		unit_skip("no pid namespace can be made here");
	}
	fd = accept(listener, NULL, NULL);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n), 0);
	assert_false(proc_peer_is_of_this_host(fd, peer.pid));
	kill(peer.pid, SIGKILL);
	close(fd);
	close(listener);
}

/* A child in a user namespace of its own waits until the test has looked. */
static pid_t fork_namespaced(int *ret_end)
{
	int ends[2];
	char ready = 0;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		ready = unshare(CLONE_NEWUSER) == 0;
		if (write(ends[1], &ready, 1) == 1 && read(ends[1], &ready, 1) == 0) {
			_exit(0);
		}
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &ready, 1), 1);
	*ret_end = ready ? ends[0] : -1;
	if (!ready) {
		close(ends[0]);
		waitpid(pid, NULL, 0);
	}
	return pid;
}

/* Root there is nobody here, whatever its pid. */
TEST(a_peer_in_another_user_namespace_is_not_of_this_machine)
{
	int end;
	pid_t pid = fork_namespaced(&end);

	if (end < 0) {
		skip();
	}
	assert_false(proc_peer_is_of_this_host(end, pid));
	close(end);
	waitpid(pid, NULL, 0);
}

/* EINVAL and ESRCH: the peer was reaped. ENOPROTOOPT: the kernel is older than 6.5. */
TEST(a_peer_whose_pidfd_cannot_be_had_is_not_of_this_machine)
{
	static const int errors[] = { EINVAL, ESRCH, ENODATA, EMFILE };
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		pidfd_error = errors[i];
		assert_false(proc_peer_is_of_this_host(ends[0], getpid()));
	}
	pidfd_error = ENOPROTOOPT;
	assert_true(proc_peer_is_of_this_host(ends[0], getpid()));
	pidfd_error = 0;
	close(ends[0]);
	close(ends[1]);
}
