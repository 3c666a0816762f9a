/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proto/nvidia/rm.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/sandbox.h"

/* The table of docs/internals/privileges.md, tried: for each of its calls and processes a child
 * loads the filter and makes the call. Arguments are such that the kernel itself refuses with
 * something else than EPERM, or does no harm. */

enum { COLUMNS = 4 };

enum { OUTCOME_ALLOWED, OUTCOME_EPERM, OUTCOME_ENOSYS, OUTCOME_KILLED };

static const char *const outcomes[] = { "allowed", "EPERM", "ENOSYS", "killed" };

/* The driver's request to map memory, which nobody has any business with. */
enum { RM_IOCTL_OTHER = 0xc038464e };

struct call {
	const char *name;
	long number;
	long v[6];
};

static const struct call calls[] = {
	{ "openat, to read", SYS_openat, { AT_FDCWD, 0, O_RDONLY } },
	{ "openat, to write", SYS_openat, { AT_FDCWD, 0, O_WRONLY } },
	{ "openat, to empty", SYS_openat, { AT_FDCWD, 0, O_RDONLY | O_TRUNC } },
	{ "openat, to create", SYS_openat, { AT_FDCWD, 0, O_RDONLY | O_CREAT, 0600 } },
	{ "unlinkat", SYS_unlinkat, { AT_FDCWD, 0, 0 } },
	{ "socket", SYS_socket, { AF_UNIX, SOCK_STREAM, 0 } },
	{ "connect", SYS_connect, { -1, 0, 0 } },
	{ "execve", SYS_execve, { 0, 0, 0 } },
	{ "clone", SYS_clone, { CLONE_THREAD, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWNS", SYS_clone, { CLONE_THREAD | CLONE_NEWNS, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWCGROUP", SYS_clone, { CLONE_THREAD | CLONE_NEWCGROUP, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWUTS", SYS_clone, { CLONE_THREAD | CLONE_NEWUTS, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWIPC", SYS_clone, { CLONE_THREAD | CLONE_NEWIPC, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWUSER", SYS_clone, { CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWPID", SYS_clone, { CLONE_THREAD | CLONE_NEWPID, 0, 0, 0, 0 } },
	{ "clone CLONE_NEWNET", SYS_clone, { CLONE_THREAD | CLONE_NEWNET, 0, 0, 0, 0 } },
	{ "clone3", SYS_clone3, { 0, 0 } },
	{ "mmap, executable",
	  SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 } },
	{ "mprotect, executable", SYS_mprotect, { 1, 4096, PROT_READ | PROT_EXEC } },
	{ "ioctl RM_ALLOC", SYS_ioctl, { -1, (long)RM_IOCTL_ALLOC, 0 } },
	{ "ioctl RM_FREE", SYS_ioctl, { -1, (long)RM_IOCTL_FREE, 0 } },
	{ "ioctl RM_CONTROL", SYS_ioctl, { -1, (long)RM_IOCTL_CONTROL, 0 } },
	{ "ioctl RM_ALLOC, of another size",
	  SYS_ioctl,
	  { -1, (long)(RM_IOCTL_ALLOC & 0xc000ffff) | 8 << 16, 0 } },
	{ "ioctl, any other of the driver", SYS_ioctl, { -1, (long)RM_IOCTL_OTHER, 0 } },
	{ "kill, of another process", SYS_kill, { INT32_MAX, SIGTERM } },
	{ "tgkill, of another process", SYS_tgkill, { INT32_MAX, INT32_MAX, SIGTERM } },
	{ "fcntl F_SETOWN", SYS_fcntl, { -1, F_SETOWN, 1 } },
	{ "fcntl F_SETOWN_EX", SYS_fcntl, { -1, F_SETOWN_EX, 0 } },
	{ "fcntl F_SETSIG", SYS_fcntl, { -1, F_SETSIG, SIGKILL } },
	{ "ioctl FIOSETOWN", SYS_ioctl, { -1, FIOSETOWN, 0 } },
	{ "ioctl SIOCSPGRP", SYS_ioctl, { -1, SIOCSPGRP, 0 } },
	{ "ioctl FIOASYNC", SYS_ioctl, { -1, FIOASYNC, 0 } },
	{ "setsockopt", SYS_setsockopt, { -1, SOL_SOCKET, SO_SNDBUF, 0, 0 } },
	{ "setresuid", SYS_setresuid, { -1, -1, -1 } },
	{ "prctl", SYS_prctl, { PR_GET_DUMPABLE, 0, 0, 0, 0 } },
	{ "ptrace", SYS_ptrace, { -1, 0, 0, 0 } },
	{ "process_vm_readv", SYS_process_vm_readv, { -1, 0, 0, 0, 0, 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { -1, 0, 0, 0, 0, 0 } },
	{ "pidfd_getfd", SYS_pidfd_getfd, { -1, 0, 0 } },
	{ "mount", SYS_mount, { 0, 1, 0, 0, 0 } },
	{ "umount2", SYS_umount2, { 0, 0 } },
	{ "fsopen", SYS_fsopen, { 0, 0 } },
	{ "fspick", SYS_fspick, { -1, 0, 0 } },
	{ "fsconfig", SYS_fsconfig, { -1, 0, 0, 0, 0 } },
	{ "fsmount", SYS_fsmount, { -1, 0, 0 } },
	{ "open_tree", SYS_open_tree, { -1, 0, 0 } },
	{ "move_mount", SYS_move_mount, { -1, 0, -1, 0, 0 } },
	{ "mount_setattr", SYS_mount_setattr, { -1, 0, 0, 0, 0 } },
	{ "pivot_root", SYS_pivot_root, { 0, 0 } },
	{ "chroot", SYS_chroot, { 0 } },
	{ "unshare", SYS_unshare, { 0 } },
	{ "setns", SYS_setns, { -1, 0 } },
	{ "bpf", SYS_bpf, { -1, 0, 0 } },
	{ "perf_event_open", SYS_perf_event_open, { 0, -1, -1, -1, 0 } },
	{ "userfaultfd", SYS_userfaultfd, { -1 } },
	{ "init_module", SYS_init_module, { 0, 0, 0 } },
};

/* In a child, behind the filter, or without one. */
static int outcome_of(const struct call *c, const enum sandbox *which)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		const long *v = c->v;

		if (which &&
		    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || sandbox_enter(*which) != 0)) {
			_exit(99);
		}
		errno = 0;
		syscall(c->number, v[0], v[1], v[2], v[3], v[4], v[5]);
		_exit(errno == EPERM	? OUTCOME_EPERM
		      : errno == ENOSYS ? OUTCOME_ENOSYS
					: OUTCOME_ALLOWED);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGSYS);
		return OUTCOME_KILLED;
	}
	assert_in_range(WEXITSTATUS(status), OUTCOME_ALLOWED, OUTCOME_ENOSYS);
	return WEXITSTATUS(status);
}

