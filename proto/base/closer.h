/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Used by the granter; the front has several such threads (daemon/front/fd_reaper.h).
 *
 * Closing a descriptor that a user sent can block for as long as the user likes: it may be the last
 * reference to a lingering socket, or a file of a file system in user space. A thread that does
 * nothing else closes such descriptors. */

/* Starts the thread, once in a process. -errno. */
int closer_start(void);

/* Closes fd on the thread, if the thread was started, else at once. -1 is ignored. */
void closer_close(int fd);
