/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/leases.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/base/log.h"

/* The lease's own thread makes every driver call for a lease, freeing and closing included, one
 * call after the other: lease i of the table has thread i. Leases share no GPU and need at least
 * one, so there are enough threads, and a driver that hangs on one GPU delays only one lease. When
 * a lease covers several GPUs, the granter cannot find out on which one the driver hangs, because
 * the numbers of an object do not name a GPU.
 *
 * A lease whose driver call takes too long ends, and its pending requests are answered; but its
 * GPUs stay taken until the call has returned and its objects are freed. A lease is over, and the
 * next one on its GPUs opens, only when all its objects are gone. */

void leases_init(struct leases *s, int link)
{
	outbox_init(&s->outbox, link);
	list_init(&s->unused);
	callers_init(&s->callers);
	s->n_objects = 0;
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		s->all[i] = (struct lease){ 0 };
		list_init(&s->all[i].objects);
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->objects); i++) {
		list_append(&s->unused, &s->objects[i].link);
	}
}

struct lease *lease_find(struct leases *s, uint64_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (s->all[i].state == LEASE_OPEN && s->all[i].id == id) {
			return &s->all[i];
		}
	}
	return NULL;
}

/* --- messages to the front --- */

static void report(struct leases *s, const struct lease *l, enum granter_op op)
{
	outbox_say(&s->outbox,
		   &(struct granter_reply){ .op = op, .lease = l->id, .gpus = l->gpus });
}

static void answer(struct leases *s, const struct lease *l, enum granter_op op, uint64_t request,
		   int error, uint32_t status)
{
	outbox_say(&s->outbox, &(struct granter_reply){ .op = op,
							.id = request,
							.lease = l->id,
							.error = error,
							.status = status });
}

static void answer_object(struct leases *s, const struct lease *l, struct object *o, int error,
			  uint32_t status)
{
	if (!o->answered) {
		o->answered = true;
		answer(s, l, GRANTER_ALLOC, o->request, error, status);
	}
}

/* --- objects --- */

static bool counts(const struct object *o)
{
	return o->state == OBJECT_ASKED || o->state == OBJECT_HELD;
}

static void object_set_state(struct leases *s, struct lease *l, struct object *o,
			     enum object_state state)
{
	bool before = counts(o);

	o->state = state;
	if (before && !counts(o)) {
		l->n_objects--;
		s->n_objects--;
	}
}

/* Called when nobody wants o any more. An object that the driver has made, or is making now, is to
 * be freed. */
static void object_give_up(struct leases *s, struct lease *l, struct object *o)
{
	bool is_made = o->state != OBJECT_GONE && (o->state != OBJECT_ASKED || o == l->busy);

	object_set_state(s, l, o, is_made ? OBJECT_UNWANTED : OBJECT_GONE);
}

static void object_drop(struct leases *s, struct lease *l, struct object *o)
{
	object_set_state(s, l, o, OBJECT_GONE);
	caller_release(&s->callers, TAKE_PTR(o->caller));
	list_remove(&o->link);
	list_append(&s->unused, &o->link);
	l->n_slots--;
}

/* Does o wait for the thread? */
static bool is_due(const struct lease *l, const struct object *o)
{
	return o->state != OBJECT_HELD || l->state == LEASE_ENDING;
}

static void give(struct leases *s, struct lease *l, struct object *o)
{
	static const enum call_act acts[] = {
		[OBJECT_ASKED] = CALL_ALLOC,
		[OBJECT_HELD] = CALL_FREE,
		[OBJECT_UNWANTED] = CALL_FREE,
		[OBJECT_GONE] = CALL_CLOSE,
	};
	const struct call call = {
		.act = acts[o->state],
		.fd = o->fd,
		.root = o->root,
		.parent = o->parent,
		.object = o->object,
		.parameters = o->parameters,
		.gpus = l->names,
		.n_gpus = l->n_names,
	};

	l->busy = o;
	l->busy_since_ns = clock_now_ns();
	l->stuck = false;
	thread_give((unsigned)(l - s->all), &call);
}