/* A cell without the blanks around it, in place. */
static char *next_cell(char **save)
{
	char *cell = strtok_r(NULL, "|\n", save);

	assert_non_null(cell);
	while (*cell == ' ') {
		cell++;
	}
	for (size_t n = strlen(cell); n > 0 && cell[n - 1] == ' '; n--) {
		cell[n - 1] = '\0';
	}
	return cell;
}

static const struct call *find_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (strcmp(calls[i].name, name) == 0) {
			return &calls[i];
		}
	}
	fail_msg("the document has a call '%s' that is not tried", name);
	return NULL;
}

static void check_call(const char *name, const enum sandbox *columns, char *const *expected)
{
	const struct call *c = find_call(name);
	int without = outcome_of(c, NULL);

	for (size_t i = 0; i < COLUMNS; i++) {
		int seen = outcome_of(c, &columns[i]);

		/* Where the test itself may not, as in some containers and on older kernels,
		 * nothing can be told. */
		if (without != OUTCOME_ALLOWED && seen == without) {
			continue;
		}
		if (strcmp(outcomes[seen], expected[i]) != 0) {
			fail_msg("%s in process %zu: %s, not %s", name, i, outcomes[seen],
				 expected[i]);
		}
	}
}

/* "| call; call | granter | gpu | planner | front |". Returns how many calls it has. */
static size_t check_row(char *line, const enum sandbox *columns)
{
	char *save = line, *names = next_cell(&save), *expected[COLUMNS];
	size_t n = 0;

	for (size_t i = 0; i < COLUMNS; i++) {
		expected[i] = next_cell(&save);
	}
	for (char *name; (name = strsep(&names, ";")); n++) {
		check_call(name + strspn(name, " "), columns, expected);
	}
	return n;
}

