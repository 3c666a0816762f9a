/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/flag.h"
#include "proto/base/utf8.h"

/* The terms of all expressions are numbered consecutively. For each term, a stack has the state of
 * the term's automaton, and the set of start/end ranges has 1 if the term matches one of them. So
 * the filter compares a few numbers for each launch, and a range's name only at the first launch
 * inside the range. */

static int add(struct nvtx_filter *f, const char *text, struct refusal *r)
{
	if (nvtx_expression_parse(text, &f->v[f->n], r) != 0) {
		return r->code;
	}
	f->first_term[f->n] = f->n_terms;
	f->n_terms += nvtx_expression_n_terms(f->v[f->n++]);
	if (f->n_terms > NVTX_TERMS_TOTAL_MAX) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Leave some out.",
			    "the NVTX expressions have more than %d parts", NVTX_TERMS_TOTAL_MAX);
		return r->code;
	}
	return 0;
}

static int add_all(struct nvtx_filter *f, const struct wire_strings *texts, struct refusal *r)
{
	for (size_t i = 0; i < texts->n; i++) {
		if (add(f, texts->v[i], r) != 0) {
			return r->code;
		}
	}
	return 0;
}

static const char *range_text(const struct wire_selection *s)
{
	size_t n = strlen(NVTX_CAPTURE_RANGE);

	return strncmp(s->capture_range, NVTX_CAPTURE_RANGE, n) == 0 ? s->capture_range + n : NULL;
}

static const char *step_text(const struct wire_selection *s)
{
	return s->step[0] && strcmp(s->step, NVTX_STEP_PROFILER) != 0 ? s->step : NULL;
}

/* Adds the expressions that begin and end phases. */
static int add_triggers(struct nvtx_filter *f, const struct wire_selection *s, struct refusal *r)
{
	if (range_text(s)) {
		f->range = f->n;
		if (add(f, range_text(s), r) != 0) {
			return r->code;
		}
	}
	if (step_text(s)) {
		f->step = f->n;
		return add(f, step_text(s), r);
	}
	return 0;
}

int nvtx_filter_init(struct nvtx_filter *f, const struct wire_selection *selection,
		     struct refusal *r)
{
	int code;

	*f = (struct nvtx_filter){ .range = NVTX_EXPRESSIONS_MAX, .step = NVTX_EXPRESSIONS_MAX };
	lock_init(&f->lock, LOCK_LEAF);
	code = add_all(f, &selection->nvtx_include, r);
	f->n_include = f->n;
	code = code != 0 ? code : add_all(f, &selection->nvtx_exclude, r);
	f->n_select = f->n;
	return code != 0 ? code : add_triggers(f, selection, r);
}

void nvtx_filter_deinit(struct nvtx_filter *f)
{
	for (size_t i = 0; i < f->n; i++) {
		nvtx_expression_free(f->v[i]);
	}
	for (size_t i = 0; i < f->n_names; i++) {
		free(f->names[i]);
	}
	*f = (struct nvtx_filter){ 0 };
}

/* Notes a range's name as an expression would spell it, but without backslashes. */
static void note_name(struct nvtx_filter *f, const char *domain, const char *message,
		      const char *end)
{
	char name[160];
	size_t i = 0, n = atomic_load_explicit(&f->n_names, memory_order_relaxed);

	if (n == NVTX_NAMES_MAX) {
		return;
	}
	snprintf(name, sizeof(name), "%.50s%s%.100s%s", domain, domain[0] ? "@" : "", message, end);
	LOCK_SCOPE(&f->lock);
	n = f->n_names;
	while (i < n && strcmp(f->names[i], name) != 0) {
		i++;
	}
	if (i == n && n < NVTX_NAMES_MAX && (f->names[n] = strdup(name)) != NULL) {
		f->n_names = n + 1;
	}
}

void nvtx_filter_begin(const struct nvtx_filter *f, uint64_t *state)
{
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < nvtx_expression_n_terms(f->v[i]); k++) {
			*state++ = nvtx_term_begin(f->v[i], k);
		}
	}
}

void nvtx_filter_advance(struct nvtx_filter *f, const uint64_t *below, uint64_t *state,
			 const char *domain, const char *message)
{
	note_name(f, domain, message, "/");
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < nvtx_expression_n_terms(f->v[i]); k++) {
			*state++ = nvtx_term_advance(f->v[i], k, *below++, domain, message);
		}
	}
}

