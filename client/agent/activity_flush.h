/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Making CUPTI give back its records before it does so by itself. */

#include "client/agent/activity.h"

/* Calls act while no kernel is running: a flush or the end of tracing might wait for a kernel that
 * itself waits for a launch. */
void activity_do_while_quiet(struct activity *v, void (*act)(void *argument));

/* Does somebody wait for the rest? */
bool activity_is_ending(const struct activity *v);

/* Makes CUPTI give back the buffers in which all kernels have ended. */
void activity_flush_now(const struct activity *v);

/* The same, as activity_do_while_quiet(). */
void activity_flush_quietly(struct activity *v);

/* Also what has not ended, and as activity_do_while_quiet(). Within a capture not often: buffers
 * that were forced out rest, and there are only so many. */
void activity_flush_forced(struct activity *v);

/* Makes CUPTI give back the buffers that it has. What has not come within the patience is forced
 * out. False: it has some, and none has come. */
bool activity_flush_out(struct activity *v, unsigned patience_ms);

/* Where launches are not watched: makes CUPTI deliver its records if they have not come by
 * themselves, and returns whether it did. Only for the delivering thread, which must hold no lock.
 */
bool activity_hear(struct activity *v);
