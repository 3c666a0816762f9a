/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Handles the statements of a scheduler's prolog and epilog: this GPU belongs to that user's job.
 */

#include <stdint.h>

#include "daemon/front/peer.h"

int handle_job_begin(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_job_end(struct peer *p, const struct wire_message *m, const struct frame *frame);

/* The machine has these GPUs. When indices mean other GPUs than before, forgets all jobs, which are
 * masks of indices. True: so are the captures of this front, which must end. */
bool scheduler_on_machine(struct front *f, const struct wire_gpus *gpus);

/* Forgets jobs whose time is over. */
void scheduler_tick(struct front *f, uint64_t now_ns);
