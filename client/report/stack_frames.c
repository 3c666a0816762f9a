/* SPDX-License-Identifier: Apache-2.0 */

/* A map finds a stack frame by its parent and its interned name, another one by scope and kernel:
 * each record costs one look-up in the latter. */

#include "client/report/stack_frames.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "proto/base/array.h"

void stack_frames_deinit(struct stack_frames *f)
{
	texts_deinit(&f->texts);
	free(f->ends);
	map_deinit(&f->known);
	map_deinit(&f->places);
	memset(f, 0, sizeof(*f));
}

void stack_frames_next_capture(struct stack_frames *f)
{
	map_deinit(&f->places);
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

/* --- records --------------------------------------------------------------------------------- */

/* Of a scope, or of a kernel in it, so that their labels are written once. */
struct place {
	const struct stack_frame *outermost;
	const struct scope *scope;
	unsigned process, kernel; /* 0, NO_KERNEL: of the scope */
	struct stack_frame *frame;
};

#define NO_KERNEL UINT_MAX

static bool is_place(const void *item, const void *key)
{
	const struct place *a = item, *b = key;

	return a->scope == b->scope && a->kernel == b->kernel && a->process == b->process &&
	       a->outermost == b->outermost;
}

/* record NULL: of the scope. */
struct stack_frame *stack_frames_find(struct stack_frames *f, struct stack_frame *outermost,
				      const struct scope *scope, const struct gpuctr_record *record)
{
	const struct gpuctr_kernel *kernel = record ? record->kernel : NULL;
	struct place wanted = { .outermost = outermost,
				.scope = scope,
				.process = record ? record->process : 0,
				.kernel = kernel   ? kernel->id
					  : record ? 0
						   : NO_KERNEL };
	uint64_t hash = map_mix(map_mix(wanted.process, wanted.kernel), (uintptr_t)scope);
	struct place *known = map_find(&f->places, hash, is_place, &wanted);
	struct stack_frame *around;

	if (known || (!scope && !record)) {
		return known ? known->frame : outermost;
	}
	around = stack_frames_find(f, outermost, record ? scope : scope->parent, NULL);
	if (around) {
		const char *name = kernel ? kernel->name : record ? TEXT_UNKNOWN : scope->label;

		wanted.frame = find_child(f, around, add_name(f, name), record != NULL);
	}
	known = wanted.frame ? texts_take(&f->texts, sizeof(*known)) : NULL;
	if (!known || map_add(&f->places, hash, known)) {
		return NULL;
	}
	*known = wanted;
	return known->frame;
}
