/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/agent/capture.h"
#include "client/agent/nvtx.h"
#include "client/agent/section.h"
#include "client/agent/thread.h"
#include "proto/base/array.h"

/* Programs push far more ranges than they launch kernels inside, so a push only copies its message
 * to the thread's stack. The sites of ranges are found at a launch, outermost first, and kept in
 * the stack's entries until the ranges are popped. A thread's stack holds the ranges of all domains
 * in the order of their pushes; a pop ends the last range of its domain, which need not be the last
 * of all. Programs leave tens of thousands of ranges open by mistake, so push and pop do not search
 * the stack: each range knows the next one of its domain below it, and the stack knows the last
 * range of each domain. */

enum { STACK_MAX = 1 << 16 };

static struct {
	atomic_bool watched;
	pthread_key_t key;
	bool has_key; /* without a key the stack of a thread that ends is not freed */
	pthread_once_t once;
} nvtx = { .once = PTHREAD_ONCE_INIT };

void nvtx_watch(bool on)
{
	atomic_store(&nvtx.watched, on);
}

static bool is_watched(void)
{
	return atomic_load_explicit(&nvtx.watched, memory_order_relaxed);
}

/* --- push and pop --- */

static void tell_end(const struct entry *e)
{
	if (e->begun != 0) {
		nvtx_watch_end(e->begun);
	}
}

static void free_stack(void *p)
{
	struct stack *s = p;

	for (size_t i = 0; i < s->n; i++) {
		tell_end(&s->v[i]);
		nvtx_event_deinit(&s->v[i].event);
	}
	free(s->v);
	free(s->tops);
	free(s->matches.v);
	free(s);
	nvtx_set_stack(NULL);
}

static void init_once(void)
{
	nvtx.has_key = pthread_key_create(&nvtx.key, free_stack) == 0;
}

static struct stack *find_stack(void)
{
	struct stack *s = nvtx_stack();

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s) {
			return NULL;
		}
		s->thread = (uint32_t)thread_number();
		pthread_once(&nvtx.once, init_once);
		if (nvtx.has_key) {
			pthread_setspecific(nvtx.key, s);
		}
		nvtx_set_stack(s);
	}
	return s;
}

static void entry_move(struct entry *to, struct entry *from)
{
	*to = *from;
	nvtx_event_move(&to->event, &from->event);
}

static struct entry *stack_grow(struct stack *s)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		struct entry *v = room <= STACK_MAX ? malloc(room * sizeof(*v)) : NULL;

		if (!v) {
			return NULL;
		}
		for (size_t i = 0; i < s->n; i++) {
			entry_move(&v[i], &s->v[i]);
		}
		free(s->v);
		s->v = v;
		s->room = room;
	}
	return &s->v[s->n];
}

static struct domain_top *find_top(const struct stack *s, const struct nvtx_domain *domain)
{
	for (size_t i = 0; i < s->n_tops; i++) {
		if (s->tops[i].domain == domain) {
			return &s->tops[i];
		}
	}
	return NULL;
}

/* Finds or adds the domain's top. NULL: out of memory. */
static struct domain_top *get_top(struct stack *s, const struct nvtx_domain *domain)
{
	struct domain_top *top = find_top(s, domain);

	if (!top && array_make_room(&s->tops, sizeof(*s->tops), s->n_tops, &s->room_tops)) {
		top = &s->tops[s->n_tops++];
		*top = (struct domain_top){ .domain = domain };
	}
	return top;
}

/* Adapts the tops to the removal of the range at this position, counted from 1. */
static void lower_tops(struct stack *s, uint32_t at)
{
	for (size_t i = 0; i < s->n_tops;) {
		struct domain_top *top = &s->tops[i];

		if (top->at == at) {
			top->at = s->v[at - 1].below;
		} else if (top->at > at) {
			top->at--;
		}
		if (top->at == 0) {
			*top = s->tops[--s->n_tops];
		} else {
			i++;
		}
	}
}

/* Returns the depth of the new range within its domain, from 0, as NVTX does. */
int nvtx_push(struct event *e)
{
	struct stack *s = find_stack();
	struct entry *top = s ? stack_grow(s) : NULL;
	struct domain_top *last = top ? get_top(s, e->domain) : NULL;

	if (!last) {
		nvtx_event_deinit(e);
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	nvtx_event_move(&top->event, e);
	top->below = last->at;
	top->depth = last->at > 0 ? s->v[last->at - 1].depth + 1 : 0;
	top->begun = 0;
	last->at = (uint32_t)++s->n;
	if (is_watched()) {
		top->begun = nvtx_watch_push(s);
	}
	return (int)top->depth;
}

int nvtx_pop(const struct nvtx_domain *domain)
{
	struct stack *s = nvtx_stack();
	const struct domain_top *top = s ? find_top(s, domain) : NULL;
	uint32_t i = top ? top->at : 0;
	int depth;

	if (i == 0) {
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	depth = (int)s->v[i - 1].depth;
	lower_tops(s, i);
	tell_end(&s->v[i - 1]);
	nvtx_event_deinit(&s->v[i - 1].event);
	for (size_t k = i; k < s->n; k++) {
		entry_move(&s->v[k - 1], &s->v[k]);
		s->v[k - 1].below -= s->v[k - 1].below > i;
	}
	s->n--;
	/* The ranges above the removed one have another range around them now. */
	s->n_found = s->n_found < i ? s->n_found : i - 1;
	s->n_kept = s->n_kept < i ? s->n_kept : i - 1;
	s->matches.n = s->matches.n < i ? s->matches.n : i - 1;
	return depth;
}

/* --- start and end --- */

nvtxRangeId_t nvtx_start(struct event *e)
{
	struct started_range *r = malloc(sizeof(*r));

	if (!r) {
		nvtx_event_deinit(e);
		return 0;
	}
	nvtx_event_move(&r->event, e);
	r->begun = is_watched() ? nvtx_watch_start(&r->event) : 0;
	return nvtx_started_add(r);
}

void nvtx_end(nvtxRangeId_t id)
{
	struct started_range *found = nvtx_started_take(id);

	if (found) {
		if (found->begun != 0) {
			nvtx_watch_end(found->begun);
		}
		nvtx_event_deinit(&found->event);
		free(found);
	}
}

/* --- marks --- */

/* Any thread may call this, so it enters a section, which keeps the capture alive. */
void nvtx_mark(struct event *e)
{
	struct section *v;
	struct capture *c = section_enter(&v);

	if (c) {
		if (is_watched()) {
			nvtx_watch_mark(c, e);
		}
		nvtx_note_mark(&c->intern, e, find_stack());
	}
	section_leave(v);
	nvtx_event_deinit(e);
}
