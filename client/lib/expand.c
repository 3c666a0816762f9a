/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/expand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/pattern.h"
#include "proto/base/arena.h"
#include "proto/base/near.h"
#include "proto/nvidia/aliases.h"
#include "proto/wire/limits.h"
#include "proto/wire/pattern.h"

/* The catalogue comes base by base, each with its submetrics. A chip has about 150,000 full names,
 * and only those that match are kept. A text that is no pattern is kept as a name; the daemon
 * refuses it if the chip does not have it. */

struct wanted {
	struct pattern *pattern;
	const struct alias *alias; /* in a list: the alias that the text is; NULL: none */
	const char **names; /* the full names that the text matches; a text that is no pattern
			       matches itself */
	size_t n;	    /* LIMIT_METRICS + 1: more than LIMIT_METRICS */
};

struct expansion {
	struct arena arena;
	struct wanted wanted[LIMIT_METRICS];
	size_t n;
	const char *names[LIMIT_METRICS]; /* the names of all texts */
	struct near near;		  /* names near to the first word of a list */
	size_t n_listed;
	bool out_of_memory;
};

static int refuse_memory(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_INTERNAL, "", "out of memory");
	return r->code;
}

static int refuse_number(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_TOO_MANY_METRICS, "Ask for fewer at a time.",
		    "more than %d metrics are asked for", LIMIT_METRICS);
	return r->code;
}

bool expansion_is_needed(const struct wire_strings *metrics)
{
	if (metrics->n > LIMIT_METRICS) {
		return true; /* expansion_new() then refuses */
	}
	for (size_t i = 0; i < metrics->n; i++) {
		if (pattern_is(metrics->v[i])) {
			return true;
		}
	}
	return false;
}

/* Near names are compared without the rollup, like the names of the catalogue. nvprof's names are
 * compared as well. */
static void begin_near(struct expansion *e)
{
	const char *text = e->n > 0 ? pattern_text(e->wanted[0].pattern) : "";
	const struct alias *alias;

	near_init(&e->near, text, strcspn(text, "."));
	for (unsigned i = 0; (alias = alias_at(i)); i++) {
		near_offer(&e->near, alias->name);
	}
}

int expansion_new(const char *const *texts, size_t n, struct expansion **ret, struct refusal *r)
{
	struct expansion *e;

	if (n > LIMIT_METRICS) {
		return refuse_number(r);
	}
	e = calloc(1, sizeof(*e));
	if (!e) {
		return refuse_memory(r);
	}
	arena_init(&e->arena, ARENA_NO_LIMIT);
	for (size_t i = 0; i < n; i++) {
		if (pattern_new(texts[i], &e->wanted[i].pattern, r) != 0) {
			expansion_free(e);
			return r->code;
		}
		e->wanted[i].alias = alias_find(texts[i]);
		e->n++;
	}
	begin_near(e);
	*ret = e;
	return 0;
}

struct expansion *expansion_free(struct expansion *e)
{
	for (size_t i = 0; e && i < e->n; i++) {
		pattern_free(e->wanted[i].pattern);
	}
	if (e) {
		arena_deinit(&e->arena);
		free(e);
	}
	return NULL;
}

/* --- lists --- */

/* Does the text contain each of the words between blanks, ignoring case? */
static bool has_words(const char *name, const char *text)
{
	char word[LIMIT_NAME_BYTES];
	bool any = false;

	for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(p, " "), p);
		if (!strcasestr(name, word)) {
			return false;
		}
		any = true;
		p += strcspn(p, " ");
	}
	return any;
}

static bool lists(const struct wanted *w, const char *name)
{
	const struct pattern *p = w->pattern;
	const char *text = pattern_text(p);
	size_t length = strlen(name);

	if (pattern_matches(p, name)) {
		return true;
	}
	return pattern_is_literal(p) &&
	       (has_words(name, text) || (w->alias && alias_covers(w->alias, name)) ||
		(strncmp(text, name, length) == 0 && text[length] == '.'));
}

bool expansion_lists(struct expansion *e, const char *name)
{
	bool listed = e->n == 0;

	near_offer(&e->near, name);
	for (size_t i = 0; !listed && i < e->n; i++) {
		listed = lists(&e->wanted[i], name);
	}
	e->n_listed += listed;
	return listed;
}