void nvtx_filter_add(struct nvtx_filter *f, uint64_t *started, const char *domain,
		     const char *message)
{
	note_name(f, domain, message, "");
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < nvtx_expression_n_terms(f->v[i]); k++, started++) {
			*started |= nvtx_term_is_started(f->v[i], k) &&
				    nvtx_term_names(f->v[i], k, domain, message);
		}
	}
}

static bool holds(const struct nvtx_expression *e, const uint64_t *state, const uint64_t *started)
{
	for (size_t k = 0; k < nvtx_expression_n_terms(e); k++) {
		if (nvtx_term_is_started(e, k) ? started[k] == 0
					       : !nvtx_term_holds(e, k, state[k])) {
			return false;
		}
	}
	return true;
}

bool nvtx_filter_selects(struct nvtx_filter *f, const uint64_t *state, const uint64_t *started)
{
	bool included = f->n_include == 0, excluded = false;

	for (size_t i = 0; i < f->n_select; i++) {
		size_t term = f->first_term[i];

		if (holds(f->v[i], state + term, started + term)) {
			included |= i < f->n_include;
			excluded |= i >= f->n_include;
			flag_raise(&f->hit[i]);
		}
	}
	return included && !excluded;
}

bool nvtx_filter_triggers(struct nvtx_filter *f, size_t index, const uint64_t *below,
			  const uint64_t *state)
{
	const struct nvtx_expression *e = index < f->n ? f->v[index] : NULL;
	size_t term;

	if (!e || nvtx_term_is_started(e, 0)) {
		return false;
	}
	term = f->first_term[index];
	if (!nvtx_term_holds(e, 0, state[term]) || (below && nvtx_term_holds(e, 0, below[term]))) {
		return false;
	}
	flag_raise(&f->hit[index]);
	return true;
}

bool nvtx_filter_names(struct nvtx_filter *f, size_t index, const char *domain, const char *message)
{
	const struct nvtx_expression *e = index < f->n ? f->v[index] : NULL;

	if (!e || !nvtx_term_is_started(e, 0)) {
		return false;
	}
	note_name(f, domain, message, "");
	if (!nvtx_term_names(e, 0, domain, message)) {
		return false;
	}
	flag_raise(&f->hit[index]);
	return true;
}

static const char *text_of(const struct nvtx_filter *f, const struct wire_selection *s, size_t i)
{
	if (i >= f->n_select) {
		return i == f->range ? range_text(s) : step_text(s);
	}
	return i < f->n_include ? s->nvtx_include.v[i] : s->nvtx_exclude.v[i - f->n_include];
}

static void describe(const struct nvtx_filter *f, struct refusal *r)
{
	size_t n = strlen(r->message);

	for (size_t i = 0; i < f->n_names && n < sizeof(r->message); i++) {
		n += (size_t)snprintf(r->message + n, sizeof(r->message) - n, "%s %s", i ? ";" : "",
				      f->names[i]);
	}
	utf8_repair(r->message); /* a name may have been cut within a character */
}

bool nvtx_filter_missed(struct nvtx_filter *f, const struct wire_selection *selection,
			struct refusal *r)
{
	size_t i = 0;

	while (i < f->n && f->hit[i]) {
		i++;
	}
	/* Does not wait for the lock: a signal handler that exits may have interrupted its holder
	 * for good. */
	if (i == f->n || !f->asked || !lock_try(&f->lock)) {
		return false;
	}
	if (i == f->step && strcmp(step_text(selection), NVTX_STEP_LIBRARY) == 0) {
		refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH, "Call it where a step begins.",
			    "no step began: gpuctr_step() was not called");
		lock_release(&f->lock);
		return true;
	}
	refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH,
		    f->n_names > 0
			    ? "Write A/ for a push/pop range, A for a start/end range, DOMAIN@A/ "
			      "with its domain."
			    : "Look whether the program, or a library it uses, has NVTX turned on.",
		    "the NVTX expression '%.150s' matched no %s; %s", text_of(f, selection, i),
		    i < f->n_select ? "launch" : "range that began",
		    f->n_names > 0 ? "ranges that were there:" : "there were no ranges");
	describe(f, r);
	lock_release(&f->lock);
	return true;
}
