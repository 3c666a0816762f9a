/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "client/agent/capture.h"
#include "client/agent/lock.h"
#include "client/agent/nvtx.h"
#include "client/agent/nvtx_watch.h"
#include "client/agent/visits.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"

/* Programs push far more ranges than they launch kernels inside, so a push only copies its message
 * to the thread's stack. Numbers are made when a launch asks for them, outermost first, and kept in
 * the stack's entries until they are popped (or until intern forgot its numbers, which the
 * generation tells). A thread's stack holds the ranges of all domains in the order they were
 * pushed; a pop takes the last one of its domain, which need not be the last of all.
 *
 * Start/end ranges belong to the process: a list under a lock, and a counter that changes with it,
 * so that launches in between reuse the set they found last. */

enum { MESSAGE_MAX = 16 * 1024, STACK_MAX = 1 << 16 };

struct category {
	struct category *named_before;
	uint32_t id;
	char *name;
};

struct nvtx_domain {
	struct nvtx_domain *made_before;
	char *name;
	_Atomic(struct category *) categories; /* the last one named; never freed */
};

struct started {
	struct list link;
	nvtxRangeId_t id;
	struct event event;
	uint32_t begun; /* as an entry's */
};

static struct {
	struct nvtx_domain default_domain;
	struct lock lock; /* of the list below */
	struct list started;
	nvtxRangeId_t last_id;
	_Atomic uint64_t version;	       /* of the list */
	_Atomic(struct nvtx_domain *) domains; /* the last one made; but for the default one */
	atomic_bool watched;
	pthread_key_t key;
	bool has_key; /* without one a thread's stack outlives it */
	pthread_once_t once;
} nvtx = { .lock = LOCK_INITIALIZER(LOCK_NVTX), .once = PTHREAD_ONCE_INIT };

static __thread struct stack *thread_stack;

/* --- events --- */

static void event_deinit(struct event *e)
{
	if (e->message != e->inline_message) {
		free(e->message);
	}
}

/* An event is not copied by assignment: its message may be inside. */
static void event_move(struct event *to, struct event *from)
{
	bool inside = from->message == from->inline_message;

	*to = *from;
	if (inside) {
		to->message = to->inline_message;
	}
}

static void event_set_message(struct event *e, const char *s)
{
	size_t n = strnlen(s, MESSAGE_MAX);

	e->message = n < MESSAGE_INLINE ? e->inline_message : malloc(n + 1);
	if (!e->message) {
		e->message = e->inline_message;
		n = MESSAGE_INLINE - 1;
	}
	memcpy(e->message, s, n);
	e->message[n] = '\0';
}

/* UTF-32, as wchar_t is on Linux, to UTF-8. */
void nvtx_wide_to_utf8(const wchar_t *w, char *out, size_t size)
{
	size_t n = 0;

	for (; *w && n + 5 < size; w++) {
		uint32_t c = (uint32_t)*w;

		if (c < 0x80) {
			out[n++] = (char)c;
		} else if (c < 0x800) {
			out[n++] = (char)(0xc0 | c >> 6);
			out[n++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) {
			out[n++] = (char)(0xe0 | c >> 12);
			out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[n++] = (char)(0x80 | (c & 0x3f));
		} else {
			out[n++] = (char)(0xf0 | (c >> 18 & 7));
			out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
			out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[n++] = (char)(0x80 | (c & 0x3f));
		}
	}
	out[n] = '\0';
}

void nvtx_event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message)
{
	*e = (struct event){ .domain = domain };
	event_set_message(e, message ? message : "");
}

void nvtx_event_from_wide(struct event *e, const struct nvtx_domain *domain, const wchar_t *message)
{
	char text[4096] = "";

	if (message) {
		nvtx_wide_to_utf8(message, text, sizeof(text));
	}
	nvtx_event_from_ascii(e, domain, text);
}

