/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control thread: does what the program's threads must not do themselves, and looks after calls
 * that do not return. It calls neither CUPTI nor the driver. In standby it is the thread that waits
 * for captures; else it is started for a capture that needs it. There is one in a process. */

#include <stdbool.h>
#include <stdint.h>

/* For a thread that starts a capture and then calls control_run(): that thread is the control
 * thread. */
void control_host(void);

/* Does the control thread's work on the calling thread until control_end(). */
void control_run(void);

/* Waits until there is a control thread, and starts one if no thread is about to become it: so it
 * has read the program's filters before the program continues. -errno. */
int control_start(void);

/* Has the control thread call act(argument), and waits for its end. False: act was not called,
 * because there is no control thread, or it has not come to it in time. */
bool control_do(void (*act)(void *argument), void *argument, uint64_t timeout_ns);

/* From now on the control thread calls look(userdata) four times a second. */
void control_watch(void (*look)(void *userdata), void *userdata);

/* The capture is over. Returns when no look is under way; the control thread ends, or goes back to
 * what it did before. Does nothing where there is none. */
void control_end(void);
