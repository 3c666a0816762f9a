/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/replay/box.h"

/* What a process can still do once it is in the box. Each question is asked by a child, which
 * answers with a byte on the descriptor that it keeps. */

static bool is_refused(bool succeeded)
{
	return !succeeded && errno == EPERM;
}

static bool opens_nothing(void)
{
	return is_refused(open("/etc/passwd", O_RDONLY) >= 0);
}

static bool connects_nowhere(void)
{
	return is_refused(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
}

static bool starts_nothing(void)
{
	execl("/bin/true", "true", NULL);
	return errno == EPERM && is_refused(fork() >= 0);
}

static bool signals_nobody(void)
{
	return is_refused(kill(getppid(), 0) == 0);
}

static bool runs_no_memory(void)
{
	return is_refused(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static bool has_no_other_descriptor(void)
{
	char c = 0;

	return write(STDERR_FILENO, &c, 1) < 0 && errno == EBADF;
}

static bool has_memory_but_not_all(void)
{
	void *some = malloc(64 << 20), *much;

	if (!some) {
		return false;
	}
	memset(some, 1, 64 << 20);
	much = malloc((size_t)8 << 30);
	return !much;
}

static void expect(bool (*question)(void))
{
	int pair[2], status;
	char answer = 0;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		answer = box_enter(pair[1]) == 0 && question() ? 'y' : 'n';
		_exit(write(pair[1], &answer, 1) == 1 ? 0 : 1);
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], &answer, 1), 1);
	assert_int_equal(answer, 'y');
	close(pair[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(nothing_is_left_but_to_compute)
{
	bool (*const questions[])(void) = {
		opens_nothing,	connects_nowhere,	 starts_nothing,	 signals_nobody,
		runs_no_memory, has_no_other_descriptor, has_memory_but_not_all,
	};

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		expect(questions[i]);
	}
}
