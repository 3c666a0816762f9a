/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/contexts.h"

#include <stdlib.h>

#include "client/agent/capture.h"
#include "client/agent/ranges_setup.h"

/* With the capture's lock. A context that ended has none of the handles that are compared. */
static struct ranges *find(struct capture *c, CUcontext context)
{
	struct ranges *found = NULL;

	list_for_each(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		found = r->context == context ? r : found;
	}
	return found;
}

struct ranges *contexts_find(struct capture *c, CUcontext context)
{
	struct ranges *r;

	LOCK_SCOPE(&c->lock);
	r = find(c, context);
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
		/* Contexts of a process that is over soon have not all measured the same. */
		r->pass = c->passes.n > 0 ? atomic_load(&c->n_contexts) % c->passes.n : 0;
		list_append(&c->contexts, &r->link);
		atomic_fetch_add(&c->n_contexts, 1);
	}
	return r;
}

size_t contexts_list(struct capture *c, struct ranges **ret)
{
	size_t n = 0;

	LOCK_SCOPE(&c->lock);
	list_for_each(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (n < CONTEXTS_MAX && r->context) {
			ret[n++] = r;
		}
	}
	return n;
}

struct ranges *contexts_known(struct capture *c, CUcontext context)
{
	LOCK_SCOPE(&c->lock);
	return find(c, context);
}

void contexts_remove_stream(struct capture *c, CUstream stream)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	for (size_t i = 0; i < n; i++) {
		streams_remove(&contexts[i]->guard.streams, stream);
	}
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
	list_for_each_safe(l, &c->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (r->context) {
			contexts_forget(r);
		}
		list_remove(&r->link);
		lock_deinit(&r->gate.lock);
		free(r);
	}
}