/* The priority of o among the objects of a lease that ends; higher is first. */
static int urgency(const struct object *o)
{
	return o->state == OBJECT_HELD ? 2 : o->state != OBJECT_GONE;
}

/* The next object for the thread: the oldest; in a lease that ends, the newest, held ones first.
 * CUPTI has freed most older objects itself, and this process may be killed before a slow driver
 * has freed all, so objects that still count are freed first. */
static struct object *find_due(const struct lease *l)
{
	struct object *due = NULL;

	list_for_each(i, (struct list *)(uintptr_t)&l->objects) {
		struct object *o = list_entry(i, struct object, link);

		if (is_due(l, o) && l->state != LEASE_ENDING) {
			return o;
		}
		if (is_due(l, o) && (!due || urgency(o) >= urgency(due))) {
			due = o;
		}
	}
	return due;
}

static void lease_finish(struct leases *s, struct lease *l);

static void work(struct leases *s, struct lease *l)
{
	struct object *o = l->busy ? NULL : find_due(l);

	if (o) {
		give(s, l, o);
	} else if (!l->busy && l->state == LEASE_ENDING) {
		lease_finish(s, l);
	}
}

/* --- room for one more object --- */

static struct object *oldest_held(const struct lease *l)
{
	list_for_each(i, &l->objects) {
		struct object *o = list_entry(i, struct object, link);

		if (o->state == OBJECT_HELD) {
			return o;
		}
	}
	return NULL;
}

/* The lease that loses an object when there is no place left for one of l: a lease that is ending,
 * which loses all anyway, or the lease with most objects; l itself, if none has more. So nobody can
 * use up the places of others. */
static struct lease *find_giver(struct leases *s, struct lease *l)
{
	struct lease *giver = l;
	unsigned most = l->n_objects;

	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		struct lease *other = &s->all[i];
		unsigned n = other->state == LEASE_ENDING ? UINT_MAX : other->n_objects;

		if (n > most && oldest_held(other)) {
			giver = other;
			most = n;
		}
	}
	return giver;
}

/* CUPTI frees most of its objects itself, which the granter cannot see. So a lease at its limit
 * loses its oldest object. When all leases together are at theirs, the largest lease does. Freeing
 * it fails harmlessly if CUPTI has freed it already. */
static bool make_room(struct leases *s, struct lease *l)
{
	bool is_small = l->n_objects < GRANTER_OBJECTS_PER_LEASE_MAX;
	struct lease *giver;
	struct object *o;

	/* Processes have ended faster than the driver frees their objects. */
	if (l->n_slots == SLOTS_PER_LEASE_MAX || list_is_empty(&s->unused)) {
		return false;
	}
	if (is_small && s->n_objects < GRANTER_OBJECTS_MAX) {
		return true;
	}
	giver = is_small ? find_giver(s, l) : l;
	o = oldest_held(giver);
	if (!o) {
		return false;
	}
	object_set_state(s, giver, o, OBJECT_UNWANTED);
	work(s, giver);
	return true;
}

int lease_ask(struct leases *s, struct lease *l, const struct granter_request *q, int *fd)
{
	struct caller *caller = NULL;
	struct object *o;
	int r = caller_add(&s->callers, q->pid, &caller);

	if (r == 0 && !make_room(s, l)) {
		r = -ENOSPC;
	}
	if (r < 0) {
		caller_release(&s->callers, caller);
		return r;
	}
	o = list_entry(s->unused.next, struct object, link);
	list_remove(&o->link);
	*o = (struct object){
		.state = OBJECT_ASKED,
		.request = q->id,
		.root = q->root,
		.parent = q->parent,
		.object = q->object,
		.parameters = { q->client_target, q->context_target },
		.fd = TAKE_FD(*fd),
		.caller = caller,
	};
	list_append(&l->objects, &o->link);
	l->n_slots++;
	l->n_objects++;
	s->n_objects++;
	work(s, l);
	return 0;
}

