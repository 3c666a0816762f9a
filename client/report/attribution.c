/* SPDX-License-Identifier: Apache-2.0 */

/* Joins records to scopes.
 *
 * Two tables of fixed size carry what is not in the scopes, so that memory does not grow with the
 * number of records:
 *
 * places	a range's scope and sequence number, direct-mapped by (process, range). What was
 *		displaced is made again from the range, which comes with each record in it.
 * forwards	the forward scope of a sequence number, direct-mapped by (process, number). Numbers
 *		count up, so a backward pass finds the operators of its step as long as fewer than
 *		FORWARD_SLOTS of them lie between. Numbers of one process may come from several
 *		threads; the range that was opened last has it then.
 *
 * Of the ranges that show the same number, the one that was opened last is the one whose node it
 * is: an operator shows the number that the next node will get, and calls the operator that makes
 * the node before another one can. */

#include "client/report/attribution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_SLOTS = 1 << 12, FORWARD_SLOTS = 1 << 18, MAX_DEPTH = 1 << 12 };

struct place {
	unsigned process, range; /* range 0: empty */
	const struct scope *scope;
	int64_t seq;   /* of the innermost node in the backward pass, else of the innermost
			  operator that shows one */
	int64_t shown; /* by the innermost operator that shows one, -1 in a node itself */
	const struct scope *called; /* the outermost operator around it that shows the same */
};

struct forward {
	unsigned process, range; /* range 0: empty */
	int64_t seq;
	const struct scope *scope, *called;
	unsigned launches[2]; /* fprop, bprop */
};

struct attributor {
	struct scopes scopes;
	bool used; /* a table may hold something; else clearing the tables is skipped, because it
		      takes long */
	struct place places[PLACE_SLOTS];
	struct forward forwards[FORWARD_SLOTS];
};

struct attributor *attributor_new(void)
{
	return calloc(1, sizeof(struct attributor));
}

struct attributor *attributor_free(struct attributor *a)
{
	if (a) {
		scopes_deinit(&a->scopes);
		free(a);
	}
	return NULL;
}

void attributor_next_capture(struct attributor *a)
{
	if (a->used) {
		memset(a->places, 0, sizeof(a->places));
		memset(a->forwards, 0, sizeof(a->forwards));
	}
	a->used = false;
}

static struct forward *forward_slot(struct attributor *a, unsigned process, int64_t seq)
{
	return &a->forwards[((uint64_t)seq + process * UINT64_C(40503)) % FORWARD_SLOTS];
}

static struct forward *find_forward(struct attributor *a, unsigned process, int64_t seq)
{
	struct forward *f = seq < 0 ? NULL : forward_slot(a, process, seq);

	return f && f->range && f->process == process && f->seq == seq ? f : NULL;
}

/* Notes the range as the one whose scope has this number. A range that was noted before, and comes
 * again because its place was displaced, changes nothing. */
static void note_forward(struct attributor *a, const struct place *place)
{
	struct forward *f = forward_slot(a, place->process, place->shown);

	if (f->range && f->process == place->process && f->range >= place->range) {
		return;
	}
	if (f->process != place->process || f->seq != place->shown) {
		*f = (struct forward){ .process = place->process, .seq = place->shown };
	}
	f->range = place->range;
	f->scope = place->scope;
	f->called = place->called;
}

/* Sets place->shown (the sequence number) and place->called (the outermost operator around the
 * range with the same number). */
static void take_shown(struct place *place, const struct place *outer, const struct marker *marker)
{
	bool again = outer && outer->called && outer->shown == marker->seq;

	if (place->scope->kind == SCOPE_ENGINE || place->scope->kind == SCOPE_NODE) {
		place->shown = -1;
		place->called = NULL;
	} else if (place->scope->kind == SCOPE_OP && marker->seq >= 0) {
		place->shown = marker->seq;
		place->called = again ? outer->called : place->scope;
	}
}

static int make_place(struct attributor *a, unsigned process, const struct gpuctr_range *range,
		      const struct place *outer, struct place *ret)
{
	struct place place = { .process = process,
			       .range = range->id,
			       .seq = outer ? outer->seq : -1,
			       .shown = outer ? outer->shown : -1,
			       .called = outer ? outer->called : NULL };
	struct marker marker;

	marker_parse(range->message ? range->message : "", &marker);
	place.scope = scopes_add(&a->scopes, outer ? outer->scope : NULL, range, &marker);
	if (!place.scope) {
		return -ENOMEM;
	}
	if (place.scope->kind == SCOPE_ENGINE) {
		place.seq = -1;
	} else if (marker.seq >= 0 && (!place.scope->backward || place.scope->kind == SCOPE_NODE)) {
		place.seq = marker.seq;
	}
	take_shown(&place, outer, &marker);
	/* Operators in the backward pass, too: activations that are computed again there, and
	 * second derivatives. */
	if (marker.seq >= 0 && place.scope->kind == SCOPE_OP) {
		note_forward(a, &place);
	}
	*ret = place;
	return 0;
}

