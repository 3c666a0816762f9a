/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/keeper.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/fixture.h"

/* The kernel ends a test's programs with it (PR_SET_PDEATHSIG), but not a daemon that has left root
 * since, nor what a client has started. So a process beside the test, in a session of its own and
 * nobody's child but init's, waits for the test's end. It knows the folders from a page that both
 * share, and the processes by their environment, which names the fixture's folder and which an
 * ordinary user's daemon does not show; that one has left nobody and dies of the kernel's signal.
 *
 * After a test that ended by itself there is nothing to do, and the keeper ends at once. */

enum { ROUNDS = 200, ROUND_MS = 10, ENVIRONMENT_BYTES = 1 << 17 };

static char (*folders)[64]; /* KEEPER_FOLDERS of them, shared; "": none */
static pid_t watched;	    /* a fork of the test is watched anew */

static bool was_started_in(pid_t pid, const char *folder)
{
	static char environment[ENVIRONMENT_BYTES];
	char path[64], wanted[128];
	size_t n = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	snprintf(wanted, sizeof(wanted), "GPUCTR_FAKE_DIR=%s", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n < sizeof(environment) &&
	       (got = read(fd, environment + n, sizeof(environment) - n)) > 0) {
		n += (size_t)got;
	}
	if (fd >= 0) {
		close(fd);
	}
	return memmem(environment, n, wanted, strlen(wanted) + 1) != NULL;
}

/* How many there were. */
static size_t kill_programs(const char *folder)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0])
				    ? (pid_t)strtol(e->d_name, NULL, 10)
				    : 0;

		if (pid > 0 && pid != getpid() && was_started_in(pid, folder)) {
			kill(pid, SIGKILL);
			n++;
		}
	}
	if (d) {
		closedir(d);
	}
	return n;
}

static void tidy_up(void)
{
	for (int i = 0; folders[KEEPER_FIXTURE][0] && i < ROUNDS; i++) {
		if (kill_programs(folders[KEEPER_FIXTURE]) == 0) {
			break;
		}
		poll(NULL, 0, ROUND_MS);
	}
	for (size_t i = 0; i < KEEPER_FOLDERS; i++) {
		if (folders[i][0] && (i != KEEPER_FIXTURE || !getenv("GPUCTR_TEST_KEEP"))) {
			remove_folder(folders[i]);
		}
	}
}

/* Nothing of the test's stays open here: who reads its output waits for the end of that. */
static void keep(int test)
{
	struct pollfd p = { 0, POLLIN, 0 };

	setsid();
	for (int signo = 1; signo < SIGRTMIN; signo++) {
		signal(signo, SIG_DFL);
	}
	dup2(test, 0);
	close_range(1, ~0U, 0);
	while (poll(&p, 1, -1) < 0) {
	}
	tidy_up();
	_exit(0);
}

void keeper_start(void)
{
	int test;
	pid_t pid;

	if (watched == getpid()) {
		return;
	}
	watched = getpid();
	folders = mmap(NULL, KEEPER_FOLDERS * sizeof(*folders), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(folders != MAP_FAILED);
	test = (int)syscall(SYS_pidfd_open, getpid(), 0);
	assert_true(test >= 0);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			keep(test);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(test);
}

void keeper_note(enum keeper_folder which, const char *folder)
{
	if (folders) {
		snprintf(folders[which], sizeof(folders[which]), "%s", folder ? folder : "");
	}
}
