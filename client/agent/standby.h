/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Standby: the process is registered with the daemon and can be captured at any time. */

#include <stddef.h>

/* Starts the thread that registers the process; to be called once, after agent_init(). */
void standby_begin(void);

/* To be called in a forked child, which has no standby thread: leaves the connection to the parent.
 */
void standby_leave_to_parent(void);

/* Writes the program's short name as UTF-8. */
void standby_program_name(char *name, size_t size);
