/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Started as root: becomes user ("": gpucountd, else nobody), keeping CAP_PERFMON and nothing else.
 * Started as another user: keeps CAP_PERFMON if it is there. Sets no-new-privileges in either case.
 * Logs errors and returns -errno. */
int privilege_leave_root(const char *user);

bool privilege_has_perfmon(void);

/* In a worker: keeps CAP_PERFMON or drops it as well. */
int privilege_enter(bool keep_perfmon);
