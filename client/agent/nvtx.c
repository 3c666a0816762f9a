/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "daemon/base/clean.h"
#include "daemon/base/clock.h"
#include "daemon/base/list.h"

/* Programs push far more ranges than they launch kernels inside, so a push only copies its message to
 * the thread's stack. Numbers are made when a launch asks for them, outermost first, and kept in the
 * stack's entries until they are popped (or until intern forgot its numbers, which the generation
 * tells). A thread's stack holds the ranges of all domains in the order they were pushed; a pop takes
 * the last one of its domain, which need not be the last of all.
 *
 * Start/end ranges belong to the process: a list under a lock, and a counter that changes with it, so
 * that launches in between reuse the set they found last. */

enum { MESSAGE_INLINE = 104, MESSAGE_MAX = 16 * 1024, STACK_MAX = 1 << 16 };

struct category {
	struct list link;
	uint32_t id;
	char *name;
};

struct nvtx_domain {
	char *name;
	pthread_mutex_t lock;
	struct list categories;
};

struct event {
	const struct nvtx_domain *domain; /* NULL: the default one */
	char *message;      /* inline_message, or heap */
	uint32_t category;
	uint32_t color;
	uint32_t payload_type;
	uint64_t payload;
	char inline_message[MESSAGE_INLINE];
};

struct entry {
	struct event event;
	uint32_t range; /* 0: no number yet */
	uint32_t generation;
};

struct stack {
	struct entry *v;
	size_t n, room;
	uint32_t thread;
};

struct started {
	struct list link;
	nvtxRangeId_t id;
	struct event event;
};

static struct {
	_Atomic(struct intern *) intern;
	struct nvtx_domain default_domain;
	pthread_mutex_t lock; /* of the list below */
	struct list started;
	nvtxRangeId_t last_id;
	_Atomic uint64_t version; /* of the list */
	pthread_key_t key;
	pthread_once_t once;
} nvtx = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT,
	   .default_domain = { .lock = PTHREAD_MUTEX_INITIALIZER } };

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
static void wide_to_utf8(const wchar_t *w, char *out, size_t size)
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

static void event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message)
{
	*e = (struct event){ .domain = domain };
	event_set_message(e, message ? message : "");
}

static void event_from_wide(struct event *e, const struct nvtx_domain *domain, const wchar_t *message)
{
	char text[4096] = "";

	if (message) {
		wide_to_utf8(message, text, sizeof(text));
	}
	event_from_ascii(e, domain, text);
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

static void event_from_attributes(struct event *e, const struct nvtx_domain *domain, const nvtxEventAttributes_t *a)
{
	if (!a) {
		event_from_ascii(e, domain, "");
		return;
	}
	if (a->messageType == NVTX_MESSAGE_TYPE_UNICODE) {
		event_from_wide(e, domain, a->message.unicode);
	} else if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
		event_from_ascii(e, domain, (const char *)a->message.registered);
	} else {
		event_from_ascii(e, domain, a->messageType == NVTX_MESSAGE_TYPE_ASCII ? a->message.ascii : "");
	}
	e->category = a->category;
	e->color = a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
	if (a->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 && a->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
		e->payload_type = (uint32_t)a->payloadType;
		e->payload = payload_bits(a);
	}
}

/* --- numbers --- */

