/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* While kernels' tracing is turned on or off, no thread of the program is within a copy or a fill.
 * There is one gate in a process. */

#include <stdbool.h>

/* How deep a thread is in such calls; zeroed at first. The thread's own. */
struct copy_pass {
	unsigned number; /* of the subscription that this is of */
	unsigned depth;
};

/* Before CUPTI is asked to call back at copies and fills. */
void copy_gate_begin(void);

/* CUPTI's callbacks around such a call. The first one waits while the gate is closed, for a second
 * at most. */
void copy_gate_enter(struct copy_pass *p);
void copy_gate_leave(struct copy_pass *p);

/* Waits a moment until no thread is within such a call. False: one still is, and the gate is closed
 * all the same. The calling thread itself passes. To be opened by the same thread. */
bool copy_gate_close(void);
void copy_gate_open(void);

/* In a forked child, in which no thread opens it. */
void copy_gate_forget(void);
