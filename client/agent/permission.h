/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Forwards to the daemon the only request of libcuda's that needs a permission which the user
 * lacks. */

#include "proto/wire/status.h"

/* Redirects libcuda's import of ioctl. 0, or a code with r filled; nothing is changed then. */
int permission_install(const char *socket_path, const char *token, struct refusal *r);

/* Restores libcuda's import. Does nothing if it was not redirected. */
void permission_remove(void);

/* To be called in a child that was forked without exec: its requests go to the driver unchanged. */
void permission_forget(void);

/* The daemon's last refusal, or why the daemon is not asked; code 0: there was none. */
void permission_last_refusal(struct refusal *ret);
