/* SPDX-License-Identifier: Apache-2.0 */
/* A program that shuts itself in by a seccomp filter.
 *
 * fakesandbox WHOM WHAT ACTION WHEN PAUSE
 *
 *     WHOM    thread: the filter is the calling thread's alone; tsync: of all threads that there
 * are WHAT    socket: forbids socket and connect; send: also sendto and sendmsg; deny: what the
 *             agent, and no CUDA program, calls; allow: allows only what this program calls once it
 *             runs, or, before cuInit, what a CUDA program calls; container: as Docker's
 *     ACTION  errno, thread (kill it), process (kill it)
 *     WHEN    parent: loaded before exec; before: before cuInit; after: behind it; later: at
 *             SIGUSR1
 *     PAUSE   so many us between launches
 *
 * Launches kernels until SIGTERM, says "shut in" when it has its filter, and at the end "done". It
 * exits with 7. */

#include <cuda.h>

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 128, STATUS = 7 };

static volatile sig_atomic_t asked, ended; /* asked: once is enough */

static void check(const char *what, int r)
{
	if (r != 0) {
		printf("%s: %d\n", what, r);
		exit(3);
	}
}

static void on_signal(int number)
{
	if (number == SIGTERM) {
		ended = 1;
	} else {
		asked = 1;
	}
}

/* What glibc's malloc and threads, and the driver, call at any time. */
static const int own[] = {
	SCMP_SYS(write),
	SCMP_SYS(exit_group),
	SCMP_SYS(exit),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(futex),
	SCMP_SYS(getpid),
	SCMP_SYS(brk),
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mprotect),
	SCMP_SYS(madvise),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(sched_yield),
	SCMP_SYS(ioctl),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
};

/* What loading libraries, cuInit() and the making of threads call as well. */
static const int starting[] = {
	SCMP_SYS(openat),    SCMP_SYS(close),	   SCMP_SYS(read),
	SCMP_SYS(pread64),   SCMP_SYS(fchmod),	   SCMP_SYS(ftruncate),
	SCMP_SYS(link),	     SCMP_SYS(unlink),	   SCMP_SYS(rt_sigaction),
	SCMP_SYS(getrandom), SCMP_SYS(clone3),	   SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),	     SCMP_SYS(access),	   SCMP_SYS(readlink),
	SCMP_SYS(lseek),     SCMP_SYS(prctl),	   SCMP_SYS(seccomp),
	SCMP_SYS(execve),    SCMP_SYS(arch_prctl), SCMP_SYS(set_tid_address),
	SCMP_SYS(prlimit64),
};

/* What only the agent calls: one at least of these is enough to be killed. */
static const int ours[] = {
	SCMP_SYS(socket),     SCMP_SYS(connect),      SCMP_SYS(sendto), SCMP_SYS(sendmsg),
	SCMP_SYS(recvfrom),   SCMP_SYS(recvmsg),      SCMP_SYS(poll),	SCMP_SYS(ppoll),
	SCMP_SYS(socketpair), SCMP_SYS(memfd_create), SCMP_SYS(wait4),	SCMP_SYS(setsockopt),
};

/* What also CUDA programs call, at their start. */
static const int ours_later[] = {
	SCMP_SYS(openat),    SCMP_SYS(pread64), SCMP_SYS(read),	   SCMP_SYS(close),
	SCMP_SYS(clone),     SCMP_SYS(clone3),	SCMP_SYS(fcntl),   SCMP_SYS(execve),
	SCMP_SYS(prctl),     SCMP_SYS(exit),	SCMP_SYS(geteuid), SCMP_SYS(gettid),
	SCMP_SYS(getrandom), SCMP_SYS(access),
};

static const int of_root_only[] = {
	SCMP_SYS(mount),   SCMP_SYS(ptrace), SCMP_SYS(keyctl),
	SCMP_SYS(bpf),	   SCMP_SYS(reboot), SCMP_SYS(setns),
	SCMP_SYS(unshare), SCMP_SYS(swapon), SCMP_SYS(perf_event_open),
};

#define ADD(filter, action, calls) add(filter, action, calls, sizeof(calls) / sizeof((calls)[0]))

static void add(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		check("seccomp_rule_add", seccomp_rule_add(filter, action, calls[i], 0));
	}
}

static uint32_t action_of(const char *name)
{
	return strcmp(name, "errno") == 0    ? SCMP_ACT_ERRNO(EPERM)
	       : strcmp(name, "thread") == 0 ? SCMP_ACT_KILL_THREAD
					     : SCMP_ACT_KILL_PROCESS;
}

static void shut_in(char **argv, bool started)
{
	const char *what = argv[2];
	uint32_t action = action_of(argv[3]);
	bool allow = strcmp(what, "allow") == 0;
	scmp_filter_ctx filter = seccomp_init(allow ? action : SCMP_ACT_ALLOW);

	if (strcmp(argv[1], "tsync") == 0) {
		check("seccomp_attr_set", seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1));
	}
	if (allow) {
		ADD(filter, SCMP_ACT_ALLOW, own);
		if (!started) {
			ADD(filter, SCMP_ACT_ALLOW, starting);
		}
	} else if (strcmp(what, "container") == 0) {
		ADD(filter, action, of_root_only);
		check("clone3",
		      seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
	} else if (strcmp(what, "deny") == 0) {
		ADD(filter, action, ours);
		if (started) {
			ADD(filter, action, ours_later);
		}
	} else {
		add(filter, action, ours, strcmp(what, "send") == 0 ? 4 : 2);
	}
	check("seccomp_load", seccomp_load(filter));
	seccomp_release(filter);
	if (write(1, "shut in\n", 8) != 8) {
		exit(4);
	}
}

/* Becomes itself again, under the filter. */
static void be_parent(char **argv)
{
	static char done[] = "done";

	shut_in(argv, false);
	argv[4] = done;
	execv(argv[0], argv);
	check("execv", errno);
}

static void launch_on(CUfunction f, char **argv)
{
	bool is_shut_in = false;
	long pause_ns = strtol(argv[5], NULL, 10) * 1000;

	for (unsigned i = 0; !ended; i++) {
		if (asked && !is_shut_in) {
			is_shut_in = true;
			shut_in(argv, true);
		}
		check("cuLaunchKernel",
		      (int)cuLaunchKernel(f, i % 97 + 1, 1, 1, THREADS, 1, 1, 0, NULL, NULL, NULL));
		nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
	}
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	CUfunction f;

	if (argc != 6) {
		return 2;
	}
	if (strcmp(argv[4], "parent") == 0) {
		be_parent(argv);
	} else if (strcmp(argv[4], "before") == 0) {
		shut_in(argv, false);
	}
	asked = strcmp(argv[4], "after") == 0;
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	check("cuInit", (int)cuInit(0));
	check("cuCtxCreate", (int)cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", (int)cuModuleLoadData(&module, "sandbox"));
	check("cuModuleGetFunction", (int)cuModuleGetFunction(&f, module, "_Z4shutPf"));
	launch_on(f, argv);
	return write(1, "done\n", 5) == 5 ? STATUS : 5;
}
