/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Started as root: becomes user ("": gpucountd, else nobody), keeping CAP_PERFMON and nothing else.
 * Started as another user: keeps CAP_PERFMON if it is there. Sets no-new-privileges in either case.
 * Logs errors and returns -errno. */
int privilege_leave_root(const char *user);

bool privilege_has_perfmon(void);

/* In a child that executes a worker: CAP_PERFMON, if it is there, outlasts that. */
int privilege_pass_on(void);

/* No other process of this user can read or write this one's memory. Lost by executing a
 * program. */
int privilege_hide(void);

/* In a worker: keeps CAP_PERFMON or drops it as well; what it executed would not have it. */
int privilege_enter(bool keep_perfmon);