/* Frees p's objects, because they may survive p: another process, a fork or one that p has sent it
 * to, may share the file on which they were made. */
static void forget_caller_of(struct leases *s, struct lease *l, const struct caller *p)
{
	list_for_each(i, &l->objects) {
		struct object *o = list_entry(i, struct object, link);

		if (o->caller == p) {
			caller_release(&s->callers, TAKE_PTR(o->caller));
			answer_object(s, l, o, -ESRCH, 0);
			object_give_up(s, l, o);
		}
	}
}

void leases_forget_caller(struct leases *s, struct caller *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		forget_caller_of(s, &s->all[i], p);
		work(s, &s->all[i]);
	}
}

/* --- leases --- */

/* Is l open, or waiting to be? */
static bool is_wanted(const struct lease *l)
{
	return l->state == LEASE_OPENING || l->state == LEASE_OPEN;
}

/* Do a and b have a GPU in common? Bits are only the front's numbering of GPUs, so this compares
 * the names too, which the driver knows. */
static bool share_gpu(const struct lease *a, const struct lease *b)
{
	for (unsigned i = 0; i < b->n_names; i++) {
		if (call_names(a->names, a->n_names, &b->names[i])) {
			return true;
		}
	}
	return (a->gpus & b->gpus) != 0;
}

/* The lease that is ending on a GPU of the wanted one; NULL: none. Prefers a hung lease. */
static const struct lease *find_ending(const struct leases *s, const struct lease *wanted)
{
	const struct lease *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		const struct lease *l = &s->all[i];

		if (l->state == LEASE_ENDING && share_gpu(l, wanted) && (!found || l->hung)) {
			found = l;
		}
	}
	return found;
}

/* Opens l, refuses l, or lets l wait. */
static void try_open(struct leases *s, struct lease *l)
{
	const struct lease *before = find_ending(s, l);

	if (before && !before->hung) {
		return;
	}
	l->state = before ? LEASE_FREE : LEASE_OPEN;
	answer(s, l, GRANTER_OPEN, l->request, before ? -ETIMEDOUT : 0, 0);
}

static void open_waiting(struct leases *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (s->all[i].state == LEASE_OPENING) {
			try_open(s, &s->all[i]);
		}
	}
}

static struct lease asked_lease(const struct granter_request *q)
{
	struct lease l = {
		.state = LEASE_OPENING,
		.id = q->lease,
		.gpus = q->gpus,
		.uid = q->uid,
		.device = q->device == 1,
		.request = q->id,
	};

	for (unsigned i = 0; i < GRANTER_GPUS_MAX; i++) {
		if ((q->gpus >> i & 1) != 0) {
			l.names[l.n_names++] = q->names[i];
		}
	}
	return l;
}

int lease_open(struct leases *s, const struct granter_request *q)
{
	const struct lease asked = asked_lease(q);
	struct lease *slot = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		struct lease *l = &s->all[i];

		if (l->state == LEASE_FREE) {
			slot = slot ? slot : l;
		} else if (l->id == q->lease || (is_wanted(l) && share_gpu(l, &asked))) {
			return -EBUSY;
		}
	}
	if (!slot) {
		return -ENOSPC;
	}
	*slot = asked;
	list_init(&slot->objects);
	try_open(s, slot);
	return 0;
}

/* Called when l has no object left: frees its slot. */
static void lease_finish(struct leases *s, struct lease *l)
{
	if (l->close_to_answer) {
		answer(s, l, GRANTER_CLOSE, l->request, 0, 0);
	}
	if (l->hung) {
		report(s, l, GRANTER_ANSWERS);
	}
	l->state = LEASE_FREE;
	open_waiting(s);
}

