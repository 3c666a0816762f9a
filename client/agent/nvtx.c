/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/agent/capture.h"
#include "client/agent/nvtx.h"
#include "client/agent/nvtx_watch.h"
#include "client/agent/section.h"
#include "client/agent/unwatched.h"
#include "proto/base/clock.h"

/* Programs push far more ranges than they launch kernels inside, so a push only copies its message
 * to the thread's stack. Numbers are made when a launch asks for them, outermost first, and kept in
 * the stack's entries until they are popped (or until intern forgot its numbers, which the
 * generation tells). A thread's stack holds the ranges of all domains in the order they were
 * pushed; a pop takes the last one of its domain, which need not be the last of all.
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
		range = event_range(in, &s->v[i].event, range);
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
	if (e->scope != 0) {
		nvtx_watch_pop(e);
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
		s->thread = (uint32_t)syscall(SYS_gettid);
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

/* A range around e was popped: updates e's numbers. */
static void lose_around(struct entry *e, const struct entry *around)
{
	e->range = 0;
	if (!e->recurs) {
		e->recurring = around ? around->recurring : 0;
	}
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

/* Whoever opens a range first wants its launches to be watched. */
static void note_use(void)
{
	struct section *v;
	struct capture *c;

	if (nvtx_is_used()) {
		return;
	}
	nvtx_use();
	c = section_enter(&v);
	if (c) {
		unwatched_watch_again(c);
	}
	section_leave(v);
}

/* Returns the depth of the new range within its domain, from 0, as NVTX does. */
int nvtx_push(struct event *e)
{
	struct stack *s = find_stack();
	struct entry *top = s ? stack_grow(s) : NULL;
	int depth = 0;

	note_use();
	if (!top) {
		nvtx_event_deinit(e);
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	for (size_t i = 0; i < s->n; i++) {
		depth += s->v[i].event.domain == e->domain;
	}
	nvtx_event_move(&top->event, e);
	top->range = 0;
	top->asked = top->recurs = false;
	top->recurring = 0;
	top->begun = 0;
	top->scope = 0;
	s->n++;
	if (is_watched()) {
		top->begun = nvtx_watch_push(s);
	}
	return depth;
}

int nvtx_pop(const struct nvtx_domain *domain)
{
	struct stack *s = nvtx_stack();
	size_t i = s ? s->n : 0;
	int depth = 0;

	while (i > 0 && s->v[i - 1].event.domain != domain) {
		i--;
	}
	if (i == 0) {
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	tell_end(&s->v[i - 1]);
	nvtx_event_deinit(&s->v[i - 1].event);
	for (size_t k = i; k < s->n; k++) {
		entry_move(&s->v[k - 1], &s->v[k]);
		lose_around(&s->v[k - 1], k > 1 ? &s->v[k - 2] : NULL);
	}
	s->n--;
	s->matches.n = s->matches.n < i ? s->matches.n : i - 1;
	for (size_t k = 0; k < s->n; k++) {
		depth += s->v[k].event.domain == domain;
	}
	return depth;
}

/* --- start and end --- */

nvtxRangeId_t nvtx_start(struct event *e)
{
	struct started_range *r = malloc(sizeof(*r));

	note_use();
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
};

static bool add_to_set(const struct event *e, void *userdata)
{
	struct range_set *set = userdata;

	set->ranges[set->n++] = event_range(set->in, e, 0);
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
