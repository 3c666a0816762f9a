/* SPDX-License-Identifier: Apache-2.0 */

/* A frame is found by its parent and its name, which is interned. What a record costs is two
 * probes: of its scope's frame, and of its kernel's within it. */

#include "client/report/frames.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256 };

void frames_deinit(struct frames *f)
{
	texts_deinit(&f->texts);
	free(f->ends);
	free(f->slots);
	free(f->known);
	memset(f, 0, sizeof(*f));
}

void frames_next_capture(struct frames *f)
{
	memset(f->kernels, 0, sizeof(f->kernels));
}

/* --- frames by name -------------------------------------------------------------------------- */

static size_t find_slot(struct frame *const *slots, size_t n_slots, const struct frame *parent,
			const char *name, bool is_kernel)
{
	uint64_t hash = texts_mix(texts_mix(is_kernel, (uintptr_t)parent), (uintptr_t)name);
	size_t i = hash & (n_slots - 1);

	while (slots[i] && (slots[i]->parent != parent || slots[i]->name != name ||
			    slots[i]->is_kernel != is_kernel)) {
		i = (i + 1) & (n_slots - 1);
	}
	return i;
}

static bool grow(struct frames *f)
{
	size_t n = f->n_slots ? f->n_slots * 2 : FIRST_SLOTS;
	struct frame **slots;

	if (f->n * 2 < f->n_slots) {
		return true;
	}
	slots = calloc(n, sizeof(struct frame *));
	if (!slots) {
		return false;
	}
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct frame *old = f->slots[i];

		if (old) {
			slots[find_slot(slots, n, old->parent, old->name, old->is_kernel)] =
				f->slots[i];
		}
	}
	free(f->slots);
	f->slots = slots;
	f->n_slots = n;
	return true;
}

static bool add_end(struct frames *f, struct frame *frame)
{
	size_t max = f->max_ends ? f->max_ends * 2 : FIRST_SLOTS;
	struct frame **ends = f->ends;

	if (f->n_ends == f->max_ends) {
		ends = realloc(f->ends, max * sizeof(struct frame *));
		if (!ends) {
			return false;
		}
		f->ends = ends;
		f->max_ends = max;
	}
	frame->number = f->n_ends;
	f->ends[f->n_ends++] = frame;
	return true;
}

/* The name is one of texts. */
static struct frame *find_child(struct frames *f, struct frame *parent, const char *name,
				bool is_kernel)
{
	struct frame *frame;
	size_t slot;

	if (!name || !grow(f)) {
		return NULL;
	}
	slot = find_slot(f->slots, f->n_slots, parent, name, is_kernel);
	if (f->slots[slot]) {
		return f->slots[slot];
	}
	frame = texts_take(&f->texts, sizeof(*frame));
	if (!frame) {
		return NULL;
	}
	frame->sums = is_kernel ? texts_take(&f->texts, f->n_values * sizeof(double)) : NULL;
	if (is_kernel && (!frame->sums || !add_end(f, frame))) {
		return NULL;
	}
	frame->parent = parent;
	frame->name = name;
	frame->is_kernel = is_kernel;
	frame->next = parent->children;
	parent->children = frame;
	f->slots[slot] = frame;
	f->n++;
	return frame;
}

static const char *add_name(struct frames *f, const char *name)
{
	struct buf b = { 0 };
	const char *added;

	if (!f->write_name) {
		return texts_add_string(&f->texts, name);
	}
	f->write_name(&b, name);
	added = b.failed ? NULL : texts_add_string(&f->texts, buf_string(&b));
	buf_deinit(&b);
	return added;
}

struct frame *frames_outermost(struct frames *f, const char *name)
{
	return find_child(f, &f->root, add_name(f, name), false);
}

/* --- frames of scopes ------------------------------------------------------------------------ */

static struct frames_known *find_known(struct frames_known *known, size_t n_slots,
				       const struct frame *outermost, const struct scope *scope)
{
	uint64_t hash = texts_mix(texts_mix(1, (uintptr_t)outermost), (uintptr_t)scope);
	size_t i = hash & (n_slots - 1);

	while (known[i].scope && (known[i].scope != scope || known[i].outermost != outermost)) {
		i = (i + 1) & (n_slots - 1);
	}
	return &known[i];
}

static bool grow_known(struct frames *f)
{
	size_t n = f->n_known_slots ? f->n_known_slots * 2 : FIRST_SLOTS;
	struct frames_known *known;

	if (f->n_known * 2 < f->n_known_slots) {
		return true;
	}
	known = calloc(n, sizeof(*known));
	if (!known) {
		return false;
	}
	for (size_t i = 0; i < f->n_known_slots; i++) {
		const struct frames_known *k = &f->known[i];

		if (k->scope) {
			*find_known(known, n, k->outermost, k->scope) = *k;
		}
	}
	free(f->known);
	f->known = known;
	f->n_known_slots = n;
	return true;
}

/* "iteration 12" as "iteration N". */
static const char *step_name(struct frames *f, const char *label)
{
	size_t n = strlen(label);
	struct buf b = { 0 };
	const char *name;

	while (n > 0 && label[n - 1] >= '0' && label[n - 1] <= '9') {
		n--;
	}
	buf_add(&b, label, n);
	buf_char(&b, 'N');
	name = b.failed ? NULL : add_name(f, buf_string(&b));
	buf_deinit(&b);
	return name;
}

static const char *scope_name(struct frames *f, const struct scope *scope)
{
	return f->merges_steps && scope->kind == SCOPE_STEP ? step_name(f, scope->label)
							    : add_name(f, scope->label);
}

static struct frame *find_scope(struct frames *f, struct frame *outermost,
				const struct scope *scope)
{
	struct frames_known *known;
	struct frame *frame;

	if (!scope) {
		return outermost;
	}
	if (!grow_known(f)) {
		return NULL;
	}
	known = find_known(f->known, f->n_known_slots, outermost, scope);
	if (known->scope) {
		return known->frame;
	}
	frame = find_scope(f, outermost, scope->parent);
	frame = frame ? find_child(f, frame, scope_name(f, scope), false) : NULL;
	/* What is around it may have made the table anew. */
	if (!frame || !grow_known(f)) {
		return NULL;
	}
	*find_known(f->known, f->n_known_slots, outermost, scope) =
		(struct frames_known){ .outermost = outermost, .scope = scope, .frame = frame };
	f->n_known++;
	return frame;
}

/* --- records --------------------------------------------------------------------------------- */

static const char *find_kernel(struct frames *f, const struct gpuctr_record *record)
{
	unsigned id = record->kernel ? record->kernel->id : 0;
	size_t i = (id + record->process * 1021u) % FRAMES_KERNELS;

	if (!f->kernels[i].name || f->kernels[i].kernel != id ||
	    f->kernels[i].process != record->process) {
		f->kernels[i].process = record->process;
		f->kernels[i].kernel = id;
		f->kernels[i].name =
			add_name(f, record->kernel ? record->kernel->name : "(not known)");
	}
	return f->kernels[i].name;
}

struct frame *frames_find(struct frames *f, struct frame *outermost, const struct scope *scope,
			  const struct gpuctr_record *record)
{
	struct frame *frame = find_scope(f, outermost, scope);

	return frame ? find_child(f, frame, find_kernel(f, record), true) : NULL;
}

struct frame *frames_kernel(struct frames *f, struct frame *parent, const char *name)
{
	return find_child(f, parent, add_name(f, name), true);
}
