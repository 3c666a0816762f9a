/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control thread does jobs that the program's threads must not do themselves, and looks for
 * calls that do not return. It calls neither CUPTI nor the driver. A process has at most one: in
 * standby the standby thread, else a thread that is started for a capture that needs it. */

#include <stdbool.h>
#include <stdint.h>

/* Makes the calling thread, which will call control_run(), the control thread. */
void control_host(void);

/* Does the control thread's work on the calling thread until control_end(). */
void control_run(void);

/* Starts a control thread unless there is one, and waits until it runs, so that it has read the
 * program's filters before the program continues. -errno. */
int control_start(void);

/* Makes the control thread call act(argument), and waits until act returns. False: act was not
 * called, because there is no control thread, or it was busy for timeout_ns. */
bool control_do(void (*act)(void *argument), void *argument, uint64_t timeout_ns);

/* From now on the control thread calls look(userdata) four times a second. */
void control_watch(void (*look)(void *userdata), void *userdata);

/* To be called when the capture is over. Ends control_run(), and returns when no look is under way.
 * Does nothing if there is no control thread. */
void control_end(void);
