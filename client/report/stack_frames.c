/* SPDX-License-Identifier: Apache-2.0 */

/* A leaf of the groups is a kernel in a scope. Leaves with the same labels share a stack frame. */

#include "client/report/stack_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/groups_internal.h"

enum { BY_SCOPE, BY_KERNEL, BY_PROCESS };

struct groups *stack_frames_groups(struct groups *beside, bool by_process)
{
	const struct keys keys = { .keys = { [BY_SCOPE] = KEY_NVTX,
					     [BY_KERNEL] = KEY_KERNEL,
					     [BY_PROCESS] = KEY_PROCESS },
				   .n = by_process ? 3 : 2,
				   .nested = BY_SCOPE };

	return beside ? groups_beside(beside, &keys) : groups_new(&keys);
}

void stack_frames_deinit(struct stack_frames *f)
{
	texts_deinit(&f->texts);
	map_deinit(&f->known);
	map_deinit(&f->places);
	memset(f, 0, sizeof(*f));
}

/* --- stack frames by name --------------------------------------------------------------------- */

static bool is_stack_frame(const void *item, const void *key)
{
	const struct stack_frame *a = item, *b = key;

	return a->parent == b->parent && a->name == b->name && a->is_kernel == b->is_kernel;
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
	if (!frame || map_add(&f->known, hash, frame)) {
		return NULL;
	}
	*frame = wanted;
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

/* --- leaves ---------------------------------------------------------------------------------- */

/* The stack frame of a scope, kept so that the scope's label is written once. */
struct place {
	const struct scope *scope;
	struct stack_frame *outermost, *frame;
};

static bool is_place(const void *item, const void *key)
{
	const struct place *a = item, *b = key;

	return a->scope == b->scope && a->outermost == b->outermost;
}

static struct stack_frame *find_scope(struct stack_frames *f, struct stack_frame *outermost,
				      const struct scope *scope)
{
	const struct place wanted = { scope, outermost, NULL };
	uint64_t hash = map_mix((uintptr_t)outermost, (uintptr_t)scope);
	struct place *known = scope ? map_find(&f->places, hash, is_place, &wanted) : NULL;
	struct stack_frame *around;

	if (known || !scope) {
		return known ? known->frame : outermost;
	}
	around = find_scope(f, outermost, scope->parent);
	known = around ? texts_take(&f->texts, sizeof(*known)) : NULL;
	if (!known || map_add(&f->places, hash, known)) {
		return NULL;
	}
	*known = wanted;
	known->frame = find_child(f, around, add_name(f, scope->label), false);
	return known->frame;
}

static struct group *find_row(struct groups *g, const struct leaf *leaf, void *userdata)
{
	struct stack_frames *f = userdata;
	const char *process = g->keys.n > BY_PROCESS ? leaf->dims[BY_PROCESS] : NULL;
	const char *kernel = leaf->dims[BY_KERNEL];
	struct stack_frame *frame = &f->root;

	frame = process ? find_child(f, frame, add_name(f, process), false) : frame;
	frame = frame ? find_scope(f, frame, leaf->dims[BY_SCOPE]) : NULL;
	frame = frame ? find_child(f, frame, add_name(f, *kernel ? kernel : TEXT_UNKNOWN), true)
		      : NULL;
	if (frame && !frame->row) {
		frame->row = group_new(&g->row_texts, g->n_measures);
	}
	return frame ? frame->row : NULL;
}

int stack_frames_make(struct stack_frames *f, struct groups *g)
{
	return groups_finish_by(g, find_row, f);
}
