/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

/* The listening sockets that systemd passes, else one that is bound at c->socket, open to whom the
 * policy lets in, for which it may wait two seconds. Fills at most room entries of fds; *ret_own
 * says that the socket is ours to remove. Logs errors and returns -errno. */
int sockets_open(const struct config *c, int *fds, size_t room, size_t *ret_n, bool *ret_own);

/* Those that systemd passes alone; returns how many. They do not block. */
size_t sockets_take_passed(int *fds, size_t room);
