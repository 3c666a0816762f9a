/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* System calls that are denied to a process with NVIDIA's libraries, which do not need them: calls
 * for other processes' memory, mounts, namespaces, and the kernel's modules, programs and keys. */

#include <seccomp.h>

#define NVIDIA_DENIED_CALLS                                                                   \
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),            \
		SCMP_SYS(pidfd_getfd), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(fsopen),  \
		SCMP_SYS(fspick), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(open_tree), \
		SCMP_SYS(move_mount), SCMP_SYS(mount_setattr), SCMP_SYS(pivot_root),          \
		SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare), SCMP_SYS(bpf),          \
		SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(init_module),      \
		SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),        \
		SCMP_SYS(add_key), SCMP_SYS(keyctl), SCMP_SYS(request_key)
