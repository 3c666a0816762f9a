/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/agent/filters.h"
#include "proto/base/clean.h"

/* What a filter forbids cannot be read. The thread that loads the agent makes only system calls
 * that the dynamic linker or pthread_create() makes as well; without these no program can use CUDA.
 * A forked child inherits the filter, and tries the system calls of the agent, of glibc in the
 * agent's threads, and of CUPTI: a forbidden call kills the child, or fails with another error than
 * the kernel's.
 *
 * The child has a copy of the program's memory and not the memory itself: Linux before 5.16 kills
 * all processes that share the memory of one that a filter kills. The child takes no lock and
 * allocates nothing, because another thread may have been in malloc(). Its exit signal is 0, so
 * that the program's wait() and SIGCHLD do not report it. */

/* The result of a call without a filter. */
enum { DONE = 0, ANY = -1 };

struct call_tried {
	long number;
	int error; /* DONE, or the errno */
	long a[5];
};

static const struct call_tried calls[] = {
	/* The connection, the courier. */
	{ SYS_poll, DONE, { 0, 0, 0 } },
	{ SYS_connect, EBADF, { -1 } },
	{ SYS_sendto, EBADF, { -1 } },
	{ SYS_sendmsg, EBADF, { -1 } },
	{ SYS_recvfrom, EBADF, { -1 } },
	{ SYS_recvmsg, EBADF, { -1 } },
	{ SYS_setsockopt, EBADF, { -1 } },
	{ SYS_read, EBADF, { -1 } },
	{ SYS_write, EBADF, { -1 } },
	{ SYS_fcntl, EBADF, { -1, F_DUPFD_CLOEXEC, 512 } },
	{ SYS_fcntl, EBADF, { -1, F_GETFL } },
	{ SYS_fcntl, EBADF, { -1, F_SETFL, O_NONBLOCK } },
	{ SYS_shutdown, EBADF, { -1 } },
	{ SYS_socketpair, EFAULT, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0 } },
	{ SYS_memfd_create, EFAULT, { 0, MFD_CLOEXEC } },
	{ SYS_ftruncate, EBADF, { -1, 4096 } },
	{ SYS_dup2, EBADF, { -1, -1 } },
	{ SYS_execve, EFAULT, { 0, 0, 0 } },
	{ SYS_access, EFAULT, { 0, 0 } },
	{ SYS_wait4, ECHILD, { -1, 0, WNOHANG | __WCLONE } },
	{ SYS_getpid, DONE, { 0 } },
	{ SYS_gettid, DONE, { 0 } },
	{ SYS_geteuid, DONE, { 0 } },
	{ SYS_prlimit64, DONE, { 0, RLIMIT_NOFILE, 0, 0 } },
	{ SYS_setsid, ANY, { 0 } },
	{ SYS_close_range, ANY, { ~0U, ~0U, 0 } },
	{ SYS_chdir, EFAULT, { 0 } },
	/* Threads and memory. */
	{ SYS_rt_sigprocmask, DONE, { SIG_SETMASK, 0, 0, 8 } },
	{ SYS_futex, EFAULT, { 0, FUTEX_WAKE, 1 } },
	{ SYS_set_robust_list, EINVAL, { 0, 0 } },
	{ SYS_madvise, DONE, { 0, 0, MADV_DONTNEED } },
	{ SYS_brk, DONE, { 0 } },
	{ SYS_sched_yield, DONE, { 0 } },
	{ SYS_clock_nanosleep, EFAULT, { CLOCK_MONOTONIC, 0, 0, 0 } },
	{ SYS_clock_gettime, EFAULT, { CLOCK_MONOTONIC, 1 } },
	{ SYS_getrandom, DONE, { 0, 0, 1 } },
	{ SYS_prctl, EFAULT, { PR_SET_NAME, 1 } },
	{ SYS_prctl, EFAULT, { PR_GET_CHILD_SUBREAPER, 1 } },
	{ SYS_rseq, ANY, { 0, 0, 0, 0 } },
	/* Libraries and devices: CUPTI. */
	{ SYS_newfstatat, EFAULT, { AT_FDCWD, 0, 0, 0 } },
	{ SYS_readlink, EFAULT, { 0, 0, 1 } },
	{ SYS_getdents64, EBADF, { -1 } },
	{ SYS_ioctl, EBADF, { -1 } },
	{ SYS_lseek, EBADF, { -1 } },
	{ SYS_uname, EFAULT, { 0 } },
	{ SYS_sysinfo, EFAULT, { 0 } },
	{ SYS_sched_getaffinity, EINVAL, { 0, 0, 0 } },
	{ SYS_rt_sigaction, DONE, { SIGUSR1, 0, 0, 8 } },
};

static bool is_allowed(const struct call_tried *c)
{
	long r = syscall(c->number, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]);

	return c->error == ANY || (c->error == DONE ? r >= 0 : r < 0 && errno == c->error);
}

/* Filters may check the arguments of these calls, so the child makes them as the agent does. */
static bool tries_memory_and_files(void)
{
	char byte, *p;
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (s < 0 || fd < 0 || pread(fd, &byte, 1, 0) != 1 || read(fd, &byte, 1) != 1 ||
	    fcntl(fd, F_GETFD) < 0 || lseek(fd, 0, SEEK_SET) < 0 || close(s) < 0 || close(fd) < 0) {
		return false;
	}
	p = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1,
		 0);
	return p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_WRITE) == 0 &&
	       madvise(p, 4096, MADV_DONTNEED) == 0 && munmap(p, 8192) == 0;
}

/* Writes no core file. A limit of 1 also keeps the kernel from starting a program that takes core
 * files. */
static _Noreturn void run_trial(atomic_bool *passed)
{
	const struct rlimit no_core = { 1, 1 };
	bool all = true;

	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	for (size_t i = 0; all && i < ARRAY_SIZE(calls); i++) {
		all = is_allowed(&calls[i]);
	}
	if (all && tries_memory_and_files()) {
		atomic_store(passed, true);
	}
	syscall(SYS_exit, 0); /* the call by which a thread ends */
	_exit(1);
}

/* pthread_create() of glibc 2.34 and newer calls clone3(), and clone() only if clone3() fails with
 * ENOSYS; a filter cannot look at the arguments of clone3(). CLONE_VFORK makes the caller wait for
 * the child's end without a further call, which might be forbidden. */
static long fork_and_wait(void)
{
	struct clone_args a = { .flags = CLONE_VFORK | CLONE_CLEAR_SIGHAND };
	long child = -1;

	errno = ENOSYS;
	if (strverscmp(gnu_get_libc_version(), "2.34") >= 0) {
		child = syscall(SYS_clone3, &a, sizeof(a));
	}
	return child < 0 && errno == ENOSYS ? syscall(SYS_clone, CLONE_VFORK, 0, 0, 0, 0) : child;
}

static bool try_in_child(void)
{
	atomic_bool *passed = mmap(NULL, sizeof(*passed), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long child;
	int status = -1;
	bool ok;

	if (passed == MAP_FAILED) {
		return false;
	}
	child = fork_and_wait();
	if (child == 0) {
		run_trial(passed);
	}
	if (child < 0 || !atomic_load(passed)) {
		return false; /* leaves a dead child, because waiting for it may be forbidden */
	}
	while (waitpid((pid_t)child, &status, __WCLONE) < 0 && errno == EINTR) {
	}
	ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	munmap(passed, sizeof(*passed));
	return ok;
}

bool trial_is_passed(void)
{
	struct filters f = filters_of_thread();

	return f.mode == 0 || try_in_child();
}
