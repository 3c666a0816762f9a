/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCK_ORDER
#define LOCK_ORDER /* else nobody calls these functions */
#endif
#include "client/agent/lock.h"

#include <stdio.h>
#include <stdlib.h>

/* How many locks of each kind the thread holds. A signal handler releases the locks that it takes,
 * so the numbers stay right. */
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
