/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/intern.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/clean.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* One hash table for all kinds. A 128-bit hash over kind and content stands for the content, so
 * that sent strings need not be kept. With n entries, two have the same hash with a probability of
 * about n^2 / 2^128. */

enum { INTERN_SLOTS_MIN = 1024 };

enum kind { KIND_STRING = 1, KIND_FUNCTION, KIND_SITE, KIND_SET };

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
	in->generation = next_generation();
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
static struct intern_slot *look_up(const struct intern *in, const struct hash *h)
{
	size_t i = h->a & (in->n_slots - 1);

	while (in->slots[i].id != 0 &&
	       (in->slots[i].hash[0] != h->a || in->slots[i].hash[1] != h->b)) {
		i = (i + 1) & (in->n_slots - 1);
	}
	return &in->slots[i];
}

/* Grows the table so that it is at most half full. False: it is full, and there is no memory. */
static bool make_room(struct intern *in)
{
	size_t n_old = in->n_slots;
	struct intern_slot *old = in->slots, *slots;

	if (in->n_used * 2 < n_old) {
		return true;
	}
	slots = calloc(2 * n_old, sizeof(*slots));
	if (!slots) {
		return in->n_used + 1 < n_old;
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
	return true;
}

static bool push(struct vector *v, const void *element, size_t size)
{
	if (!array_make_room(&v->v, size, v->n, &v->room)) {
		return false;
	}
	memcpy((char *)v->v + v->n++ * size, element, size);
	return true;
}

static uint32_t find_number(const struct intern *in, const struct hash *h)
{
	return look_up(in, h)->id;
}

/* --- definitions --- */

enum { OVERHEAD_BYTES = 32 }; /* for an allocation and the pointer to it */

/* Counts bytes that will wait to be sent, and makes room in the table. Kernels have a reserve of
 * their own, which texts that never repeat cannot use up. False: too many bytes wait, or out of
 * memory. */
static bool take_bytes(struct intern *in, size_t bytes, enum kind kind)
{
	size_t max = in->pending_bytes_max +
		     (kind == KIND_FUNCTION ? (size_t)INTERN_FUNCTION_BYTES_MAX : 0);

	if (in->pending_bytes + bytes > max || !make_room(in)) {
		return false;
	}
	in->pending_bytes += bytes;
	return true;
}

/* Adds a pending definition and returns its number, ++*last. *first becomes the number of the first
 * pending definition in v. 0: out of memory. */
static uint32_t define(struct intern *in, const struct hash *h, struct vector *v,
		       const void *element, size_t size, uint32_t *last, uint32_t *first)
{
	if (!push(v, element, size)) {
		return 0;
	}
	*look_up(in, h) = (struct intern_slot){ { h->a, h->b }, ++*last };
	in->n_used++;
	*first = v->n == 1 ? *last : *first;
	return *last;
}

static uint32_t define_string(struct intern *in, const struct hash *h, const char *s, size_t length,
			      enum kind user)
{
	char *copy = take_bytes(in, length + OVERHEAD_BYTES, user) ? malloc(length + 1) : NULL;
	uint32_t number;

	if (!copy) {
		return 0;
	}
	memcpy(copy, s, length);
	copy[length] = '\0';
	utf8_repair(copy); /* the daemon and the client refuse text that is not UTF-8 */
	number = define(in, h, &in->pending.strings, &copy, sizeof(copy), &in->last_string,
			&in->pending.first_string);
	if (number == 0) {
		free(copy);
	}
	return number;
}

/* user: kind of the definition that needs the string. */
static uint32_t string_locked(struct intern *in, const char *s, size_t length, enum kind user)
{
	struct hash h = hash_start(KIND_STRING);
	uint32_t number;

	length = strnlen(s, length < LIMIT_STRING_BYTES ? length : LIMIT_STRING_BYTES);
	hash_bytes(&h, s, length);
	number = find_number(in, &h);
	return number != 0 ? number : define_string(in, &h, s, length, user);
}

uint32_t intern_string(struct intern *in, const char *s)
{
	LOCK_SCOPE(&in->lock);
	return string_locked(in, s, SIZE_MAX, KIND_STRING);
}

uint32_t intern_function(struct intern *in, const char *name, uint32_t static_shared_bytes,
			 uint32_t registers)
{
	struct function_key key = { 0, static_shared_bytes, registers };
	struct hash h = hash_start(KIND_FUNCTION);
	uint32_t number;

	LOCK_SCOPE(&in->lock);
	key.name = string_locked(in, name, SIZE_MAX, KIND_FUNCTION);
	hash_bytes(&h, &key, sizeof(key));
	number = find_number(in, &h);
	if (number == 0 && key.name != 0 && take_bytes(in, sizeof(key), KIND_FUNCTION)) {
		number = define(in, &h, &in->pending.functions, &key, sizeof(key),
				&in->last_function, &in->pending.first_function);
	}
	return number;
}

/* --- sites --- */

static struct hash hash_site(const struct site_text *t)
{
	const uint32_t numbers[] = { t->parent, t->color, t->kind, t->numbered };
	struct hash h = hash_start(KIND_SITE);

	hash_bytes(&h, numbers, sizeof(numbers));
	hash_bytes(&h, t->domain, strlen(t->domain));
	hash_bytes(&h, t->name, t->n_name);
	hash_bytes(&h, t->sizes, t->n_sizes);
	hash_bytes(&h, t->category, strlen(t->category));
	return h;
}

static uint32_t string_or_none(struct intern *in, const char *s, size_t n, bool *all)
{
	uint32_t number = n > 0 ? string_locked(in, s, n, KIND_SITE) : 0;

	*all &= n == 0 || number != 0;
	return number;
}

static uint32_t define_site(struct intern *in, const struct site_text *t, const struct hash *h)
{
	struct site_key key = {
		.parent = t->parent, .color = t->color, .kind = t->kind, .numbered = t->numbered
	};
	uint32_t number = 0;
	bool all = true;

	key.domain = string_or_none(in, t->domain, strlen(t->domain), &all);
	key.name = string_or_none(in, t->name, t->n_name, &all);
	key.sizes = string_or_none(in, t->sizes, t->n_sizes, &all);
	key.category = string_or_none(in, t->category, strlen(t->category), &all);
	if (all && take_bytes(in, sizeof(key), KIND_SITE)) {
		number = define(in, h, &in->pending.sites, &key, sizeof(key), &in->last_site,
				&in->pending.first_site);
	}
	in->left_out.waits += number == 0;
	return number;
}

/* "layer 12.3" as "layer N.N" */
static size_t leave_out_digits(const char *text, size_t n, char *ret)
{
	size_t used = 0;
	bool in_number = false;

	for (size_t i = 0; i < n; i++) {
		bool is_digit = text[i] >= '0' && text[i] <= '9';

		if (!is_digit || !in_number) {
			ret[used++] = is_digit ? 'N' : text[i];
		}
		in_number = is_digit;
	}
	return used;
}

/* For sites beyond INTERN_DIGITS_MAX. */
static uint32_t site_without_digits(struct intern *in, const struct site_text *t)
{
	CLEAN_FREE char *name = malloc(t->n_name + 1), *sizes = malloc(t->n_sizes + 1);
	struct site_text plain = *t;
	uint32_t number;
	struct hash h;

	if (!name || !sizes) {
		return 0;
	}
	plain.n_name = leave_out_digits(t->name, t->n_name, name);
	plain.n_sizes = leave_out_digits(t->sizes, t->n_sizes, sizes);
	plain.name = name;
	plain.sizes = sizes;
	h = hash_site(&plain);
	number = find_number(in, &h);
	if (number == 0 && in->last_site < INTERN_SITES_MAX) {
		number = define_site(in, &plain, &h);
	}
	in->left_out.digits += number != 0;
	return number;
}

uint32_t intern_site(struct intern *in, const struct site_text *text)
{
	struct hash h = hash_site(text);
	uint32_t number;

	LOCK_SCOPE(&in->lock);
	number = find_number(in, &h);
	if (number == 0) {
		number = in->last_site < INTERN_DIGITS_MAX ? define_site(in, text, &h)
							   : site_without_digits(in, text);
	}
	in->left_out.ranges += number == 0;
	return number != 0 ? number : text->parent;
}

static uint32_t define_set(struct intern *in, const struct hash *h, const uint32_t *sites, size_t n)
{
	uint32_t size = (uint32_t)n, number = 0;
	size_t before = in->pending.set_sites.n, i = 0;

	while (i < n && push(&in->pending.set_sites, &sites[i], sizeof(sites[i]))) {
		i++;
	}
	if (i == n) {
		number = define(in, h, &in->pending.set_sizes, &size, sizeof(size), &in->last_set,
				&in->pending.first_set);
	}
	in->pending.set_sites.n = number != 0 ? in->pending.set_sites.n : before;
	return number;
}

uint32_t intern_set(struct intern *in, const uint32_t *sites, size_t n)
{
	struct hash h = hash_start(KIND_SET);
	uint32_t number;

	hash_bytes(&h, sites, n * sizeof(*sites));
	LOCK_SCOPE(&in->lock);
	number = find_number(in, &h);
	if (number == 0 && in->last_set < INTERN_SETS_MAX &&
	    take_bytes(in, (n + 1) * sizeof(*sites), KIND_SET)) {
		number = define_set(in, &h, sites, n);
	}
	in->left_out.ranges += number == 0;
	return number;
}

/* --- marks --- */

bool intern_has_room(struct intern *in)
{
	bool room;

	LOCK_SCOPE(&in->lock);
	room = in->pending.marks.n < INTERN_MARKS_MAX;
	in->left_out.marks += !room;
	return room;
}

void intern_mark(struct intern *in, const struct mark *mark)
{
	LOCK_SCOPE(&in->lock);
	if (mark->path.site == 0 || in->pending.marks.n >= INTERN_MARKS_MAX ||
	    !push(&in->pending.marks, mark, sizeof(*mark))) {
		in->left_out.marks++;
	}
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
	free(d->sites.v);
	free(d->set_sizes.v);
	free(d->set_sites.v);
	free(d->marks.v);
	*d = (struct definitions){ 0 };
}