static struct place *place_slot(struct attributor *a, unsigned process, unsigned range)
{
	return &a->places[(range + process * 1021u) % PLACE_SLOTS];
}

/* After running a node, and still in the node's range, the engine sums gradients to the shape of
 * their tensors and adds those of several uses. These launches belong to the node. */
static void tell_engine(struct attributor *a, const struct place *engine, const struct place *node)
{
	struct place *kept = place_slot(a, engine->process, engine->range);

	if (engine->scope->kind == SCOPE_ENGINE && node->scope->kind == SCOPE_NODE &&
	    kept->process == engine->process && kept->range == engine->range) {
		kept->seq = node->seq;
	}
}

/* A file may nest ranges to any depth, and each scope holds the names of all scopes around it. So
 * ranges beyond a depth that no program reaches share the deepest place that is distinguished. */
static int find_inner(struct attributor *a, unsigned process, const struct gpuctr_range *inner,
		      const struct place *outer, struct place *ret)
{
	if (!outer->range || outer->scope->depth + 1 < MAX_DEPTH) {
		return make_place(a, process, inner, outer->range ? outer : NULL, ret);
	}
	*ret = *outer;
	ret->range = inner->id;
	return 0;
}

/* Walks outwards from the innermost range to one that is known, then back. */
static int find_place(struct attributor *a, unsigned process, const struct gpuctr_range *range,
		      struct place *ret)
{
	const struct gpuctr_range *unknown[MAX_DEPTH];
	struct place outer = { 0 };
	size_t n = 0;

	for (; range && n < MAX_DEPTH; range = range->parent) {
		const struct place *place = place_slot(a, process, range->id);

		if (place->range == range->id && place->process == process) {
			outer = *place;
			break;
		}
		unknown[n++] = range;
	}
	while (n > 0) {
		const struct gpuctr_range *inner = unknown[--n];
		struct place place;
		int r = find_inner(a, process, inner, &outer, &place);

		if (r) {
			return r;
		}
		if (outer.range) {
			tell_engine(a, &outer, &place);
		}
		outer = place;
		*place_slot(a, process, inner->id) = outer;
	}
	*ret = outer;
	return 0;
}

static bool is_optimizer(const struct scope *scope)
{
	for (; scope; scope = scope->parent) {
		if (strncmp(scope->name, "Optimizer.", 10) == 0) {
			return true;
		}
	}
	return false;
}

static enum attribution_direction find_direction(const struct scope *scope)
{
	if (scope->backward) {
		return ATTRIBUTION_BPROP;
	}
	return scope->op && !is_optimizer(scope) ? ATTRIBUTION_FPROP : ATTRIBUTION_NONE;
}

static void join_forward(struct attributor *a, unsigned process, struct attribution *what)
{
	struct forward *f = find_forward(a, process, what->seq);

	if (!f) {
		return;
	}
	what->sub = f->launches[what->direction == ATTRIBUTION_BPROP]++;
	if (what->direction == ATTRIBUTION_BPROP) {
		what->forward = f->scope;
		what->called = f->called;
		what->layer = *what->layer ? what->layer : f->scope->layer;
		what->step = *what->step ? what->step : f->scope->step;
	}
}

int attributor_take(struct attributor *a, const struct gpuctr_record *record,
		    struct attribution *ret)
{
	struct place place;
	int r;

	*ret = (struct attribution){ .layer = "", .step = "", .seq = -1 };
	if (!record->range) {
		return 0;
	}
	a->used = true;
	r = find_place(a, record->process, record->range, &place);
	if (r || !place.scope) {
		return r;
	}
	ret->scope = place.scope;
	ret->op = place.scope->op;
	ret->layer = place.scope->layer;
	ret->step = place.scope->step;
	ret->direction = find_direction(place.scope);
	ret->seq = place.seq;
	ret->called = place.scope->backward ? NULL : place.called;
	if (ret->seq >= 0) {
		join_forward(a, record->process, ret);
	}
	return 0;
}

const char *attribution_direction_name(enum attribution_direction direction)
{
	return direction == ATTRIBUTION_FPROP	? "fprop"
	       : direction == ATTRIBUTION_BPROP ? "bprop"
						: "";
}

void attribution_columns(const struct attribution *what, struct store_attribution *ret)
{
	*ret = (struct store_attribution){ .op = what->op ? what->op->name : "",
					   .sizes = what->op ? what->op->sizes : "",
					   .dir = attribution_direction_name(what->direction),
					   .layer = what->layer,
					   .seq = what->seq };
}

size_t attribution_name_length(const char *message)
{
	struct marker marker;

	marker_parse(message, &marker);
	return marker.n_name;
}
