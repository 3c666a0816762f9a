/* SPDX-License-Identifier: Apache-2.0 */

/* The call sites of open ranges. Start/end ranges belong to the process. A counter changes with
 * their list, so that launches between two changes reuse the set that they found last. */

#include "client/agent/nvtx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/nvtx_stack.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/numbers.h"
#include "proto/base/site_name.h"

enum { SET_MAX = 64 };

enum { CATEGORY_DIGITS = 16 };

static const char *category_text(const struct event *e, char digits[CATEGORY_DIGITS])
{
	const char *name = e->category ? nvtx_category_name(e->domain, e->category) : "";

	if (!name) {
		snprintf(digits, CATEGORY_DIGITS, "%u", e->category);
		name = digits;
	}
	return name;
}

/* In the name of a step's site an N stands for the step's number. */
static uint32_t step_site(struct intern *in, struct site_text *t)
{
	CLEAN_FREE char *name = malloc(t->n_name + 1);

	if (!name) {
		return t->parent;
	}
	memcpy(name, t->name, t->n_name);
	name[t->n_name++] = 'N';
	t->name = name;
	return intern_site(in, t);
}

static enum site_kind kind_of(const struct event *e, const struct entry *around,
			      const struct site_name *name)
{
	return site_name_kind(name, e->message, around ? (enum site_kind)around->kind : SITE_LABEL,
			      around ? around->event.message : NULL);
}

/* The site of the event within the range around; around NULL: an outermost event. */
static uint32_t event_site(struct intern *in, const struct event *e, const struct entry *around,
			   const struct site_name *name, enum site_kind kind)
{
	char digits[CATEGORY_DIGITS];
	struct site_text t = {
		.parent = around ? around->site : 0,
		.domain = nvtx_domain_name(e->domain),
		.name = e->message,
		.n_name = name->n,
		.sizes = name->sizes ? name->sizes : "",
		.n_sizes = name->n_sizes,
		.category = category_text(e, digits),
		.color = e->color,
		.kind = (uint8_t)kind,
		.numbered = (uint8_t)name->numbered,
	};

	return name->numbered == SITE_NUMBER_STEP ? step_site(in, &t) : intern_site(in, &t);
}

/* Adds the number behind those of the ranges around it. */
static void add_number(struct stack *s, struct entry *e, int64_t number)
{
	size_t n = e->is_cut ? 0
			     : numbers_encode(s->numbers + e->n_numbers,
					      sizeof(s->numbers) - e->n_numbers, e->last_number,
					      number);

	e->is_cut = n == 0;
	e->n_numbers += (uint8_t)n;
	e->last_number = number;
}

/* Finds the site of range i of the stack, counted from 0; the ranges around it must have theirs.
 * False: it has no site of its own. */
static bool find_site(struct intern *in, struct stack *s, size_t i)
{
	static const struct entry none;
	struct entry *e = &s->v[i];
	const struct entry *around = i > 0 ? &s->v[i - 1] : &none;
	struct site_name name;

	if (i >= INTERN_DEPTH_MAX) {
		return false;
	}
	site_name_parse(e->event.message, &name);
	e->n_numbers = around->n_numbers;
	e->last_number = around->last_number;
	e->is_cut = around->is_cut;
	e->payload_at = e->event.payload_type ? (uint32_t)i + 1 : around->payload_at;
	around = i > 0 ? around : NULL;
	e->kind = (uint8_t)kind_of(&e->event, around, &name);
	e->site = event_site(in, &e->event, around, &name, (enum site_kind)e->kind);
	if (e->site == (around ? around->site : 0)) {
		return false;
	}
	if (name.numbered != SITE_NUMBER_NONE) {
		add_number(s, e, name.number);
	}
	return true;
}

/* The innermost range that has a site, or NULL. The next launch tries again for a range that gets
 * none now, and for the ranges within it. */
static const struct entry *find_sites(struct intern *in, struct stack *s)
{
	if (s->generation != in->generation) {
		s->generation = in->generation;
		s->n_found = s->n_kept = 0;
	}
	while (s->n_found < s->n && find_site(in, s, s->n_found)) {
		s->n_found++;
	}
	return s->n_found > 0 ? &s->v[s->n_found - 1] : NULL;
}

static void copy_path(const struct stack *s, const struct entry *top, struct site_path *ret)
{
	ret->site = top->site;
	ret->n_numbers = top->n_numbers;
	memcpy(ret->numbers, s->numbers, top->n_numbers);
	if (top->payload_at > 0) {
		ret->payload_type = s->v[top->payload_at - 1].event.payload_type;
		ret->payload = s->v[top->payload_at - 1].event.payload;
	}
}

void nvtx_current_path(struct intern *in, struct site_path *ret)
{
	struct stack *s = nvtx_stack();
	const struct entry *top = s ? find_sites(in, s) : NULL;

	*ret = (struct site_path){ 0 };
	if (top) {
		copy_path(s, top, ret);
		ret->opened = (uint32_t)s->n_kept;
		s->launches += s->launches == UINT32_MAX ? 2 : 1;
		ret->launch = s->launches;
		s->n_kept = s->n_found;
	}
}

/* --- start/end ranges --- */

struct site_set {
	struct intern *in;
	uint32_t sites[SET_MAX];
	size_t n;
	bool lacks_some;
};

static bool add_to_set(const struct event *e, void *userdata)
{
	struct site_set *set = userdata;
	struct site_name name;
	uint32_t site;

	site_name_parse(e->message, &name);
	site = event_site(set->in, e, NULL, &name, kind_of(e, NULL, &name));
	if (site != 0) {
		set->sites[set->n++] = site;
	}
	set->lacks_some |= site == 0;
	return set->n < SET_MAX;
}

uint32_t nvtx_active_set(struct intern *in)
{
	static __thread uint64_t seen_version;
	static __thread uint32_t seen_generation, seen_set;
	uint64_t version = nvtx_started_version();
	struct site_set set = { .in = in };

	if (version == 0) {
		return 0;
	}
	if (version == seen_version && in->generation == seen_generation) {
		return seen_set;
	}
	nvtx_for_each_started(add_to_set, &set);
	seen_set = set.n ? intern_set(in, set.sites, set.n) : 0;
	seen_version = set.lacks_some ? 0 : version; /* 0: the next launch tries again */
	seen_generation = in->generation;
	return seen_set;
}

/* --- marks --- */

/* A mark's site lies within the ranges around it, like that of a range; its payload is its own. */
void nvtx_note_mark(struct intern *in, const struct event *e, struct stack *s)
{
	const struct entry *around;
	struct mark mark = { .thread = s ? s->thread : 0, .time_ns = (int64_t)clock_wall_ns() };
	struct site_name name;

	if (!intern_has_room(in)) {
		return;
	}
	around = s ? find_sites(in, s) : NULL;
	if (around) {
		copy_path(s, around, &mark.path);
	}
	site_name_parse(e->message, &name);
	mark.path.site = event_site(in, e, around, &name, kind_of(e, around, &name));
	if (around && mark.path.site == around->site) {
		mark.path.site = 0; /* no site of its own: intern_mark() leaves the mark out */
	}
	mark.path.payload_type = e->payload_type;
	mark.path.payload = e->payload;
	if (name.numbered != SITE_NUMBER_NONE && !(around && around->is_cut)) {
		mark.path.n_numbers +=
			(uint8_t)numbers_encode(mark.path.numbers + mark.path.n_numbers,
						sizeof(mark.path.numbers) - mark.path.n_numbers,
						around ? around->last_number : 0, name.number);
	}
	intern_mark(in, &mark);
}