static uint64_t payload_bits(const nvtxEventAttributes_t *a)
{
	uint32_t narrow;

	switch (a->payloadType) {
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
	case NVTX_PAYLOAD_TYPE_INT64:
	case NVTX_PAYLOAD_TYPE_DOUBLE:
		return a->payload.ullValue;
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
	case NVTX_PAYLOAD_TYPE_INT32:
	case NVTX_PAYLOAD_TYPE_FLOAT:
		narrow = a->payload.uiValue;
		return narrow;
	default:
		return 0;
	}
}

void nvtx_event_from_attributes(struct event *e, const struct nvtx_domain *domain,
				const nvtxEventAttributes_t *a)
{
	if (!a) {
		nvtx_event_from_ascii(e, domain, "");
		return;
	}
	if (a->messageType == NVTX_MESSAGE_TYPE_UNICODE) {
		nvtx_event_from_wide(e, domain, a->message.unicode);
	} else if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
		nvtx_event_from_ascii(e, domain, (const char *)a->message.registered);
	} else {
		nvtx_event_from_ascii(e, domain,
				      a->messageType == NVTX_MESSAGE_TYPE_ASCII ? a->message.ascii
										: "");
	}
	e->category = a->category;
	e->color = a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
	if (a->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 &&
	    a->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
		e->payload_type = (uint32_t)a->payloadType;
		e->payload = payload_bits(a);
	}
}

/* --- for who looks at them --- */

struct stack *nvtx_stack(void)
{
	return thread_stack;
}

const char *nvtx_domain_name(const struct nvtx_domain *domain)
{
	return domain ? domain->name : "";
}

uint64_t nvtx_started_version(void)
{
	return atomic_load(&nvtx.version);
}

void nvtx_for_each_started(void (*f)(const struct event *e, void *userdata), void *userdata)
{
	lock_acquire(&nvtx.lock);
	for (struct list *l = nvtx.started.next; l && l != &nvtx.started; l = l->next) {
		f(&list_entry(l, struct started, link)->event, userdata);
	}
	lock_release(&nvtx.lock);
}

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
	const struct nvtx_domain *d = e->domain ? e->domain : &nvtx.default_domain;
	const struct category *c;
	char digits[16];
	uint32_t id;

	if (e->category == 0) {
		return 0;
	}
	for (c = atomic_load(&d->categories); c && c->id != e->category; c = c->named_before) {
	}
	id = c ? intern_string(in, c->name) : 0;
	if (id == 0) {
		snprintf(digits, sizeof(digits), "%u", e->category);
		id = intern_string(in, digits);
	}
	return id;
}

static uint32_t event_range(struct intern *in, const struct event *e, uint32_t parent)
{
	struct range_key key = {
		.parent = parent,
		.domain = e->domain ? intern_string(in, e->domain->name) : 0,
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
	struct stack *s = thread_stack;
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
		event_deinit(&s->v[i].event);
	}
	free(s->v);
	free(s->matches.v);
	free(s);
	thread_stack = NULL;
}

/* Around fork(): a child must not find the lock held by a thread that the child does not have. */
static void before_fork(void)
{
	lock_acquire(&nvtx.lock);
}

static void after_fork(void)
{
	lock_release(&nvtx.lock);
}

static void init_once(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
	list_init(&nvtx.started);
	nvtx.has_key = pthread_key_create(&nvtx.key, free_stack) == 0;
}

static struct stack *find_stack(void)
{
	struct stack *s = thread_stack;

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
		thread_stack = s;
	}
	return s;
}

static void entry_move(struct entry *to, struct entry *from)
{
	*to = *from;
	event_move(&to->event, &from->event);
}

/* One of the ranges around it is gone. */
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

