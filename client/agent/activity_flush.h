/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Making CUPTI give back its records before it does so by itself. */

#include <stdbool.h>
#include <stdint.h>

#include <cupti_activity.h>

#include "client/agent/activity.h"

/* Calls act while no kernel is running: a flush or the end of tracing might wait for a kernel that
 * itself waits for a launch. */
void activity_do_while_quiet(struct activity *v, void (*act)(void *argument));

/* Does somebody wait for the rest? */
bool activity_is_ending(const struct activity *v);

/* As activity_flush(), and as activity_do_while_quiet(). */
void activity_flush_quietly(struct activity *v);

/* Also what has not ended, and as activity_do_while_quiet(). Within a capture not often: buffers
 * that were forced out rest, and there are only so many. */
void activity_flush_forced(struct activity *v);

/* Makes CUPTI give back the buffers that it has. What has not come within the patience is forced
 * out. False: it has some, and none has come. */
bool activity_flush_out(struct activity *v, unsigned patience_ms);

/* Where copies are wanted: makes CUPTI deliver its records now and then, and returns whether it
 * did. Only for the delivering thread, which must hold no lock. */
bool activity_hear(struct activity *v);

/* What CUPTI's records say, for activity.c. All with the lock of v. */

void records_take(struct activity *v, const CUpti_Activity *record);

/* Of a buffer that is given up: a kernel's counts as dropped, and its launch lacks it. */
void records_give_up(struct activity *v, const CUpti_Activity *record);

/* --- others who use CUPTI's records --- */

enum { OTHERS_BATCHES = 2, OTHERS_FLUSHES = 5, OTHERS_PATIENCE_MS = 400 };

/* After a batch, or a flush that nobody waits for. missing: some records of
 * kernels have not come. patience: after so many of these the reason is sought. */
void activity_look_for_others(struct activity *v, bool missing, unsigned patience);

/* Before tracing is turned off: what others want must not be. Waits for so long for what is late.
 */
void activity_look_for_others_at_end(struct activity *v, unsigned patience_ms);