static uint32_t category_string(struct intern *in, const struct event *e)
{
	struct nvtx_domain *d = e->domain ? (struct nvtx_domain *)(uintptr_t)e->domain : &nvtx.default_domain;
	char digits[16];
	uint32_t id = 0;

	if (e->category == 0) {
		return 0;
	}
	pthread_mutex_lock(&d->lock);
	for (struct list *l = d->categories.next; l && l != &d->categories; l = l->next) {
		struct category *c = list_entry(l, struct category, link);

		if (c->id == e->category) {
			id = intern_string(in, c->name);
		}
	}
	pthread_mutex_unlock(&d->lock);
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

uint32_t nvtx_current_range(void)
{
	struct intern *in = atomic_load_explicit(&nvtx.intern, memory_order_acquire);
	struct stack *s = thread_stack;
	uint32_t generation, range = 0;
	size_t i;

	if (!in || !s || s->n == 0) {
		return 0;
	}
	generation = intern_generation(in);
	for (i = s->n; i > 0 && (s->v[i - 1].range == 0 || s->v[i - 1].generation != generation); i--) {
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

static void free_stack(void *p)
{
	struct stack *s = p;

	for (size_t i = 0; i < s->n; i++) {
		event_deinit(&s->v[i].event);
	}
	free(s->v);
	free(s);
	thread_stack = NULL;
}

static void init_once(void)
{
	list_init(&nvtx.started);
	list_init(&nvtx.default_domain.categories);
	pthread_key_create(&nvtx.key, free_stack);
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
		pthread_setspecific(nvtx.key, s);
		thread_stack = s;
	}
	return s;
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
			event_move(&v[i].event, &s->v[i].event);
			v[i].range = s->v[i].range;
			v[i].generation = s->v[i].generation;
		}
		free(s->v);
		s->v = v;
		s->room = room;
	}
	return &s->v[s->n];
}

/* Returns the depth of the new range within its domain, from 0, as NVTX does. */
static int push_event(struct event *e)
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
	s->n++;
	return depth;
}

static int pop_domain(const struct nvtx_domain *domain)
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
	event_deinit(&s->v[i - 1].event);
	for (size_t k = i; k < s->n; k++) {
		event_move(&s->v[k - 1].event, &s->v[k].event);
		s->v[k - 1].range = 0; /* has lost a range around it */
	}
	s->n--;
	for (size_t k = 0; k < s->n; k++) {
		depth += s->v[k].event.domain == domain;
	}
	return depth;
}

/* --- start and end --- */

static nvtxRangeId_t start_event(struct event *e)
{
	struct started *r = malloc(sizeof(*r));

	pthread_once(&nvtx.once, init_once);
	if (!r) {
		event_deinit(e);
		return 0;
	}
	event_move(&r->event, e);
	pthread_mutex_lock(&nvtx.lock);
	r->id = ++nvtx.last_id;
	list_append(&nvtx.started, &r->link);
	atomic_fetch_add(&nvtx.version, 1);
	pthread_mutex_unlock(&nvtx.lock);
	return r->id;
}

static void end_range(nvtxRangeId_t id)
{
	struct started *found = NULL;

	pthread_once(&nvtx.once, init_once);
	pthread_mutex_lock(&nvtx.lock);
	list_for_each(l, &nvtx.started) {
		struct started *r = list_entry(l, struct started, link);

		if (r->id == id) {
			found = r;
			list_remove(&r->link);
			atomic_fetch_add(&nvtx.version, 1);
			break;
		}
	}
	pthread_mutex_unlock(&nvtx.lock);
	if (found) {
		event_deinit(&found->event);
		free(found);
	}
}

uint32_t nvtx_active_set(void)
{
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_generation, seen_set;
	struct intern *in = atomic_load_explicit(&nvtx.intern, memory_order_acquire);
	uint64_t version = atomic_load(&nvtx.version);
	uint32_t ranges[64], generation;
	size_t n = 0;

	if (!in || version == 0) {
		return 0;
	}
	generation = intern_generation(in);
	if (version == seen_version && generation == seen_generation) {
		return seen_set;
	}
	pthread_mutex_lock(&nvtx.lock);
	list_for_each(l, &nvtx.started) {
		if (n < ARRAY_SIZE(ranges)) {
			ranges[n++] = event_range(in, &list_entry(l, struct started, link)->event, 0);
		}
	}
	pthread_mutex_unlock(&nvtx.lock);
	seen_set = n ? intern_set(in, ranges, n) : 0;
	seen_version = version;
	seen_generation = generation;
	return seen_set;
}

/* --- marks --- */

static void mark_event(struct event *e)
{
	struct intern *in = atomic_load_explicit(&nvtx.intern, memory_order_acquire);

	if (in) {
		struct stack *s = find_stack();

		intern_mark(in, event_range(in, e, nvtx_current_range()), s ? s->thread : 0, (int64_t)clock_wall_ns());
	}
	event_deinit(e);
}

