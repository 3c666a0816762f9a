/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/box.h"

#include <dlfcn.h>
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/clean.h"
#include "proto/base/denied_calls.h"

/* Calls that no library needs to enable, read and disable counters. They fail with EPERM but do not
 * end the process, and all others are allowed (files, devices, threads, memory, local sockets),
 * because nobody knows which calls another release of NVIDIA's libraries makes. An io_uring would
 * get around the filter. */
static const int denied[] = {
	NVIDIA_DENIED_CALLS,	  SCMP_SYS(execve),	     SCMP_SYS(execveat),
	SCMP_SYS(io_uring_setup), SCMP_SYS(kexec_file_load),
};

static int fill(scmp_filter_ctx c)
{
	int r = seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, 1);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(denied); i++) {
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
	}
	return r ? r
		 : seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
				    SCMP_A0(SCMP_CMP_NE, AF_UNIX));
}

void box_enter(void)
{
	void (*keeps_asking)(void) =
		(void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "gpuctr_permit_keeps_asking");
	scmp_filter_ctx c;

	if (getenv("GPUCTR_PERMIT") && !keeps_asking) {
		return;
	}
	c = seccomp_init(SCMP_ACT_ALLOW);
	if (c && fill(c) == 0 && seccomp_load(c) == 0 && keeps_asking) {
		keeps_asking();
	}
	if (c) {
		seccomp_release(c);
	}
}
