/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the parts of /proc about a process that every user may see. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The uid of pid. -ENOENT when the process is gone or in another pid namespace; another -errno when
 * the uid cannot be read. Does not take the owner of /proc/PID, which is root for undumpable
 * programs. */
int proc_read_uid(pid_t pid, uid_t *ret);

/* Does the process pid, at the other end of this socket, live in the pid namespace of our /proc and
 * in our user namespace, and not in one below, such as a container's? Kernels since 6.5 give a
 * pidfd of the peer: then a reused pid is detected, and a peer without a pidfd gives false. Older
 * kernels do not detect a reused pid, so call this right after accept. */
bool proc_peer_is_of_this_host(int socket, pid_t pid);

/* False under hidepid: processes of others cannot be seen then, and -ENOENT does not mean that they
 * are gone. */
bool proc_shows_others(void);

/* When the process began, in clock ticks since boot; 0: it has ended or is hidden from us.
 * Successive processes with the same pid have different begins. */
uint64_t proc_read_begin(pid_t pid);

/* The path of the process's cgroup as UTF-8, cut to size; "" if it is not known. With cgroup v1 a
 * process has one path in each hierarchy. The longest is returned, because runtimes and schedulers
 * write their ids into the paths that they manage. */
void proc_read_cgroup(pid_t pid, char *text, size_t size);
