/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_PERMISSION_H
#define GPUCTR_AGENT_PERMISSION_H

/* The one request of libcuda that needs a permission the user does not have goes to the daemon. */

#include "proto/wire/status.h"

/* Redirects libcuda's import of ioctl. 0, or a code with r filled; nothing is changed then. */
int permission_install(const char *socket_path, const char *token, struct refusal *r);

/* Takes it back: libcuda calls what it called before. Nothing happens when it was not redirected.
 */
void permission_remove(void);

/* In a child that was forked without exec, whose driver is asked as if nothing were here. */
void permission_forget(void);

/* The daemon's last refusal, or why the daemon is not asked; code 0: there was none. */
void permission_last_refusal(struct refusal *ret);

#endif
