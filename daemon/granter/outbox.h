/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replies that wait until the front reads. While some wait nothing is read from the front, so their
 * number is bounded: an answer for each object that was asked for, and for each lease that it is
 * open, over, hung, and back. */

#include <stdbool.h>

#include "daemon/granter/granter.h"

enum { OUTBOX_MAX = GRANTER_OBJECTS_MAX + 6 * GRANTER_LEASES_MAX };

struct outbox {
	int link;
	int error; /* 0, or the -errno of a send that failed: later replies are dropped */
	unsigned first, n;
	struct granter_reply waiting[OUTBOX_MAX];
};

void outbox_init(struct outbox *o, int link);
void outbox_say(struct outbox *o, const struct granter_reply *p);

/* Sends what waits, as far as there is room. */
void outbox_flush(struct outbox *o);

static inline bool outbox_is_empty(const struct outbox *o)
{
	return o->n == 0;
}