/* Requests that wait for an object are answered with error. */
static void lease_end(struct leases *s, struct lease *l, int error)
{
	l->state = LEASE_ENDING;
	list_for_each(i, &l->objects) {
		struct object *o = list_entry(i, struct object, link);

		answer_object(s, l, o, error, 0);
		if (o->state == OBJECT_ASKED && o != l->busy) {
			object_set_state(s, l, o, OBJECT_GONE);
		}
	}
	work(s, l);
}

int lease_close(struct leases *s, const struct granter_request *q)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		struct lease *l = &s->all[i];

		if (!is_wanted(l) || l->id != q->lease) {
			continue;
		}
		if (l->state == LEASE_OPENING) {
			answer(s, l, GRANTER_OPEN, l->request, -ECANCELED, 0);
		}
		l->request = q->id;
		l->close_to_answer = true;
		lease_end(s, l, -ENOENT);
		return 0;
	}
	return -ENOENT;
}

/* --- results of the threads --- */

/* Is the object gone after this free? CUPTI may have freed it before, or the program may have freed
 * its whole client. */
static bool has_freed(const struct call *e)
{
	return e->error == 0 &&
	       (e->status == RM_STATUS_OK || e->status == RM_STATUS_OBJECT_NOT_FOUND ||
		e->status == RM_STATUS_CLIENT_NOT_FOUND);
}

static void complete(struct leases *s, struct lease *l, const struct call *e)
{
	struct object *o = l->busy;

	l->busy = NULL;
	if (call_has_allocated(e)) {
		answer_object(s, l, o, 0, RM_STATUS_OK);
		if (o->state == OBJECT_ASKED) { /* else its process has ended meanwhile */
			o->state = OBJECT_HELD;
		}
	} else {
		if (e->act == CALL_FREE && !has_freed(e)) {
			log_debug("free of object 0x%x: %s, status 0x%x", o->object,
				  strerror(-e->error), e->status);
		}
		answer_object(s, l, o, e->error, e->error ? 0 : e->status);
		object_drop(s, l, o);
	}
	work(s, l);
}

void leases_collect(struct leases *s)
{
	threads_acknowledge();
	for (unsigned i = 0; i < ARRAY_SIZE(s->all); i++) {
		struct call call;

		if (s->all[i].busy && thread_take(i, &call)) {
			complete(s, &s->all[i], &call);
		}
	}
}

/* --- time --- */

static void note_hung(struct leases *s, struct lease *l)
{
	log_error(
		"the driver does not answer: lease %llu is over, and its GPUs wait for the driver",
		(unsigned long long)l->id);
	l->hung = true;
	if (l->close_to_answer) {
		l->close_to_answer = false;
		answer(s, l, GRANTER_CLOSE, l->request, -ETIMEDOUT, 0);
	}
	report(s, l, GRANTER_HUNG);
	if (l->state == LEASE_OPEN) {
		lease_end(s, l, -ETIMEDOUT);
	}
	open_waiting(s);
}

static uint64_t stuck_ns(const struct lease *l)
{
	return l->busy && !l->stuck ? l->busy_since_ns + GRANTER_HUNG_NS : UINT64_MAX;
}

void leases_tick(struct leases *s, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		struct lease *l = &s->all[i];

		if (now_ns >= stuck_ns(l)) {
			l->stuck = true;
			if (!l->hung) {
				note_hung(s, l);
			}
		}
	}
}

uint64_t leases_next_ns(const struct leases *s)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (stuck_ns(&s->all[i]) < next) {
			next = stuck_ns(&s->all[i]);
		}
	}
	return next;
}

bool leases_are_wanted(const struct leases *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (is_wanted(&s->all[i])) {
			return true;
		}
	}
	return false;
}

void leases_end_all(struct leases *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (is_wanted(&s->all[i])) {
			lease_end(s, &s->all[i], -EPIPE);
		}
	}
}

bool leases_are_ending(const struct leases *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		if (s->all[i].state == LEASE_ENDING && !s->all[i].stuck) {
			return true;
		}
	}
	return false;
}
