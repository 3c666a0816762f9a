/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Forwards to the daemon the only request of libcuda's for which the user lacks a permission. */

#include "proto/wire/status.h"

/* Redirects libcuda's import of ioctl. 0, or a code with r filled and nothing changed. */
int permission_install(const char *socket_path, const char *token, struct refusal *r);

/* Restores libcuda's import. Does nothing if it was not redirected. */
void permission_remove(void);

/* To be called in a child that was forked without exec: its requests go to the driver unchanged. */
void permission_forget(void);

/* The daemon's last refusal, or the reason why the daemon is not asked; code 0: none. */
void permission_last_refusal(struct refusal *ret);