/* --- the functions NVTX calls --- */

static const struct nvtx_domain *domain_of(nvtxDomainHandle_t handle)
{
	return (const struct nvtx_domain *)handle;
}

static void on_mark_ex(const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, NULL, a);
	mark_event(&e);
}

static void on_mark_a(const char *message)
{
	struct event e;

	event_from_ascii(&e, NULL, message);
	mark_event(&e);
}

static void on_mark_w(const wchar_t *message)
{
	struct event e;

	event_from_wide(&e, NULL, message);
	mark_event(&e);
}

static nvtxRangeId_t on_start_ex(const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, NULL, a);
	return start_event(&e);
}

static nvtxRangeId_t on_start_a(const char *message)
{
	struct event e;

	event_from_ascii(&e, NULL, message);
	return start_event(&e);
}

static nvtxRangeId_t on_start_w(const wchar_t *message)
{
	struct event e;

	event_from_wide(&e, NULL, message);
	return start_event(&e);
}

static void on_end(nvtxRangeId_t id)
{
	end_range(id);
}

static int on_push_ex(const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, NULL, a);
	return push_event(&e);
}

static int on_push_a(const char *message)
{
	struct event e;

	event_from_ascii(&e, NULL, message);
	return push_event(&e);
}

static int on_push_w(const wchar_t *message)
{
	struct event e;

	event_from_wide(&e, NULL, message);
	return push_event(&e);
}

static int on_pop(void)
{
	return pop_domain(NULL);
}

static void name_category(struct nvtx_domain *d, uint32_t id, const char *name)
{
	struct category *c = malloc(sizeof(*c));

	pthread_once(&nvtx.once, init_once);
	if (!c || !(c->name = strdup(name ? name : ""))) {
		free(c);
		return;
	}
	c->id = id;
	pthread_mutex_lock(&d->lock);
	list_append(&d->categories, &c->link);
	pthread_mutex_unlock(&d->lock);
}

static void on_name_category_a(uint32_t id, const char *name)
{
	name_category(&nvtx.default_domain, id, name);
}

static void on_name_category_w(uint32_t id, const wchar_t *name)
{
	char text[512] = "";

	if (name) {
		wide_to_utf8(name, text, sizeof(text));
	}
	name_category(&nvtx.default_domain, id, text);
}

static void on_domain_mark_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, domain_of(domain), a);
	mark_event(&e);
}

static nvtxRangeId_t on_domain_start_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, domain_of(domain), a);
	return start_event(&e);
}

static void on_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	(void)domain;
	end_range(id);
}

static int on_domain_push_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	struct event e;

	event_from_attributes(&e, domain_of(domain), a);
	return push_event(&e);
}

static int on_domain_pop(nvtxDomainHandle_t domain)
{
	return pop_domain(domain_of(domain));
}

static void on_domain_name_category_a(nvtxDomainHandle_t domain, uint32_t id, const char *name)
{
	name_category(domain ? (struct nvtx_domain *)domain : &nvtx.default_domain, id, name);
}

static void on_domain_name_category_w(nvtxDomainHandle_t domain, uint32_t id, const wchar_t *name)
{
	char text[512] = "";

	if (name) {
		wide_to_utf8(name, text, sizeof(text));
	}
	on_domain_name_category_a(domain, id, text);
}

/* A registered string is its text: it lives as long as the process. */
static nvtxStringHandle_t on_register_a(nvtxDomainHandle_t domain, const char *s)
{
	(void)domain;
	return (nvtxStringHandle_t)strdup(s ? s : "");
}

static nvtxStringHandle_t on_register_w(nvtxDomainHandle_t domain, const wchar_t *s)
{
	char text[4096] = "";

	if (s) {
		wide_to_utf8(s, text, sizeof(text));
	}
	return on_register_a(domain, text);
}

/* A domain is never freed: ranges of other threads may still name it after nvtxDomainDestroy(). */
static nvtxDomainHandle_t on_domain_create_a(const char *name)
{
	struct nvtx_domain *d = calloc(1, sizeof(*d));

	if (!d || !(d->name = strdup(name ? name : ""))) {
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->lock, NULL);
	list_init(&d->categories);
	return (nvtxDomainHandle_t)d;
}

