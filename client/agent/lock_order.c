/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCK_ORDER
#define LOCK_ORDER /* nobody calls it in a build without */
#endif
#include "client/agent/lock.h"

#include <stdio.h>
#include <stdlib.h>

/* How many locks of each kind the thread holds. A signal handler takes and releases its own between
 * two instructions of the thread, which leaves the numbers right. */
static __thread int held[LOCK_KINDS];

void lock_order_check(enum lock_kind kind)
{
	for (unsigned k = kind; k < LOCK_KINDS; k++) {
		if (held[k] > 0) {
			fprintf(stderr,
				"gpuctr: a thread waits for a lock of kind %u and holds one of "
				"kind %u\n",
				(unsigned)kind, k);
			abort();
		}
	}
}

void lock_order_note(enum lock_kind kind, int n)
{
	held[kind] += n;
}
