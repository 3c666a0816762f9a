/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/agent/capture.h"
#include "client/agent/nvtx.h"
#include "client/agent/nvtx_watch.h"
#include "client/agent/section.h"
#include "client/agent/thread.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

/* Programs push far more ranges than they launch kernels inside, so a push only copies its message
 * to the thread's stack. Numbers are made when a launch asks for them, outermost first, and kept in
 * the stack's entries until they are popped (or until intern forgot its numbers, which the
 * generation tells). A thread's stack holds the ranges of all domains in the order they were
 * pushed; a pop takes the last one of its domain, which need not be the last of all. Programs leave
 * tens of thousands open by mistake, so neither looks through the stack: each range knows the one
 * of its domain below it, and the stack the last one of each domain.
 *
 * Start/end ranges belong to the process: a list under a lock, and a counter that changes with it,
 * so that launches in between reuse the set they found last. */

enum { STACK_MAX = 1 << 16, SET_MAX = 64 };

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

/* --- numbers --- */

static uint32_t category_string(struct intern *in, const struct event *e)
{
	const char *name = e->category ? nvtx_category_name(e->domain, e->category) : NULL;
	uint32_t id = name ? intern_string(in, name) : 0;
	char digits[16];

	if (id == 0 && e->category != 0) {
		snprintf(digits, sizeof(digits), "%u", e->category);
		id = intern_string(in, digits);
	}
	return id;
}

/* 0: the range, or a name of it, has no number and cannot get one now. */
static uint32_t event_range(struct intern *in, const struct event *e, uint32_t parent)
{
	struct range_key key = {
		.parent = parent,
		.domain = e->domain ? intern_string(in, nvtx_domain_name(e->domain)) : 0,
		.message = intern_string(in, e->message),
		.category = category_string(in, e),
		.color = e->color,
		.payload_type = e->payload_type,
		.payload = e->payload,
	};

	if (key.message == 0 || (e->domain && key.domain == 0) ||
	    (e->category != 0 && key.category == 0)) {
		return 0;
	}
	return intern_range(in, &key);
}

uint32_t nvtx_current_range(struct intern *in)
{
	struct stack *s = nvtx_stack();
	uint32_t generation, range = 0;
	size_t i;

	if (!s || s->n == 0) {
		return 0;
	}
	generation = intern_generation(in);
	for (i = s->n; i > 0 && (s->v[i - 1].range == 0 || s->v[i - 1].generation != generation);
	     i--) {
	}
	range = i > 0 ? s->v[i - 1].range : 0;
	for (; i < s->n; i++) {
		uint32_t next = event_range(in, &s->v[i].event, range);

		if (next == 0) { /* tried again at the next launch */
			intern_leave_out_range(in);
			break;
		}
		range = next;
		s->v[i].range = range;
		s->v[i].generation = generation;
	}
	return range;
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

/* Makes one if there is none. NULL: out of memory. */
static struct domain_top *get_top(struct stack *s, const struct nvtx_domain *domain)
{
	struct domain_top *top = find_top(s, domain);

	if (!top && array_make_room(&s->tops, sizeof(*s->tops), s->n_tops, &s->room_tops)) {
		top = &s->tops[s->n_tops++];
		*top = (struct domain_top){ .domain = domain };
	}
	return top;
}

/* Of the range at this place, counted from 1, which leaves the stack. */
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
	top->range = 0;
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
		s->v[k - 1].range = 0; /* the range around it is another one now */
		s->v[k - 1].below -= s->v[k - 1].below > i;
	}
	s->n--;
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

struct range_set {
	struct intern *in;
	uint32_t ranges[SET_MAX];
	size_t n;
	bool lacks_some;
};

static bool add_to_set(const struct event *e, void *userdata)
{
	struct range_set *set = userdata;

	uint32_t range = event_range(set->in, e, 0);

	if (range == 0) {
		set->lacks_some = true;
		return true;
	}
	set->ranges[set->n++] = range;
	return set->n < SET_MAX;
}

uint32_t nvtx_active_set(struct intern *in)
{
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_generation, seen_set;
	uint64_t version = nvtx_started_version();
	struct range_set set = { .in = in };
	uint32_t generation;

	if (version == 0) {
		return 0;
	}
	generation = intern_generation(in);
	if (version == seen_version && generation == seen_generation) {
		return seen_set;
	}
	nvtx_for_each_started(add_to_set, &set);
	seen_set = set.n ? intern_set(in, set.ranges, set.n) : 0;
	if (set.lacks_some || (set.n > 0 && seen_set == 0)) { /* tried again at the next launch */
		intern_leave_out_range(in);
		seen_version = 0;
		return seen_set;
	}
	seen_version = version;
	seen_generation = generation;
	return seen_set;
}

/* --- marks --- */

static void note_mark(struct intern *in, const struct event *e)
{
	struct stack *s = find_stack();

	if (intern_has_room(in)) {
		intern_mark(in, event_range(in, e, nvtx_current_range(in)), s ? s->thread : 0,
			    (int64_t)clock_wall_ns());
	}
}

/* Any thread may call this, so the thread enters the capture, which then cannot end. */
void nvtx_mark(struct event *e)
{
	struct section *v;
	struct capture *c = section_enter(&v);

	if (c) {
		if (is_watched()) {
			nvtx_watch_mark(c, e);
		}
		note_mark(&c->intern, e);
	}
	section_leave(v);
	nvtx_event_deinit(e);
}
