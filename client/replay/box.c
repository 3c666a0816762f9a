/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/box.h"

#include <errno.h>
#include <limits.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clean.h"

/* An allow-list: the process may allocate memory that is not executable, use its one descriptor,
 * and end. All other calls fail with EPERM and do not end the process, because CUPTI works without
 * what it asks for (its environment, a settings file). Memory is limited, so that a count in an
 * image cannot take all memory of the machine, and a crash leaves no core file. */

enum { DATA_BYTES_MAX_GIB = 4 };

static const int calls[] = {
	SCMP_SYS(read),		  SCMP_SYS(write),
	SCMP_SYS(futex),	  SCMP_SYS(brk),
	SCMP_SYS(munmap),	  SCMP_SYS(mremap),
	SCMP_SYS(madvise),	  SCMP_SYS(clock_gettime),
	SCMP_SYS(getrandom),	  SCMP_SYS(sched_yield),
	SCMP_SYS(getpid),	  SCMP_SYS(gettid),
	SCMP_SYS(rt_sigreturn),	  SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(restart_syscall),
	SCMP_SYS(exit),		  SCMP_SYS(exit_group),
};

static int allow_data_memory(scmp_filter_ctx c, int call)
{
	return seccomp_rule_add(c, SCMP_ACT_ALLOW, call, 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int fill(scmp_filter_ctx c)
{
	int r = allow_data_memory(c, SCMP_SYS(mmap));

	r = r < 0 ? r : allow_data_memory(c, SCMP_SYS(mprotect));
	/* abort() may signal the process itself and no other. */
	r = r < 0 ? r
		  : seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				     SCMP_A0(SCMP_CMP_EQ, (uint64_t)getpid()));
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(calls); i++) {
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, calls[i], 0);
	}
	return r;
}

static int load_filter(void)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = c ? fill(c) : -ENOMEM;

	r = r < 0 ? r : seccomp_load(c);
	if (c) {
		seccomp_release(c);
	}
	return r;
}

static int close_others(int fd)
{
	if (fd > 0 && syscall(SYS_close_range, 0u, (unsigned)fd - 1, 0u) < 0) {
		return -errno;
	}
	return syscall(SYS_close_range, (unsigned)fd + 1, UINT_MAX, 0u) < 0 ? -errno : 0;
}

int box_enter(int fd)
{
	const struct rlimit data = { (rlim_t)DATA_BYTES_MAX_GIB << 30,
				     (rlim_t)DATA_BYTES_MAX_GIB << 30 };
	const struct rlimit core = { 0, 0 };

	if (setrlimit(RLIMIT_DATA, &data) < 0 || setrlimit(RLIMIT_CORE, &core) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		return -errno;
	}
	return close_others(fd) < 0 ? -errno : load_filter();
}
