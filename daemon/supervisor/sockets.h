/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_SOCKETS_H
#define GPUCTR_DAEMON_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

/* The listening sockets that systemd passes, or else one at path. Fills fds, up to room; *ret_own
 * says that the one at path is ours to remove. Logs what is wrong and returns -errno. */
int sockets_open(const char *path, int *fds, size_t room, size_t *ret_n, bool *ret_own);

#endif