int expansion_end_list(const struct expansion *e, const char *chip, struct refusal *r)
{
	const struct near *near = &e->near;
	char remedy[sizeof(r->remedy)] = "List them all with `gpuctr-client metrics`.";
	const char *launch = e->n > 0 ? alias_of_launch(pattern_text(e->wanted[0].pattern)) : NULL;

	if (e->n == 0 || e->n_listed > 0) {
		return 0;
	}
	if (launch) {
		snprintf(remedy, sizeof(remedy), "%s", launch);
	} else if (near->found[0].name[0] != '\0' && pattern_is_literal(e->wanted[0].pattern)) {
		snprintf(remedy, sizeof(remedy), "Did you mean %s%s%s%s%s?", near->found[0].name,
			 near_separator(near, 0), near->found[1].name, near_separator(near, 1),
			 near->found[2].name);
	}
	refusal_set(r, GPUCTR_E_METRIC_NO_MATCH, remedy, "%s has no metric like '%.300s'", chip,
		    pattern_text(e->wanted[0].pattern));
	return r->code;
}

/* --- plans --- */

static void keep(struct expansion *e, struct wanted *w, const char *name)
{
	if (!w->names) {
		w->names = arena_alloc(&e->arena, LIMIT_METRICS * sizeof(*w->names));
	}
	if (w->names && w->n < LIMIT_METRICS) {
		w->names[w->n] = arena_printf(&e->arena, "%s", name);
	}
	e->out_of_memory |= !w->names || (w->n < LIMIT_METRICS && !w->names[w->n]);
	w->n++;
}

void expansion_add(struct expansion *e, const struct gpuctr_metric *m)
{
	char full[2 * LIMIT_NAME_BYTES];

	if (m->kind == GPUCTR_METRIC_PRESET || m->kind == GPUCTR_METRIC_DERIVED) {
		return; /* the submetrics of such a metric are names of other metrics */
	}
	for (size_t i = 0; i < m->n_submetrics; i++) {
		if ((size_t)snprintf(full, sizeof(full), "%s%s", m->name, m->submetrics[i]) >=
		    sizeof(full)) {
			continue;
		}
		for (size_t k = 0; k < e->n; k++) {
			struct wanted *w = &e->wanted[k];

			if (w->n <= LIMIT_METRICS && !pattern_is_literal(w->pattern) &&
			    pattern_matches(w->pattern, full)) {
				keep(e, w, full);
			}
		}
	}
}

static int check_matches(const struct expansion *e, const char *chip, struct refusal *r)
{
	for (size_t i = 0; i < e->n; i++) {
		const struct wanted *w = &e->wanted[i];

		if (w->n == 0) {
			const char *launch = alias_of_launch(pattern_text(w->pattern));

			refusal_set(r, GPUCTR_E_METRIC_NO_MATCH,
				    launch ? launch
					   : "A pattern must match whole names with their rollup: "
					     "'dram__bytes_*.sum'.",
				    "'%.300s' matches no metric of %s", pattern_text(w->pattern),
				    chip);
			return r->code;
		}
		if (w->n > LIMIT_METRICS) {
			refusal_set(r, GPUCTR_E_TOO_MANY_METRICS,
				    "Narrow it, for example by a rollup at its end: '.sum'.",
				    "'%.300s' matches more than %d metrics",
				    pattern_text(w->pattern), LIMIT_METRICS);
			return r->code;
		}
	}
	return 0;
}

static bool has(const struct wire_strings *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->v[i], name) == 0) {
			return true;
		}
	}
	return false;
}

int expansion_end_plan(struct expansion *e, const char *chip, struct wire_strings *ret,
		       struct refusal *r)
{
	*ret = (struct wire_strings){ 0, e->names };
	for (size_t i = 0; i < e->n; i++) {
		if (pattern_is_literal(e->wanted[i].pattern)) {
			e->wanted[i].n = 0;
			keep(e, &e->wanted[i], pattern_text(e->wanted[i].pattern));
		}
	}
	if (e->out_of_memory) {
		return refuse_memory(r);
	}
	if (check_matches(e, chip, r) != 0) {
		return r->code;
	}
	for (size_t i = 0; i < e->n; i++) {
		for (size_t k = 0; k < e->wanted[i].n; k++) {
			const char *name = e->wanted[i].names[k];

			if (has(ret, name)) {
				continue;
			}
			if (ret->n == LIMIT_METRICS) {
				return refuse_number(r);
			}
			e->names[ret->n++] = name;
		}
	}
	return 0;
}
