/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keeps threads out of copies and fills while kernels' tracing is turned on or off. One per
 * process. */

#include <stdbool.h>

/* How deep a thread is nested in copies and fills; zeroed at first; used by that thread only. */
struct copy_pass {
	unsigned number; /* number of the subscription that depth belongs to */
	unsigned depth;
};

/* To be called before CUPTI's callbacks for copies and fills are turned on. */
void copy_gate_begin(void);

/* For CUPTI's callbacks around a copy or fill. The first waits up to a second for a closed gate. */
void copy_gate_enter(struct copy_pass *p);
void copy_gate_leave(struct copy_pass *p);

/* Closes the gate, and waits a moment until no thread is within a copy or fill. False: a thread
 * still is. The calling thread may still copy and fill; the same thread must open the gate. */
bool copy_gate_close(void);
void copy_gate_open(void);

/* To be called in a forked child, in which no thread would open the gate. */
void copy_gate_forget(void);