/* Returns the depth of the new range within its domain, from 0, as NVTX does. */
int nvtx_push(struct event *e)
{
	struct stack *s = find_stack();
	struct entry *top = s ? stack_grow(s) : NULL;
	int depth = 0;

	if (!top) {
		event_deinit(e);
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	for (size_t i = 0; i < s->n; i++) {
		depth += s->v[i].event.domain == e->domain;
	}
	event_move(&top->event, e);
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
	struct stack *s = thread_stack;
	size_t i = s ? s->n : 0;
	int depth = 0;

	while (i > 0 && s->v[i - 1].event.domain != domain) {
		i--;
	}
	if (i == 0) {
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	tell_end(&s->v[i - 1]);
	event_deinit(&s->v[i - 1].event);
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
	struct started *r = malloc(sizeof(*r));

	pthread_once(&nvtx.once, init_once);
	if (!r) {
		event_deinit(e);
		return 0;
	}
	event_move(&r->event, e);
	r->begun = is_watched() ? nvtx_watch_start(&r->event) : 0;
	lock_acquire(&nvtx.lock);
	r->id = ++nvtx.last_id;
	list_append(&nvtx.started, &r->link);
	atomic_fetch_add(&nvtx.version, 1);
	lock_release(&nvtx.lock);
	return r->id;
}

void nvtx_end(nvtxRangeId_t id)
{
	struct started *found = NULL;

	pthread_once(&nvtx.once, init_once);
	lock_acquire(&nvtx.lock);
	list_for_each(l, &nvtx.started) {
		struct started *r = list_entry(l, struct started, link);

		if (r->id == id) {
			found = r;
			list_remove(&r->link);
			atomic_fetch_add(&nvtx.version, 1);
			break;
		}
	}
	lock_release(&nvtx.lock);
	if (found) {
		if (found->begun != 0) {
			nvtx_watch_end(found->begun);
		}
		event_deinit(&found->event);
		free(found);
	}
}

uint32_t nvtx_active_set(struct intern *in)
{
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_generation, seen_set;
	uint64_t version = atomic_load(&nvtx.version);
	uint32_t ranges[64], generation;
	size_t n = 0;

	if (version == 0) {
		return 0;
	}
	generation = intern_generation(in);
	if (version == seen_version && generation == seen_generation) {
		return seen_set;
	}
	lock_acquire(&nvtx.lock);
	list_for_each(l, &nvtx.started) {
		if (n < ARRAY_SIZE(ranges)) {
			ranges[n++] =
				event_range(in, &list_entry(l, struct started, link)->event, 0);
		}
	}
	lock_release(&nvtx.lock);
	seen_set = n ? intern_set(in, ranges, n) : 0;
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

/* From any thread: the capture must not end meanwhile. */
void nvtx_mark(struct event *e)
{
	struct visit *v = visit_of_thread();
	struct capture *c = v ? atomic_load_explicit(&v->capture, memory_order_relaxed) : NULL;
	bool inside = c != NULL;

	c = v && !inside ? visit_begin(v) : c;
	if (c) {
		if (is_watched()) {
			nvtx_watch_mark(c, e);
		}
		note_mark(&c->intern, e);
	}
	if (v && !inside) {
		visit_end(v);
	}
	event_deinit(e);
}

/* --- domains and categories --- */

/* A domain is never freed: ranges of other threads may still name it after nvtxDomainDestroy(). */
struct nvtx_domain *nvtx_new_domain(const char *name)
{
	struct nvtx_domain *d = calloc(1, sizeof(*d));

	if (!d || !(d->name = strdup(name ? name : ""))) {
		free(d);
		return NULL;
	}
	d->made_before = atomic_load(&nvtx.domains);
	while (!atomic_compare_exchange_weak(&nvtx.domains, &d->made_before, d)) {
	}
	return d;
}

void nvtx_name_category(struct nvtx_domain *d, uint32_t id, const char *name)
{
	struct category *c = malloc(sizeof(*c));

	d = d ? d : &nvtx.default_domain;
	if (!c || !(c->name = strdup(name ? name : ""))) {
		free(c);
		return;
	}
	c->id = id;
	c->named_before = atomic_load(&d->categories);
	while (!atomic_compare_exchange_weak(&d->categories, &c->named_before, c)) {
	}
}
