/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/contexts.h"

#include <stdlib.h>

#include "client/agent/capture.h"
#include "client/agent/ranges_setup.h"

struct ranges *contexts_known(struct capture *c, CUcontext context)
{
	contexts_for_each(r, c) {
		if (r->context == context) {
			return r;
		}
	}
	return NULL;
}

struct ranges *contexts_find(struct capture *c, CUcontext context)
{
	struct ranges *r;

	LOCK_SCOPE(&c->lock);
	r = contexts_known(c, context);
	if (!r && atomic_load(&c->n_contexts) >= CONTEXTS_MAX) {
		atomic_store(&c->has_too_many, true);
		return NULL;
	}
	if (!r && (r = calloc(1, sizeof(*r))) != NULL) {
		lock_init(&r->gate.lock, LOCK_CONTEXT);
		guard_init(&r->guard);
		r->guard.streams.late = c->late;
		r->context = context;
		r->device = UINT32_MAX;
		/* Contexts begin with different passes, so that a short program covers more than
		 * one. */
		r->pass = c->passes.n > 0 ? atomic_load(&c->n_contexts) % c->passes.n : 0;
		r->next = atomic_load(&c->contexts);
		atomic_store(&c->contexts, r);
		atomic_fetch_add(&c->n_contexts, 1);
	}
	return r;
}

void contexts_forget(struct ranges *r)
{
	r->state = RANGES_BROKEN;
	r->context = NULL;
	guard_deinit(&r->guard);
	ranges_forget_images(r);
}

void contexts_free(struct capture *c)
{
	for (struct ranges *r = atomic_load(&c->contexts), *next; r; r = next) {
		next = r->next;
		if (r->context) {
			contexts_forget(r);
		}
		lock_deinit(&r->gate.lock);
		free(r);
	}
}
