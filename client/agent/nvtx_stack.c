/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/lock.h"

/* The stacks of threads, the start/end ranges of the process, the domains, and the contents of
 * events. A counter changes with the list of start/end ranges (nvtx_sites.c). Domains and names of
 * categories are only added, and their lists are read without a lock. */

struct category {
	struct category *named_before;
	uint32_t id;
	char *name;
};

struct nvtx_domain {
	struct nvtx_domain *made_before;
	char *name;
	_Atomic(struct category *) categories; /* the one named last; never freed */
};

static struct {
	struct nvtx_domain default_domain;
	_Atomic(struct nvtx_domain *) domains; /* the one made last; without the default domain */
	struct lock lock;		       /* protects the next two */
	struct list started;
	nvtxRangeId_t last_id;
	_Atomic uint64_t version; /* changes with the list */
} process = { .lock = LOCK_INITIALIZER(LOCK_PART),
	      .started = { &process.started, &process.started } };

static __thread struct stack *thread_stack;

struct stack *nvtx_stack(void)
{
	return thread_stack;
}

void nvtx_set_stack(struct stack *s)
{
	thread_stack = s;
}

/* --- start/end ranges --- */

/* In the child, the thread that may have been changing the list does not exist. If that is the
 * forking thread itself, in a signal handler, the child goes on with an empty list. */
static void after_fork_in_child(void)
{
	if (lock_try(&process.lock)) {
		lock_release(&process.lock);
	} else {
		lock_init(&process.lock, LOCK_PART);
		list_init(&process.started);
	}
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, after_fork_in_child);
}

void nvtx_stack_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
}

uint64_t nvtx_started_version(void)
{
	return atomic_load(&process.version);
}

void nvtx_for_each_started(bool (*f)(const struct event *e, void *userdata), void *userdata)
{
	LOCK_SCOPE(&process.lock);
	list_for_each(l, &process.started) {
		if (!f(&list_entry(l, struct started_range, link)->event, userdata)) {
			break;
		}
	}
}

nvtxRangeId_t nvtx_started_add(struct started_range *r)
{
	LOCK_SCOPE(&process.lock);
	r->id = ++process.last_id;
	list_append(&process.started, &r->link);
	atomic_fetch_add(&process.version, 1);
	return r->id;
}

/* Searches from the latest: a program may leave ranges open for ever, and mostly ends recent ones.
 */
struct started_range *nvtx_started_take(nvtxRangeId_t id)
{
	struct started_range *found = NULL;

	LOCK_SCOPE(&process.lock);
	list_for_each_back(l, &process.started) {
		struct started_range *r = list_entry(l, struct started_range, link);

		if (r->id == id) {
			found = r;
			list_remove(&r->link);
			atomic_fetch_add(&process.version, 1);
			break;
		}
	}
	return found;
}

/* --- domains and categories --- */

const char *nvtx_domain_name(const struct nvtx_domain *domain)
{
	return domain ? domain->name : "";
}

const char *nvtx_category_name(const struct nvtx_domain *d, uint32_t id)
{
	const struct category *c = atomic_load(&(d ? d : &process.default_domain)->categories);

	while (c && c->id != id) {
		c = c->named_before;
	}
	return c ? c->name : NULL;
}

/* A domain is never freed: ranges of other threads may still name it after nvtxDomainDestroy(). */
struct nvtx_domain *nvtx_new_domain(const char *name)
{
	struct nvtx_domain *d = calloc(1, sizeof(*d));

	if (!d || !(d->name = strdup(name ? name : ""))) {
		free(d);
		return NULL;
	}
	d->made_before = atomic_load(&process.domains);
	while (!atomic_compare_exchange_weak(&process.domains, &d->made_before, d)) {
	}
	return d;
}

void nvtx_name_category(struct nvtx_domain *d, uint32_t id, const char *name)
{
	struct category *c = malloc(sizeof(*c));

	d = d ? d : &process.default_domain;
	if (!c || !(c->name = strdup(name ? name : ""))) {
		free(c);
		return;
	}
	c->id = id;
	c->named_before = atomic_load(&d->categories);
	while (!atomic_compare_exchange_weak(&d->categories, &c->named_before, c)) {
	}
}

enum { MESSAGE_MAX = 16 * 1024 };

void nvtx_event_deinit(struct event *e)
{
	if (e->message != e->inline_message) {
		free(e->message);
	}
}

void nvtx_event_move(struct event *to, struct event *from)
{
	bool inside = from->message == from->inline_message;

	*to = *from;
	if (inside) {
		to->message = to->inline_message;
	}
}

static void set_message(struct event *e, const char *s)
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
const char *nvtx_narrow(const wchar_t *w, struct nvtx_text *text)
{
	static const uint8_t first[] = { 0, 0xc0, 0xe0, 0xf0 };
	size_t n = 0;

	for (; w && *w && n + 5 < sizeof(text->utf8); w++) {
		uint32_t c = (uint32_t)*w & 0x1fffff;
		unsigned more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);

		text->utf8[n++] = (char)(first[more] | c >> 6 * more);
		while (more-- > 0) {
			text->utf8[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
		}
	}
	text->utf8[n] = '\0';
	return text->utf8;
}

void nvtx_event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message)
{
	*e = (struct event){ .domain = domain };
	set_message(e, message ? message : "");
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

static const char *message_of(const nvtxEventAttributes_t *a, struct nvtx_text *text)
{
	switch (a->messageType) {
	case NVTX_MESSAGE_TYPE_UNICODE:
		return nvtx_narrow(a->message.unicode, text);
	case NVTX_MESSAGE_TYPE_REGISTERED:
		return (const char *)a->message.registered;
	case NVTX_MESSAGE_TYPE_ASCII:
		return a->message.ascii;
	default:
		return NULL;
	}
}

void nvtx_event_from_attributes(struct event *e, const struct nvtx_domain *domain,
				const nvtxEventAttributes_t *a)
{
	struct nvtx_text text;

	nvtx_event_from_ascii(e, domain, a ? message_of(a, &text) : NULL);
	if (!a) {
		return;
	}
	e->category = a->category;
	e->color = a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
	if (a->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 &&
	    a->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
		e->payload_type = (uint32_t)a->payloadType;
		e->payload = payload_bits(a);
	}
}
