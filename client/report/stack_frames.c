/* SPDX-License-Identifier: Apache-2.0 */

/* A map finds a stack frame by its parent and its interned name. Each record costs two look-ups:
 * one of the stack frame of its scope, and one of its kernel's stack frame in that. */

#include "client/report/stack_frames.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "proto/base/array.h"

void stack_frames_deinit(struct stack_frames *f)
{
	texts_deinit(&f->texts);
	free(f->ends);
	map_deinit(&f->known);
	map_deinit(&f->of_scopes);
	memset(f, 0, sizeof(*f));
}

void stack_frames_next_capture(struct stack_frames *f)
{
	memset(f->kernels, 0, sizeof(f->kernels));
}

/* --- stack frames by name --------------------------------------------------------------------- */

static bool is_stack_frame(const void *item, const void *key)
{
	const struct stack_frame *a = item, *b = key;

	return a->parent == b->parent && a->name == b->name && a->is_kernel == b->is_kernel;
}

static bool add_end(struct stack_frames *f, struct stack_frame *frame)
{
	if (!array_make_room(&f->ends, sizeof(*f->ends), f->n_ends, &f->max_ends)) {
		return false;
	}
	frame->number = f->n_ends;
	f->ends[f->n_ends++] = frame;
	return true;
}

/* The name must be interned in f->texts. */
static struct stack_frame *find_child(struct stack_frames *f, struct stack_frame *parent,
				      const char *name, bool is_kernel)
{
	const struct stack_frame wanted = { .parent = parent,
					    .name = name,
					    .is_kernel = is_kernel };
	uint64_t hash = map_mix(map_mix(is_kernel, (uintptr_t)parent), (uintptr_t)name);
	struct stack_frame *frame =
		name ? map_find(&f->known, hash, is_stack_frame, &wanted) : NULL;

	if (frame || !name) {
		return frame;
	}
	frame = texts_take(&f->texts, sizeof(*frame));
	if (!frame) {
		return NULL;
	}
	*frame = wanted;
	frame->sums = is_kernel ? texts_take(&f->texts, f->n_values * sizeof(double)) : NULL;
	if ((is_kernel && (!frame->sums || !add_end(f, frame))) ||
	    map_add(&f->known, hash, frame)) {
		return NULL;
	}
	frame->next = parent->children;
	parent->children = frame;
	return frame;
}

static const char *add_name(struct stack_frames *f, const char *name)
{
	CLEAN_BUF struct buf b = { 0 };

	if (!f->write_name) {
		return texts_add_string(&f->texts, name);
	}
	f->write_name(&b, name);
	return b.failed ? NULL : texts_add_string(&f->texts, buf_string(&b));
}

struct stack_frame *stack_frames_outermost(struct stack_frames *f, const char *name)
{
	return find_child(f, &f->root, add_name(f, name), false);
}

/* --- stack frames of scopes ------------------------------------------------------------------- */

/* Remembers the stack frame of a scope, so that each scope's label is written once. */
struct scope_frame {
	const struct stack_frame *outermost;
	const struct scope *scope;
	struct stack_frame *frame;
};

static bool is_scope_frame(const void *item, const void *key)
{
	const struct scope_frame *a = item, *b = key;

	return a->scope == b->scope && a->outermost == b->outermost;
}

static struct stack_frame *find_scope(struct stack_frames *f, struct stack_frame *outermost,
				      const struct scope *scope)
{
	struct scope_frame wanted = { .outermost = outermost, .scope = scope }, *known;
	uint64_t hash = map_mix(map_mix(1, (uintptr_t)outermost), (uintptr_t)scope);

	if (!scope) {
		return outermost;
	}
	known = map_find(&f->of_scopes, hash, is_scope_frame, &wanted);
	if (known) {
		return known->frame;
	}
	wanted.frame = find_scope(f, outermost, scope->parent);
	wanted.frame =
		wanted.frame ? find_child(f, wanted.frame, add_name(f, scope->label), false) : NULL;
	known = wanted.frame ? texts_take(&f->texts, sizeof(*known)) : NULL;
	if (!known || map_add(&f->of_scopes, hash, known)) {
		return NULL;
	}
	*known = wanted;
	return known->frame;
}

/* --- records --------------------------------------------------------------------------------- */

static const char *find_kernel(struct stack_frames *f, const struct gpuctr_record *record)
{
	unsigned id = record->kernel ? record->kernel->id : 0;
	size_t i = (id + record->process * 1021u) % STACK_FRAMES_KERNELS;

	if (!f->kernels[i].name || f->kernels[i].kernel != id ||
	    f->kernels[i].process != record->process) {
		f->kernels[i].process = record->process;
		f->kernels[i].kernel = id;
		f->kernels[i].name =
			add_name(f, record->kernel ? record->kernel->name : TEXT_UNKNOWN);
	}
	return f->kernels[i].name;
}

struct stack_frame *stack_frames_find(struct stack_frames *f, struct stack_frame *outermost,
				      const struct scope *scope, const struct gpuctr_record *record)
{
	struct stack_frame *frame = find_scope(f, outermost, scope);

	return frame ? find_child(f, frame, find_kernel(f, record), true) : NULL;
}
