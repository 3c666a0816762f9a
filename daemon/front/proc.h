/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_PROC_H
#define GPUCTR_FRONT_PROC_H

/* What /proc tells everybody about a process. */

#include <stdbool.h>
#include <sys/types.h>

/* The uid of pid; -ENOENT when it is gone, or in another pid namespace; another -errno: it cannot
 * be told. Not the owner of its folder, which is root's for a program that may not be dumped. */
int proc_read_uid(pid_t pid, uid_t *ret);

/* Does the process at the other end of this socket, pid, live in the pid namespace of our /proc,
 * and not in one below: a container's? Where the kernel gives a pidfd of it (6.5), a pid that was
 * used again is found out; before, who asks at once knows as well as can be. */
bool proc_peer_is_of_this_machine(int socket, pid_t pid);

/* With hidepid nobody else's process can be seen, and "gone" would mean nothing. */
bool proc_shows_others(void);

#endif
