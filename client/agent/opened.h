/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes site_path.opened, which counts the ranges that are those of the thread's launch before,
 * count the ranges that are those of the thread's record before. */

#include <stdbool.h>
#include <stdint.h>

enum { OPENED_SLOTS = 256 };

struct launch;

struct opened_slot {
	uint32_t thread; /* 0: free */
	uint32_t launch; /* number of the thread's last launch that opened_take() has seen */
	uint32_t most;	 /* what the thread's next launch may count */
};

struct opened {
	struct opened_slot slots[OPENED_SLOTS];
};

/* Also to forget all threads, where launches that opened_take() has seen left no record. */
void opened_init(struct opened *o);

/* Each launch, in the order of records; stays: it becomes one. By one thread. */
void opened_take(struct opened *o, struct launch *l, bool stays);
