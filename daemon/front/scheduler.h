/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Handles the statements of a scheduler's prolog and epilog: this GPU belongs to that user's job.
 */

#include <stdint.h>

#include "daemon/front/peer.h"

peer_handler handle_job_begin, handle_job_end;

/* The machine has these GPUs. When indices mean other GPUs than before, forgets all jobs, which are
 * masks of indices. True: so are the captures of this front, which must end. */
bool scheduler_on_machine(struct front *f, const struct wire_gpus *gpus);

/* Forgets jobs whose time is over. */
void scheduler_tick(struct front *f, uint64_t now_ns);
