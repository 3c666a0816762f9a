/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes CUPTI return its records earlier than CUPTI does by itself. */

#include <stdbool.h>
#include <stdint.h>

#include <cupti_activity.h>

#include "client/agent/activity.h"

/* Calls act while no kernel is running, because a flush or the end of tracing might wait for a
 * kernel that itself waits for a launch. */
void activity_do_while_quiet(struct activity *v, void (*act)(void *argument));

/* Does somebody wait for the last records? */
bool activity_is_ending(const struct activity *v);

/* activity_flush() within activity_do_while_quiet(). */
void activity_flush_quietly(struct activity *v);

/* Within activity_do_while_quiet(), makes CUPTI return all buffers, also those with kernels that
 * have not ended. Does so at most once a second until the capture ends, because forced buffers rest
 * for a while and their number is limited. */
void activity_flush_forced(struct activity *v);

/* Makes CUPTI return the buffers that it has, and forces a flush if some have not come after
 * patience_ms. False: CUPTI had some and has returned none. */
bool activity_flush_out(struct activity *v, unsigned patience_ms);

/* If copies are wanted, flushes once a second; true: it did so now. Only for the delivering thread,
 * which must hold no lock. */
bool activity_hear(struct activity *v);

/* Used by activity.c for each of CUPTI's records, with the lock of v held. */

void records_take(struct activity *v, const CUpti_Activity *record);

/* Discards a record; a kernel counts as dropped, and its launch stays without a time. */
void records_give_up(struct activity *v, const CUpti_Activity *record);

/* --- others who use CUPTI's records --- */

enum { OTHERS_BATCHES = 2, OTHERS_FLUSHES = 5, OTHERS_PATIENCE_MS = 400 };

/* Called after a batch and after activity_hear(). missing: some records of kernels have not come.
 * If CUPTI has returned no buffer over patience such calls in a row, looks for other users. */
void activity_look_for_others(struct activity *v, bool missing, unsigned patience);

/* Called before tracing is turned off, because tracing must stay on for other users. Waits up to
 * patience_ms for late buffers. */
void activity_look_for_others_at_end(struct activity *v, unsigned patience_ms);