TEST(the_filters_are_as_documented)
{
	static const enum sandbox columns[COLUMNS] = { SANDBOX_GRANTER, SANDBOX_GPU,
						       SANDBOX_PLANNER, SANDBOX_FRONT };
	FILE *f = fopen(TEST_PRIVILEGES, "r");
	char line[2048];
	size_t tried = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) &&
	       strcmp(line, "| calls | granter | gpu | planner | front |\n") != 0) {
	}
	while (fgets(line, sizeof(line), f) && line[0] == '|') {
		tried += strncmp(line, "|---", 4) == 0 ? 0 : check_row(line, columns);
	}
	fclose(f);
	assert_int_equal(tried, ARRAY_SIZE(calls));
}

struct threaded {
	sem_t running, turn;
};

/* Waits for its turn, and then tells the errno of socket(). */
static void *call_socket(void *argument)
{
	struct threaded *t = argument;

	sem_post(&t->running);
	sem_wait(&t->turn);
	_exit(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? 0 : errno);
}

/* The threads that call the driver and close descriptors are started before the filter. */
TEST(a_filter_is_for_threads_that_run_already)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct threaded t;
		pthread_t thread;

		if (sem_init(&t.running, 0, 0) < 0 || sem_init(&t.turn, 0, 0) < 0 ||
		    pthread_create(&thread, NULL, call_socket, &t) != 0 ||
		    sem_wait(&t.running) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    sandbox_enter(SANDBOX_FRONT) != 0) {
			_exit(99);
		}
		sem_post(&t.turn);
		pthread_join(thread, NULL);
		_exit(98);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EPERM);
}

/* --- memory of the others --- */

/* errno of opening the memory of process pid behind the gpu process's filter; 0: it is open. */
static int open_memory_of(pid_t pid)
{
	char path[64];
	int status;
	pid_t child;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	child = fork();
	if (child == 0) {
		if (privilege_enter(true) < 0 || sandbox_enter(SANDBOX_GPU) < 0) {
			_exit(99);
		}
		_exit(open(path, O_RDWR) >= 0 ? 0 : errno);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A process of an ordinary user, like one that systemd starts as the daemon's; another one is to
 * be its sibling. */
static pid_t start_sibling(bool of_the_daemon, int *ret_told)
{
	int ends[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (of_the_daemon && (privilege_leave_root("") < 0 || privilege_enter(true) < 0)) {
			_exit(99);
		}
		if (write(ends[1], "", 1) == 1) {
			pause();
		}
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	*ret_told = ends[0];
	return pid;
}

static int open_memory_of_sibling(bool of_the_daemon)
{
	int told, result;
	pid_t pid = start_sibling(of_the_daemon, &told);

	result = open_memory_of(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(told);
	return result;
}

TEST(one_process_cannot_open_the_memory_of_another)
{
	enum { NOBODY = 65534 };

	if (getuid() == 0) {
		assert_int_equal(setresuid(NOBODY, NOBODY, NOBODY), 0);
	}
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	if (open_memory_of_sibling(false) != 0) {
		unit_skip("a rule of this machine, Yama say, forbids it already");
	}
	assert_int_equal(open_memory_of_sibling(true), EACCES);
}
