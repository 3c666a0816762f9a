/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BASE_CLOSER_H
#define GPUCTR_BASE_CLOSER_H

/* Of the granter; the front has several such threads (daemon/front/closers.h).
 *
 * Closing a descriptor that a user sent can block for as long as the user likes: the last reference
 * to a lingering socket, a file of a file system in user space. Such descriptors are closed by a
 * thread that does nothing else. */

/* Starts the thread, once in a process. -errno. */
int closer_start(void);

/* Closes fd, by the thread when there is one. -1 is ignored. */
void closer_close(int fd);

#endif
