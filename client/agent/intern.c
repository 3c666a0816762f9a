/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/intern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* One hash table for all kinds: a 128-bit hash over kind and content stands for the content, so
 * that sent strings need not be kept. Two different things meet in it with a chance of about n^2 /
 * 2^128. */

enum { INTERN_SLOTS_MIN = 1024, INTERN_SLOTS_MAX = 1 << 19 };

enum kind { KIND_STRING = 1, KIND_FUNCTION, KIND_RANGE, KIND_SET };

struct hash {
	uint64_t a, b;
};

/* Shared by all tables of the process, so that a number kept with its generation is never mistaken
 * for one of a later table. */
static _Atomic uint32_t last_generation;

static uint32_t next_generation(void)
{
	uint32_t next = atomic_fetch_add(&last_generation, 1) + 1;

	return next != 0 ? next : next_generation(); /* no table has the generation 0 */
}

int intern_init(struct intern *in)
{
	memset(in, 0, sizeof(*in));
	atomic_init(&in->generation, next_generation());
	in->slots = calloc(INTERN_SLOTS_MIN, sizeof(*in->slots));
	if (!in->slots) {
		return -ENOMEM;
	}
	in->n_slots = INTERN_SLOTS_MIN;
	in->pending_bytes_max = INTERN_PENDING_BYTES_MAX;
	lock_init(&in->lock, LOCK_LEAF);
	return 0;
}

void intern_deinit(struct intern *in)
{
	definitions_deinit(&in->pending);
	free(in->slots);
	lock_deinit(&in->lock);
	memset(in, 0, sizeof(*in));
}

static struct hash hash_start(enum kind kind)
{
	return (struct hash){ 0x9e3779b97f4a7c15u * kind, 0xc2b2ae3d27d4eb4fu ^ kind };
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static void hash_word(struct hash *h, uint64_t word)
{
	h->a = mix(h->a ^ word) + 0x9e3779b97f4a7c15u;
	h->b = (h->b ^ mix(word + 0x165667b19e3779f9u)) * 0x100000001b3u + h->a;
}

static void hash_bytes(struct hash *h, const void *data, size_t bytes)
{
	const char *p = data;
	uint64_t word;

	hash_word(h, bytes);
	for (; bytes >= sizeof(word); bytes -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash_word(h, word);
	}
	if (bytes > 0) {
		word = 0;
		memcpy(&word, p, bytes);
		hash_word(h, word);
	}
}

/* Returns the slot that holds h, or the free slot for it. */
static struct intern_slot *look_up(struct intern *in, const struct hash *h)
{
	size_t i = h->a & (in->n_slots - 1);

