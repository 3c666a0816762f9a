/* SPDX-License-Identifier: Apache-2.0 */

/* A launch's path.opened compares it with its thread's previous launch, whose number is one less.
 * If that launch left no record, came in another context's batch or was dropped, opened_take()
 * lowers the count: one occurrence of a range may then be reported as two, but never two as one. */

#include "client/agent/opened.h"

#include <string.h>

#include "client/agent/deliver.h"

enum { PROBES = 8, STRIDE = 37 };

void opened_init(struct opened *o)
{
	memset(o, 0, sizeof(*o));
}

/* The thread's own slot, else a free one, else one taken from another thread. */
static struct opened_slot *find(struct opened *o, uint32_t thread)
{
	struct opened_slot *unused = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct opened_slot *s = &o->slots[(thread + STRIDE * i) % OPENED_SLOTS];

		if (s->thread == thread) {
			return s;
		}
		unused = unused || s->thread != 0 ? unused : s;
	}
	return unused ? unused : &o->slots[thread % OPENED_SLOTS];
}

void opened_take(struct opened *o, struct launch *l, bool stays)
{
	struct site_path *p = &l->path;
	struct opened_slot *s;
	bool known;

	if (p->site == 0) {
		return; /* the slot stays: the thread's next launch in a range has opened 0 */
	}
	s = find(o, l->thread);
	known = s->thread == l->thread;
	if (known && p->launch != 0 && p->launch == s->launch) {
		p->opened = s->most; /* another kernel of the same graph launch */
	} else if (p->launch != 0 && !(known && p->launch == s->launch + 1)) {
		p->opened = 0;
	} else if (known && s->most < p->opened) {
		p->opened = s->most;
	}
	*s = (struct opened_slot){ l->thread, p->launch, stays ? UINT32_MAX : p->opened };
}
