/* SPDX-License-Identifier: Apache-2.0 */

/* Joins records to scopes.
 *
 * Two tables of fixed size hold what scopes do not, so that memory does not grow with the number of
 * records:
 *
 *	threads		the last record of each thread, direct-mapped by (process, thread); the
 *			thread's next record says which ranges are still open
 *	forwards	forward scopes, direct-mapped by (process, sequence number)
 *
 * Sequence numbers count up, so a backward pass finds the operators of its step as long as fewer
 * than FORWARD_SLOTS numbers lie between. If several ranges show the same number, also in several
 * threads, the number belongs to the range that was opened last. An operator shows the number that
 * the next node will get, and calls the operator that makes the node before any other can. */

#include "client/report/attribution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_SLOTS = 1 << 10, FORWARD_SLOTS = 1 << 18 };
enum { MAX_DEPTH = 1 << 12, MAX_ENGINES = 4 };

/* A range around a launch. */
struct call_site {
	const struct scope *scope; /* NULL: none */
	int64_t seq;   /* number of the innermost node in the backward pass, else of the innermost
			  operator that shows a number */
	int64_t shown; /* number of the innermost operator that shows one; -1 in a node itself */
	const struct scope *called; /* outermost operator around it that shows the number */
	int64_t step;
};

/* An occurrence of autograd's engine. After a node has run, the engine sums gradients to the shape
 * of their tensors, and adds up gradients of tensors that are used several times. These launches
 * belong to the node. */
struct engine {
	unsigned depth;
	int64_t seq; /* number of the engine's latest node */
};

struct thread {
	unsigned process, thread;
	bool is_used;
	const struct gpuctr_site *site; /* site of the last record */
	struct call_site at;
	struct engine engines[MAX_ENGINES]; /* engines that were open at the last record */
	size_t n_engines;
};

struct forward {
	unsigned process, site; /* site 0: empty */
	int64_t seq, step;
	const struct scope *scope, *called;
	unsigned launches[2]; /* number of launches in fprop and bprop */
};

struct attributor {
	struct scopes scopes;
	struct thread threads[THREAD_SLOTS];
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

static struct forward *forward_slot(struct attributor *a, unsigned process, int64_t seq)
{
	return &a->forwards[((uint64_t)seq + process * UINT64_C(40503)) % FORWARD_SLOTS];
}

static struct forward *find_forward(struct attributor *a, unsigned process, int64_t seq)
{
	struct forward *f = seq < 0 ? NULL : forward_slot(a, process, seq);

	return f && f->site && f->process == process && f->seq == seq ? f : NULL;
}

/* Notes that the number shown belongs to a range that has just been opened. */
static void note_forward(struct attributor *a, unsigned process, const struct gpuctr_site *site,
			 const struct call_site *at)
{
	struct forward *f = forward_slot(a, process, at->shown);

	if (f->process != process || f->seq != at->shown) {
		*f = (struct forward){ .process = process, .seq = at->shown };
	}
	f->site = site->id;
	f->scope = at->scope;
	f->called = at->called;
	f->step = at->step;
}

/* Sets the sequence number shown, and the outermost operator that shows this number. */
static void take_shown(struct call_site *at, enum gpuctr_site_kind kind, int64_t seq)
{
	bool again = at->called && at->shown == seq;

	if (kind >= GPUCTR_SITE_NODE) {
		at->shown = -1;
		at->called = NULL;
	} else if (kind == GPUCTR_SITE_OPERATOR && seq >= 0) {
		at->called = again ? at->called : at->scope;
		at->shown = seq;
	}
}

/* Finds the engine's occurrence at this depth, or adds it. NULL: there are too many. */
static struct engine *find_engine(struct thread *t, unsigned depth)
{
	size_t i = 0;

	while (i < t->n_engines && t->engines[i].depth != depth) {
		i++;
	}
	if (i == MAX_ENGINES) {
		return NULL;
	}
	if (i == t->n_engines) {
		t->engines[t->n_engines++] = (struct engine){ depth, -1 };
	}
	return &t->engines[i];
}

static void take_seq(struct thread *t, const struct gpuctr_site *site, int64_t seq)
{
	const struct gpuctr_site *around = site->parent;
	struct call_site *at = &t->at;
	struct engine *engine;

	if (site->kind == GPUCTR_SITE_ENGINE) {
		engine = find_engine(t, site->depth);
		at->seq = engine ? engine->seq : -1;
	} else if (seq >= 0 && (!at->scope->backward || site->kind == GPUCTR_SITE_NODE)) {
		at->seq = seq;
	}
	if (site->kind == GPUCTR_SITE_NODE && around && around->kind == GPUCTR_SITE_ENGINE) {
		engine = find_engine(t, around->depth);
		if (engine) {
			engine->seq = at->seq;
		}
	}
}

/* Updates t->at from the range around the site to the site's range. */
static int enter(struct attributor *a, struct thread *t, const struct gpuctr_record *record,
		 const struct gpuctr_site *site)
{
	int64_t number = gpuctr_site_number(site, &record->at);
	int64_t seq = site->numbered == GPUCTR_NUMBER_SEQ ? number : -1;
	struct call_site *at = &t->at;

	at->scope = scopes_of_site(&a->scopes, site);
	if (!at->scope) {
		return -ENOMEM;
	}
	take_seq(t, site, seq);
	take_shown(at, site->kind, seq);
	at->step = site->kind == GPUCTR_SITE_STEP ? number : at->step;
	/* Operators in the backward pass count too: recomputation, second derivatives. */
	if (seq >= 0 && site->kind == GPUCTR_SITE_OPERATOR && site->depth >= record->opened) {
		note_forward(a, record->process, site, at);
	}
	return 0;
}

/* Returns the record's thread. If it was not known, all ranges of the record count as new. */
static struct thread *find_thread(struct attributor *a, struct gpuctr_record *record)
{
	uint64_t hash = map_mix(map_mix(0, record->process), record->thread);
	struct thread *t = &a->threads[hash % THREAD_SLOTS];
	size_t n = 0;