	while (in->slots[i].id != 0 &&
	       (in->slots[i].hash[0] != h->a || in->slots[i].hash[1] != h->b)) {
		i = (i + 1) & (in->n_slots - 1);
	}
	return &in->slots[i];
}

static void forget_all(struct intern *in)
{
	memset(in->slots, 0, in->n_slots * sizeof(*in->slots));
	in->n_used = 0;
	atomic_store(&in->generation, next_generation());
}

/* Grows the table so that it is at most half full; at the largest size the table is emptied. */
static void make_room(struct intern *in)
{
	size_t n_old = in->n_slots;
	struct intern_slot *old = in->slots, *slots;

	if (in->n_used * 2 < n_old) {
		return;
	}
	slots = n_old < INTERN_SLOTS_MAX ? calloc(2 * n_old, sizeof(*slots)) : NULL;
	if (!slots) {
		forget_all(in);
		return;
	}
	in->slots = slots;
	in->n_slots = 2 * n_old;
	for (size_t i = 0; i < n_old; i++) {
		if (old[i].id != 0) {
			struct hash h = { old[i].hash[0], old[i].hash[1] };

			*look_up(in, &h) = old[i];
		}
	}
	free(old);
}

static bool push(struct vector *v, const void *element, size_t size)
{
	if (!array_make_room(&v->v, size, v->n, &v->room)) {
		return false;
	}
	memcpy((char *)v->v + v->n++ * size, element, size);
	return true;
}

/* Returns the slot for h, after making room. */
static struct intern_slot *find_slot(struct intern *in, const struct hash *h)
{
	make_room(in);
	return look_up(in, h);
}

static void take_slot(struct intern *in, struct intern_slot *slot, const struct hash *h,
		      uint32_t *last)
{
	*slot = (struct intern_slot){ { h->a, h->b }, ++*last };
	in->n_used++;
}

/* --- what is defined --- */

enum { OVERHEAD_BYTES = 32 }; /* of an allocation, and of what points to it */

/* Kernels have a reserve of their own, so that messages that never repeat do not hide them. False:
 * too much waits to be sent. */
static bool take_bytes(struct intern *in, size_t bytes, enum kind kind)
{
	size_t max = in->pending_bytes_max +
		     (kind == KIND_FUNCTION ? (size_t)INTERN_FUNCTION_BYTES_MAX : 0);

	if (in->pending_bytes + bytes > max) {
		return false;
	}
	in->pending_bytes += bytes;
	return true;
}

/* Adds a pending definition; the first one determines the first number to be sent. False: out of
 * memory. */
static bool define(struct vector *v, const void *element, size_t size, uint32_t last,
		   uint32_t *first)
{
	if (!push(v, element, size)) {
		return false;
	}
	*first = v->n == 1 ? last + 1 : *first;
	return true;
}

static bool define_string(struct intern *in, const char *s, size_t length, enum kind user)
{
	char *copy = take_bytes(in, length + OVERHEAD_BYTES, user) ? malloc(length + 1) : NULL;

	if (!copy) {
		return false;
	}
	memcpy(copy, s, length);
	copy[length] = '\0';
	utf8_repair(copy); /* the daemon and the client refuse text that is not UTF-8 */
	if (!define(&in->pending.strings, &copy, sizeof(copy), in->last_string,
		    &in->pending.first_string)) {
		free(copy);
		return false;
	}
	return true;
}

/* user: what the string is for. */
static uint32_t string_locked(struct intern *in, const char *s, enum kind user)
{
	struct hash h = hash_start(KIND_STRING);
	size_t length = strnlen(s, LIMIT_STRING_BYTES);
	struct intern_slot *slot;

	hash_bytes(&h, s, length);
	slot = find_slot(in, &h);
	if (slot->id == 0 && define_string(in, s, length, user)) {
		take_slot(in, slot, &h, &in->last_string);
	}
	return slot->id;
}

uint32_t intern_string(struct intern *in, const char *s)
{
	LOCK_SCOPE(&in->lock);
	return string_locked(in, s, KIND_STRING);
}

uint32_t intern_function(struct intern *in, const char *name, uint32_t static_shared_bytes,
			 uint32_t registers)
{
	struct function_key key = { 0, static_shared_bytes, registers };
	struct hash h = hash_start(KIND_FUNCTION);
	struct intern_slot *slot;

	LOCK_SCOPE(&in->lock);
	key.name = string_locked(in, name, KIND_FUNCTION);
	hash_bytes(&h, &key, sizeof(key));
	slot = find_slot(in, &h);
	if (slot->id == 0 && key.name != 0 && take_bytes(in, sizeof(key), KIND_FUNCTION) &&
	    define(&in->pending.functions, &key, sizeof(key), in->last_function,
		   &in->pending.first_function)) {
		take_slot(in, slot, &h, &in->last_function);
	}
	return slot->id;
}

uint32_t intern_range(struct intern *in, const struct range_key *key)
{
	struct hash h = hash_start(KIND_RANGE);
	struct intern_slot *slot;

	hash_bytes(&h, key, sizeof(*key));
	LOCK_SCOPE(&in->lock);
	slot = find_slot(in, &h);
	if (slot->id == 0 && take_bytes(in, sizeof(*key), KIND_RANGE) &&
	    define(&in->pending.ranges, key, sizeof(*key), in->last_range,
		   &in->pending.first_range)) {
		take_slot(in, slot, &h, &in->last_range);
	}
	return slot->id;
}

static bool define_set(struct intern *in, const uint32_t *ranges, size_t n)
{
	uint32_t size = (uint32_t)n;
	size_t before = in->pending.set_ranges.n, i = 0;

	while (i < n && push(&in->pending.set_ranges, &ranges[i], sizeof(ranges[i]))) {
		i++;
	}
	if (i == n && define(&in->pending.set_sizes, &size, sizeof(size), in->last_set,
			     &in->pending.first_set)) {
		return true;
	}
	in->pending.set_ranges.n = before;
	return false;
}

uint32_t intern_set(struct intern *in, const uint32_t *ranges, size_t n)
{
	struct hash h = hash_start(KIND_SET);
	struct intern_slot *slot;

	hash_bytes(&h, ranges, n * sizeof(*ranges));
	LOCK_SCOPE(&in->lock);
	slot = find_slot(in, &h);
	if (slot->id == 0 && take_bytes(in, (n + 1) * sizeof(*ranges), KIND_SET) &&
	    define_set(in, ranges, n)) {
		take_slot(in, slot, &h, &in->last_set);
	}
	return slot->id;
}

/* --- marks --- */

bool intern_has_room(struct intern *in)
{
	bool room;

	LOCK_SCOPE(&in->lock);
	room = in->pending.mark_ranges.n < INTERN_MARKS_MAX;
	in->left_out.marks += !room;
	return room;
}

void intern_mark(struct intern *in, uint32_t range, uint32_t thread, int64_t time_ns)
{
	struct definitions *p = &in->pending;

	LOCK_SCOPE(&in->lock);
	if (range == 0 || p->mark_ranges.n >= INTERN_MARKS_MAX) {
		in->left_out.marks++;
	} else if (!push(&p->mark_ranges, &range, sizeof(range))) {
		in->left_out.marks++;
	} else if (!push(&p->mark_threads, &thread, sizeof(thread)) ||
		   !push(&p->mark_times, &time_ns, sizeof(time_ns))) {
		p->mark_ranges.n--;
		p->mark_threads.n = p->mark_ranges.n;
		in->left_out.marks++;
	}
}

void intern_leave_out_range(struct intern *in)
{
	LOCK_SCOPE(&in->lock);
	in->left_out.ranges++;
}

struct intern_left_out intern_left_out(struct intern *in)
{
	LOCK_SCOPE(&in->lock);
	return in->left_out;
}

void intern_take(struct intern *in, struct definitions *ret)
{
	LOCK_SCOPE(&in->lock);
	*ret = in->pending;
	in->pending = (struct definitions){ 0 };
	in->pending_bytes = 0;
}

void definitions_deinit(struct definitions *d)
{
	for (size_t i = 0; i < d->strings.n; i++) {
		free(((char **)d->strings.v)[i]);
	}
	free(d->strings.v);
	free(d->functions.v);
	free(d->ranges.v);
	free(d->set_sizes.v);
	free(d->set_ranges.v);
	free(d->mark_ranges.v);
	free(d->mark_threads.v);
	free(d->mark_times.v);
	*d = (struct definitions){ 0 };
}
