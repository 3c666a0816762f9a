/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"

/* Preloaded on a machine whose driver is unrestricted: answers as a restricted driver does. A task
 * without CAP_PERFMON that allocates the profiler object is told "insufficient permissions"; every
 * other ioctl, and every task with the capability, reaches the real driver. */

static int may_profile(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct have[2];

	return syscall(SYS_capget, &header, have) == 0 &&
	       (have[CAP_TO_INDEX(CAP_PERFMON)].effective & CAP_TO_MASK(CAP_PERFMON)) != 0;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, ...);
	struct rm_alloc *p;
	va_list ap;

	va_start(ap, request);
	p = va_arg(ap, void *);
	va_end(ap);
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	}
	if ((request == RM_IOCTL_ALLOC || request == RM_IOCTL_ALLOC_SHORT) &&
	    p->object_class == RM_CLASS_PROFILER_DEVICE && !may_profile()) {
		if (request == RM_IOCTL_ALLOC) {
			p->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
		} else {
			((struct rm_alloc_short *)p)->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
		}
		return 0;
	}
	return next(fd, request, p);
}
