/* SPDX-License-Identifier: Apache-2.0 */

/* A launch's count of ranges holds against its thread's launch before, whose number is one less. If
 * that launch left no record, came from another context's batch or was dropped, the count says
 * less: an occurrence may then become two, and two never become one. */

#include "client/agent/opened.h"

#include <string.h>

#include "client/agent/deliver.h"

enum { PROBES = 8, STRIDE = 37 };

void opened_init(struct opened *o)
{
	memset(o, 0, sizeof(*o));
}

/* The thread's own slot, else a free one, else another thread's, which is forgotten. */
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
		return; /* the thread's next launch in a range counts none */
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
