/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts site_path.opened, the number of ranges shared with the thread's previous launch, to the
 * number shared with the thread's previous record. */

#include <stdbool.h>
#include <stdint.h>

enum { OPENED_SLOTS = 256 };

struct launch;

struct opened_slot {
	uint32_t thread; /* 0: free */
	uint32_t launch; /* number of the thread's last launch that opened_take() has seen */
	uint32_t most;	 /* upper limit for path.opened of the thread's next launch */
};

struct opened {
	struct opened_slot slots[OPENED_SLOTS];
};

/* Also forgets all threads, after launches that opened_take() has seen left no record. */
void opened_init(struct opened *o);

/* To be called for each launch, in the order of records, by one thread. stays: the launch becomes a
 * record. */
void opened_take(struct opened *o, struct launch *l, bool stays);
