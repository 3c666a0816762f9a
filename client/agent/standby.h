/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_STANDBY_H
#define GPUCTR_AGENT_STANDBY_H

/* A process that is known to the daemon and can be captured at any time. */

#include <stddef.h>

/* Starts the thread that registers the process. After agent_init(), once. */
void standby_begin(void);

/* In a forked child, which has no such thread: the connection is the parent's. */
void standby_leave_to_parent(void);

/* The program's short name, as text. */
void standby_program_name(char *name, size_t size);

#endif
