/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/denied_calls.h"
#include "proto/nvidia/rm.h"

/* The filters of workers that run only our code are allow-lists. The granter can reach the driver
 * with exactly two requests, and cannot open files, map executable memory, or create a socket. The
 * front can open files for reading (/etc/passwd, for names) but has no capability and no way to run
 * code that it was not started with. The planner maps NVIDIA's host library, so it may execute code
 * from files, but it reaches no device, no socket and no other process. Less obvious calls in the
 * lists are there for libc and libuv. */

/* Tests preload an ioctl() that acts as a restricted driver and calls capget(). */
static const char granter_calls[] =
	"poll ppoll recvmsg sendmsg sendto statx newfstatat pidfd_open close read write "
	"clock_gettime futex restart_syscall rt_sigreturn exit exit_group brk munmap madvise "
	"capget";

static const char front_calls[] =
	"read readv write writev recvmsg recvfrom sendmsg sendto accept accept4 getsockopt "
	"shutdown close epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 pipe2 poll "
	"ppoll fstat newfstatat lseek clock_gettime clock_getres munmap mremap madvise brk "
	"futex getrandom getuid geteuid getpid gettid restart_syscall rt_sigreturn "
	"rt_sigaction rt_sigprocmask sigaltstack exit exit_group";

/* Calls that CUPTI 13.0.1 was seen to make in this process, and harmless ones for its other
 * releases. */
static const char planner_calls[] =
	"read readv pread64 write writev recvfrom sendto close fstat newfstatat statx lseek "
	"access faccessat readlink readlinkat getdents64 getcwd mmap mprotect munmap mremap "
	"madvise brk futex getrandom uname sysinfo sched_getaffinity sched_yield "
	"clock_gettime clock_getres clock_nanosleep gettimeofday getuid geteuid getpid "
	"gettid rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall "
	"set_robust_list exit exit_group";

/* cuInit() listens on an abstract socket and fails with 304 if that is denied (driver 580.159.04),
 * so listen and accept stay allowed; PrivateNetwork= of the unit keeps others from that socket. */
static const int gpu_denied_calls[] = { NVIDIA_DENIED_CALLS };

static int allow_if(scmp_filter_ctx c, int call, struct scmp_arg_cmp argument)
{
	return seccomp_rule_add(c, SCMP_ACT_ALLOW, call, 1, argument);
}

/* Memory may be mapped and protected, but never made executable. */
static int allow_data_memory(scmp_filter_ctx c)
{
	int r = allow_if(c, SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	return r < 0 ? r
		     : allow_if(c, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int allow_ioctl(scmp_filter_ctx c, unsigned long request)
{
	return allow_if(c, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, request));
}

/* Allows the commands of libuv and libc. F_SETOWN is not among them: with F_SETSIG it can send any
 * signal to any process of the same user, and so kill it. */
static int allow_fcntl(scmp_filter_ctx c)
{
	static const uint64_t commands[] = { F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(commands); i++) {
		r = allow_if(c, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, commands[i]));
	}
	return r;
}

static int fill_granter(scmp_filter_ctx c)
{
	int r = allow_data_memory(c);

	r = r < 0 ? r : allow_ioctl(c, RM_IOCTL_ALLOC);
	r = r < 0 ? r : allow_ioctl(c, RM_IOCTL_FREE);
	r = r < 0 ? r : allow_ioctl(c, RM_IOCTL_CONTROL);
	return r < 0 ? r : allow_if(c, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_GETFL));
}

/* Files may be read; abort() may signal the process itself and no other. */
static int allow_files_and_abort(scmp_filter_ctx c)
{
	int r = allow_if(c, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, (uint64_t)getpid()));

	return r < 0 ? r
		     : allow_if(c, SCMP_SYS(openat),
				SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC,
					O_RDONLY));
}

static int fill_front(scmp_filter_ctx c)
{
	int r = allow_data_memory(c);

	r = r < 0 ? r : allow_ioctl(c, FIONBIO); /* libuv makes a polled descriptor non-blocking */
	r = r < 0 ? r : allow_ioctl(c, FIONREAD);
	r = r < 0 ? r : allow_fcntl(c);
	/* These calls examine a user's descriptor without waiting for its file system. */
	r = r < 0 ? r
		  : allow_if(c, SCMP_SYS(statx),
			     SCMP_A2(SCMP_CMP_MASKED_EQ, AT_STATX_DONT_SYNC, AT_STATX_DONT_SYNC));
	r = r < 0 ? r
		  : seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 2,
				     SCMP_A1(SCMP_CMP_EQ, SOL_SOCKET),
				     SCMP_A2(SCMP_CMP_EQ, SO_OOBINLINE));
	return r < 0 ? r : allow_files_and_abort(c);
}

static int allow_calls(scmp_filter_ctx c, const char *names)
{
	char copy[1024], *rest = copy, *name;
	int r = 0, call;

	snprintf(copy, sizeof(copy), "%s", names);
	while (r == 0 && (name = strsep(&rest, " ")) != NULL) {
		call = seccomp_syscall_resolve_name(name);
		r = call == __NR_SCMP_ERROR ? -EINVAL
					    : seccomp_rule_add(c, SCMP_ACT_ALLOW, call, 0);
	}
	return r;
}

/* The process may start threads, but no namespaces: in its own namespace it would be root and could
 * mount. A filter cannot read the flags of clone3(), which are in memory, so clone3() fails and
 * libc falls back to clone(). */
static int fill_gpu(scmp_filter_ctx c)
{
	static const uint64_t namespaces[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					       CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					       CLONE_NEWNET };
	int r = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(gpu_denied_calls); i++) {
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), gpu_denied_calls[i], 0);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(namespaces); i++) {
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
	}
	return r;
}

static int fill(scmp_filter_ctx c, enum sandbox which)
{
	int r;

	switch (which) {
	case SANDBOX_GRANTER:
		r = allow_calls(c, granter_calls);
		return r < 0 ? r : fill_granter(c);
	case SANDBOX_FRONT:
		r = allow_calls(c, front_calls);
		return r < 0 ? r : fill_front(c);
	case SANDBOX_PLANNER:
		r = allow_calls(c, planner_calls);
		return r < 0 ? r : allow_files_and_abort(c);
	case SANDBOX_GPU:
		return fill_gpu(c);
	}
	return -EINVAL;
}

static int limit_memory(uint64_t bytes)
{
	const struct rlimit l = { bytes, bytes };

	return setrlimit(RLIMIT_AS, &l) < 0 ? -errno : 0;
}

int sandbox_enter(enum sandbox which)
{
	static const uint32_t otherwise[] = {
		[SANDBOX_GRANTER] = SCMP_ACT_KILL_PROCESS,
		[SANDBOX_FRONT] = SCMP_ACT_ERRNO(EPERM),
		[SANDBOX_GPU] = SCMP_ACT_ALLOW,
		[SANDBOX_PLANNER] = SCMP_ACT_ERRNO(EPERM),
	};
	scmp_filter_ctx c = seccomp_init(otherwise[which]);
	int r = c ? seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;

	if (r == 0 && which == SANDBOX_PLANNER) {
		r = limit_memory(SANDBOX_PLANNER_BYTES);
	}
	r = r == 0 ? fill(c, which) : r;
	if (r == 0) {
		r = seccomp_load(c);
	}
	if (c) {
		seccomp_release(c);
	}
	return r;
}
