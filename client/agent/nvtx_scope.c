/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_scope.h"

#include <stdlib.h>
#include <string.h>

/* Threads push and pop in any order, so a range may be removed from the middle of the stack; the
 * ranges above it are then matched again. Each thread caches the match of the topmost range until
 * the stack's version changes, so that a launch only compares versions. */

enum { RANGES_MAX = 1 << 16 };

void nvtx_scope_init(struct nvtx_scope *s, bool on, struct nvtx_filter *filter)
{
	*s = (struct nvtx_scope){ .on = on, .filter = filter };
	atomic_init(&s->version, 1);
	lock_init(&s->lock, LOCK_NVTX);
}

void nvtx_scope_deinit(struct nvtx_scope *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].message);
	}
	free(s->v);
	free(s->states);
	*s = (struct nvtx_scope){ .on = false };
}

/* Without expressions there are no terms: realloc() of no bytes would free what is there. */
static bool grow(struct nvtx_scope *s)
{
	size_t room = s->room ? 2 * s->room : 16, n_terms = s->filter->n_terms;
	struct scoped_range *v;
	uint64_t *states;

	if (s->n < s->room) {
		return true;
	}
	v = room <= RANGES_MAX ? realloc(s->v, room * sizeof(*v)) : NULL;
	s->v = v ? v : s->v;
	states = v ? realloc(s->states, room * (n_terms ? n_terms : 1) * sizeof(*states)) : NULL;
	if (states) {
		s->states = states;
		s->room = room;
	}
	return states != NULL;
}

/* With the lock: of the ranges from this position up. */
static void match_from(struct nvtx_scope *s, size_t i)
{
	struct nvtx_filter *f = s->filter;
	struct nvtx_matched empty;

	nvtx_filter_begin(f, empty.v);
	for (; i < s->n; i++) {
		uint64_t *state = s->states + i * f->n_terms;

		nvtx_filter_advance(f, i > 0 ? state - f->n_terms : empty.v, state, s->v[i].domain,
				    s->v[i].message);
	}
	atomic_fetch_add(&s->version, 1);
}

uint64_t nvtx_scope_push(struct nvtx_scope *s, const char *domain, const char *message)
{
	char *copy = strdup(message);
	uint64_t id = 0;

	lock_acquire(&s->lock);
	if (copy && grow(s)) {
		id = ++s->last_id;
		s->v[s->n++] = (struct scoped_range){ id, domain, copy };
		copy = NULL;
		match_from(s, s->n - 1);
	}
	lock_release(&s->lock);
	free(copy);
	return id;
}

void nvtx_scope_pop(struct nvtx_scope *s, uint64_t id)
{
	size_t i;

	LOCK_SCOPE(&s->lock);
	for (i = s->n; i > 0 && s->v[i - 1].id != id; i--) {
	}
	if (i > 0) {
		free(s->v[i - 1].message);
		s->n--;
		memmove(s->v + i - 1, s->v + i, (s->n - (i - 1)) * sizeof(*s->v));
		match_from(s, i - 1);
	}
}

const uint64_t *nvtx_scope_match(struct nvtx_scope *s, uint32_t capture)
{
	static __thread struct nvtx_matched top;
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_capture;
	size_t n_terms = s->filter->n_terms;

	if (atomic_load(&s->version) == seen_version && capture == seen_capture) {
		return top.v;
	}
	lock_acquire(&s->lock);
	if (s->n > 0) {
		memcpy(top.v, s->states + (s->n - 1) * n_terms, n_terms * sizeof(*top.v));
	} else {
		nvtx_filter_begin(s->filter, top.v);
	}
	seen_version = atomic_load(&s->version);
	lock_release(&s->lock);
	seen_capture = capture;
	return top.v;
}