	if (!t->is_used || t->process != record->process || t->thread != record->thread) {
		*t = (struct thread){ record->process, record->thread, true };
		record->opened = 0;
	}
	for (size_t i = 0; i < t->n_engines; i++) {
		if (t->engines[i].depth < record->opened) {
			t->engines[n++] = t->engines[i];
		}
	}
	t->n_engines = n;
	return t;
}

/* Sets t->at to the innermost range of the record. */
static int find_path(struct attributor *a, struct thread *t, const struct gpuctr_record *record)
{
	const struct gpuctr_site *path[MAX_DEPTH], *site = record->site;
	size_t n = 0;
	int r = 0;

	/* With numbered sites the numbers may differ from those of the last record. */
	if (site && site->n_numbers == 0 && site == t->site && record->opened == site->depth + 1) {
		return 0; /* nothing has changed since the last record */
	}
	t->at = (struct call_site){ .seq = -1, .shown = -1, .step = -1 };
	t->site = site;
	while (site && site->depth >= MAX_DEPTH) {
		site = site->parent;
	}
	for (; site; site = site->parent) {
		path[n++] = site;
	}
	while (n > 0 && r == 0) {
		r = enter(a, t, record, path[--n]);
	}
	return r;
}

static enum attribution_direction find_direction(const struct scope *scope)
{
	if (scope->backward) {
		return ATTRIBUTION_BPROP;
	}
	return scope->op && !scope->optimizer ? ATTRIBUTION_FPROP : ATTRIBUTION_NONE;
}

static void clear(struct attribution *what)
{
	*what = (struct attribution){ .layer = "", .step = "", .seq = -1, .step_number = -1 };
}

static void take_scope(struct attribution *what, const struct scope *scope)
{
	what->scope = scope;
	what->op = scope->op;
	what->layer = scope->layer;
	what->step = scope->step;
	what->direction = find_direction(scope);
}

/* Takes layer and step from the forward operator if the record's own ranges have none. */
static void take_forward(struct attribution *what, const struct scope *forward)
{
	what->forward = forward;
	what->layer = *what->layer ? what->layer : forward->layer;
	what->step = *what->step ? what->step : forward->step;
}

static void join_forward(struct attributor *a, unsigned process, struct attribution *what)
{
	struct forward *f = find_forward(a, process, what->seq);

	if (!f) {
		return;
	}
	what->sub = f->launches[what->direction == ATTRIBUTION_BPROP]++;
	if (what->direction != ATTRIBUTION_BPROP) {
		return;
	}
	what->called = f->called;
	what->layer_site = f->site;
	what->step_number = *what->step ? what->step_number : f->step;
	take_forward(what, f->scope);
}

int attributor_take(struct attributor *a, const struct gpuctr_record *of_capture,
		    struct attribution *ret)
{
	struct gpuctr_record record = *of_capture;
	const struct call_site *at;
	struct thread *t;
	int r;

	clear(ret);
	t = find_thread(a, &record);
	r = find_path(a, t, &record);
	at = &t->at;
	if (r || !at->scope) {
		return r;
	}
	take_scope(ret, at->scope);
	ret->layer_site = *ret->layer ? record.site->id : 0;
	ret->step_number = at->step;
	ret->seq = at->seq;
	ret->called = at->scope->backward ? NULL : at->called;
	if (ret->seq >= 0) {
		join_forward(a, record.process, ret);
	}
	return 0;
}

int attribution_read(struct scopes *scopes, const struct gpuctr_record *record,
		     const struct store_found *found, struct attribution *ret)
{
	const struct scope *scope;

	clear(ret);
	ret->launch = found->launch;
	if (!record->site) {
		return 0;
	}
	scope = scopes_of_site(scopes, record->site);
	if (!scope) {
		return -ENOMEM;
	}
	take_scope(ret, scope);
	ret->seq = found->seq;
	ret->step_number = found->step;
	ret->layer_site = found->forward ? found->forward->id : 0;
	scope = found->forward ? scopes_of_site(scopes, found->forward) : NULL;
	if (scope) {
		take_forward(ret, scope);
	}
	return found->forward && !scope ? -ENOMEM : 0;
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
					   .layer_site = what->layer_site,
					   .step = what->step_number,
					   .seq = what->seq };
}
