/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What CUPTI's records say, for activity.c. All with the lock of v. */

#include "client/agent/activity.h"

void records_take(struct activity *v, const CUpti_Activity *record);

/* Of a buffer that is given up: it counts as dropped, and that it ran is known. */
void records_give_up(struct activity *v, const CUpti_Activity *record);

/* So many records of the buffer that CUPTI has given back are dropped. */
void records_note_dropped(struct activity *v, size_t n);

/* Keeps it until activity_take_copies(). */
void records_add_copy(struct activity *v, const struct pack_copy *copy);