static nvtxDomainHandle_t on_domain_create_w(const wchar_t *name)
{
	char text[512] = "";

	if (name) {
		wide_to_utf8(name, text, sizeof(text));
	}
	return on_domain_create_a(text);
}

static void on_domain_destroy(nvtxDomainHandle_t domain)
{
	(void)domain;
}

/* --- registration --- */

struct callback {
	unsigned id;
	NvtxFunctionPointer function;
};

#define CALLBACK(id, f) { id, (NvtxFunctionPointer)(f) }

static const struct callback core[] = {
	CALLBACK(NVTX_CBID_CORE_MarkEx, on_mark_ex),
	CALLBACK(NVTX_CBID_CORE_MarkA, on_mark_a),
	CALLBACK(NVTX_CBID_CORE_MarkW, on_mark_w),
	CALLBACK(NVTX_CBID_CORE_RangeStartEx, on_start_ex),
	CALLBACK(NVTX_CBID_CORE_RangeStartA, on_start_a),
	CALLBACK(NVTX_CBID_CORE_RangeStartW, on_start_w),
	CALLBACK(NVTX_CBID_CORE_RangeEnd, on_end),
	CALLBACK(NVTX_CBID_CORE_RangePushEx, on_push_ex),
	CALLBACK(NVTX_CBID_CORE_RangePushA, on_push_a),
	CALLBACK(NVTX_CBID_CORE_RangePushW, on_push_w),
	CALLBACK(NVTX_CBID_CORE_RangePop, on_pop),
	CALLBACK(NVTX_CBID_CORE_NameCategoryA, on_name_category_a),
	CALLBACK(NVTX_CBID_CORE_NameCategoryW, on_name_category_w),
};

static const struct callback core2[] = {
	CALLBACK(NVTX_CBID_CORE2_DomainMarkEx, on_domain_mark_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangeStartEx, on_domain_start_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangeEnd, on_domain_end),
	CALLBACK(NVTX_CBID_CORE2_DomainRangePushEx, on_domain_push_ex),
	CALLBACK(NVTX_CBID_CORE2_DomainRangePop, on_domain_pop),
	CALLBACK(NVTX_CBID_CORE2_DomainNameCategoryA, on_domain_name_category_a),
	CALLBACK(NVTX_CBID_CORE2_DomainNameCategoryW, on_domain_name_category_w),
	CALLBACK(NVTX_CBID_CORE2_DomainRegisterStringA, on_register_a),
	CALLBACK(NVTX_CBID_CORE2_DomainRegisterStringW, on_register_w),
	CALLBACK(NVTX_CBID_CORE2_DomainCreateA, on_domain_create_a),
	CALLBACK(NVTX_CBID_CORE2_DomainCreateW, on_domain_create_w),
	CALLBACK(NVTX_CBID_CORE2_DomainDestroy, on_domain_destroy),
};

static bool install(const NvtxExportTableCallbacks *t, NvtxCallbackModule module, const struct callback *v, size_t n)
{
	NvtxFunctionTable functions = NULL;
	unsigned size = 0;

	if (!t->GetModuleFunctionTable(module, &functions, &size) || !functions) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (v[i].id < size && functions[v[i].id]) {
			*functions[v[i].id] = v[i].function;
		}
	}
	return true;
}

int nvtx_initialize(const void *(*export_table)(uint32_t))
{
	const NvtxExportTableCallbacks *t = export_table(NVTX_ETID_CALLBACKS);

	if (!t || t->struct_size < sizeof(*t)) {
		return 0;
	}
	pthread_once(&nvtx.once, init_once);
	return install(t, NVTX_CB_MODULE_CORE, core, ARRAY_SIZE(core)) &&
	       install(t, NVTX_CB_MODULE_CORE2, core2, ARRAY_SIZE(core2));
}

void nvtx_attach(struct intern *in)
{
	pthread_once(&nvtx.once, init_once);
	atomic_store_explicit(&nvtx.intern, in, memory_order_release);
}
