/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which message a user may send, in which role; and introductions and questions, which change no
 * capture. */

#include <stdint.h>

#include "daemon/front/peer.h"

peer_handler handle_hello, handle_metrics, handle_plan, handle_status;

/* Closes peers that are not allowed any more and have no capture. */
void requests_on_reload(struct front *f);

/* --- scheduler.c --- */

/* Handles the statements of a scheduler's prolog and epilog: this GPU belongs to that user's job.
 */

peer_handler handle_job_begin, handle_job_end;

/* The machine has these GPUs. When indices mean other GPUs than before, forgets all jobs, which are
 * masks of indices. True: so are the captures of this front, which must end. */
bool scheduler_on_machine(struct front *f, const struct wire_gpus *gpus);

/* Forgets jobs whose time is over. */
void scheduler_tick(struct front *f, uint64_t now_ns);
