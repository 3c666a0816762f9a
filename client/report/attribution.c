/* SPDX-License-Identifier: Apache-2.0 */

/* Joins records to scopes.
 *
 * Two tables of fixed size carry what is not in the scopes, so that memory does not grow with the
 * number of records:
 *
 * sites	a range's scope and sequence number, direct-mapped by (process, range). What was
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

enum { SITE_SLOTS = 1 << 12, FORWARD_SLOTS = 1 << 18, MAX_DEPTH = 1 << 12 };

struct call_site {
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
	struct call_site sites[SITE_SLOTS];
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
		memset(a->sites, 0, sizeof(a->sites));
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
 * again because another range took its slot, changes nothing. */
static void note_forward(struct attributor *a, const struct call_site *site)
{
	struct forward *f = forward_slot(a, site->process, site->shown);

	if (f->range && f->process == site->process && f->range >= site->range) {
		return;
	}
	if (f->process != site->process || f->seq != site->shown) {
		*f = (struct forward){ .process = site->process, .seq = site->shown };
	}
	f->range = site->range;
	f->scope = site->scope;
	f->called = site->called;
}

/* Sets site->shown (the sequence number) and site->called (the outermost operator around the
 * range with the same number). */
static void take_shown(struct call_site *site, const struct call_site *outer,
		       const struct marker *marker)
{
	bool again = outer && outer->called && outer->shown == marker->seq;

	if (site->scope->kind == SCOPE_ENGINE || site->scope->kind == SCOPE_NODE) {
		site->shown = -1;
		site->called = NULL;
	} else if (site->scope->kind == SCOPE_OP && marker->seq >= 0) {
		site->shown = marker->seq;
		site->called = again ? outer->called : site->scope;
	}
}

static int make_site(struct attributor *a, unsigned process, const struct gpuctr_range *range,
		     const struct call_site *outer, struct call_site *ret)
{
	struct call_site site = { .process = process,
				  .range = range->id,
				  .seq = outer ? outer->seq : -1,
				  .shown = outer ? outer->shown : -1,
				  .called = outer ? outer->called : NULL };
	struct marker marker;

	marker_parse(range->message ? range->message : "", &marker);
	site.scope = scopes_add(&a->scopes, outer ? outer->scope : NULL, range, &marker);
	if (!site.scope) {
		return -ENOMEM;
	}
	if (site.scope->kind == SCOPE_ENGINE) {
		site.seq = -1;
	} else if (marker.seq >= 0 && (!site.scope->backward || site.scope->kind == SCOPE_NODE)) {
		site.seq = marker.seq;
	}
	take_shown(&site, outer, &marker);
	/* Operators in the backward pass, too: activations that are computed again there, and
	 * second derivatives. */
	if (marker.seq >= 0 && site.scope->kind == SCOPE_OP) {
		note_forward(a, &site);
	}
	*ret = site;
	return 0;
}

static struct call_site *site_slot(struct attributor *a, unsigned process, unsigned range)
{
	return &a->sites[(range + process * 1021u) % SITE_SLOTS];
}

/* After running a node, and still in the node's range, the engine sums gradients to the shape of
 * their tensors and adds those of several uses. These launches belong to the node. */
static void tell_engine(struct attributor *a, const struct call_site *engine,
			const struct call_site *node)
{
	struct call_site *kept = site_slot(a, engine->process, engine->range);

	if (engine->scope->kind == SCOPE_ENGINE && node->scope->kind == SCOPE_NODE &&
	    kept->process == engine->process && kept->range == engine->range) {
		kept->seq = node->seq;
	}
}

/* A file may nest ranges to any depth, and each scope holds the names of all scopes around it. So
 * ranges beyond a depth that no program reaches share the deepest site that is distinguished. */
static int find_inner(struct attributor *a, unsigned process, const struct gpuctr_range *inner,
		      const struct call_site *outer, struct call_site *ret)
{
	if (!outer->range || outer->scope->depth + 1 < MAX_DEPTH) {
		return make_site(a, process, inner, outer->range ? outer : NULL, ret);
	}
	*ret = *outer;
	ret->range = inner->id;
	return 0;
}

/* Walks outwards from the innermost range to one that is known, then back. */
static int find_site(struct attributor *a, unsigned process, const struct gpuctr_range *range,
		     struct call_site *ret)
{
	const struct gpuctr_range *unknown[MAX_DEPTH];
	struct call_site outer = { 0 };
	size_t n = 0;

	for (; range && n < MAX_DEPTH; range = range->parent) {
		const struct call_site *site = site_slot(a, process, range->id);

		if (site->range == range->id && site->process == process) {
			outer = *site;
			break;
		}
		unknown[n++] = range;
	}
	while (n > 0) {
		const struct gpuctr_range *inner = unknown[--n];
		struct call_site site;
		int r = find_inner(a, process, inner, &outer, &site);

		if (r) {
			return r;
		}
		if (outer.range) {
			tell_engine(a, &outer, &site);
		}
		outer = site;
		*site_slot(a, process, inner->id) = outer;
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
	struct call_site site;
	int r;

	*ret = (struct attribution){ .layer = "", .step = "", .seq = -1 };
	if (!record->range) {
		return 0;
	}
	a->used = true;
	r = find_site(a, record->process, record->range, &site);
	if (r || !site.scope) {
		return r;
	}
	ret->scope = site.scope;
	ret->op = site.scope->op;
	ret->layer = site.scope->layer;
	ret->step = site.scope->step;
	ret->direction = find_direction(site.scope);
	ret->seq = site.seq;
	ret->called = site.scope->backward ? NULL : site.called;
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
