/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Started as root: becomes user ("": gpucountd, else nobody) and keeps only CAP_PERFMON. Started as
 * another user: keeps CAP_PERFMON if the process has it. Sets no-new-privileges in both cases. Logs
 * errors and returns -errno. */
int privilege_leave_root(const char *user);

bool privilege_has_perfmon(void);

/* In a child that executes a worker: keeps CAP_PERFMON, if the process has it, for the worker. */
int privilege_pass_on(void);

/* Keeps other processes of this user from reading or writing this one's memory, until this process
 * executes a program. */
int privilege_hide(void);

/* In a worker: keeps or drops CAP_PERFMON; a program that the worker executes would not have it. */
int privilege_enter(bool keep_perfmon);
