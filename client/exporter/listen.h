/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Sockets to listen on. Each function returns a descriptor, or -1 after printing why. */

/* A Unix socket for its owner and group; a socket that nobody listens on any more is replaced. */
int listen_unix(const char *path);

/* "127.0.0.1:9836", "[::1]:9836": numbers only, nothing is looked up. */
int listen_tcp(const char *address);

/* Takes the sockets that systemd passes, at most room. */
size_t listen_passed(int *fds, size_t room);
