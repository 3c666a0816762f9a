/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The table of messages that users may send in each role, and the handlers of introductions and
 * questions, which change no capture. */

#include <stdint.h>

#include "daemon/front/peer.h"

peer_handler handle_hello, handle_metrics, handle_plan, handle_status;

/* Closes peers that are not allowed any more and have no capture. */
void requests_on_reload(struct front *f);

/* --- scheduler.c --- */

/* Handles messages of a scheduler's prolog and epilog, which assign GPUs to a user's job. */

peer_handler handle_job_begin, handle_job_end;

/* Called with the machine's GPUs. If the indices mean other GPUs than before, forgets all jobs,
 * which are masks of indices. True: captures use old indices too, so the front must end. */
bool scheduler_on_machine(struct front *f, const struct wire_gpus *gpus);

/* Forgets jobs whose time has run out. */
void scheduler_tick(struct front *f, uint64_t now_ns);
