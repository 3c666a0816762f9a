/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keeps site_path.opened true where launches leave no record: a launch tells which ranges are those
 * of its thread's launch before, and a record has to tell it of the thread's record before. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { OPENED_SLOTS = 256 };

struct launch;

struct opened {
	struct {
		uint32_t thread; /* the last one of which a launch left no record */
		uint32_t most;	 /* that its next record may tell */
	} slots[OPENED_SLOTS];	 /* by thread */
	atomic_bool gap;	 /* launches were lost that opened_take() has not seen */
};

void opened_init(struct opened *o);

/* Each launch, in the order of records; stays: it becomes one. By one thread. */
void opened_take(struct opened *o, struct launch *l, bool stays);

/* Any launches were lost; by any thread. */
void opened_lose(struct opened *o);
