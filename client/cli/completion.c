/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the words by the option tables of the verbs, so that a new option is completed without
 * further work. The shells' scripts (client/cli/completion) get all candidates from here. */

#include "client/cli/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/text.h"

/* The command line up to the word that is being typed, and what was found in it. */
struct completion {
	const struct verb *const *verbs;
	char **words; /* behind "gpuctr-client"; the last word is being typed */
	size_t n;
	bool split; /* the shell has split "--option=value" at its '=' */

	const char *socket, *chip; /* values of options in words before the last; NULL: none */
	const char *given;	   /* beginning of the last word that every candidate repeats
				      ("--metrics=a,") */
	size_t n_given;
	const char *typed; /* rest of the last word, to be completed */
};

/* State of the walk over the words before the last. */
struct walk {
	const struct verb *verb;
	const struct option_def *pending; /* option whose value is the next word; NULL: none */
	bool ended;			  /* no options follow */
	size_t program;			  /* 1 + index of the word that is a command; 0: none yet */
};

static bool takes_program(const struct verb *verb)
{
	return verb->takes && strcmp(verb->takes, "PROGRAM") == 0;
}

/* --- the words before ------------------------------------------------------------------------ */

static const struct option_def *find_long(const struct verb *verb, const char *word, size_t n)
{
	for (const struct option_def *defs = verb->options; defs->name; defs++) {
		if (option_is_of(defs, verb->bit) && strlen(defs->name) == n &&
		    strncmp(defs->name, word, n) == 0) {
			return defs;
		}
	}
	return NULL;
}

static const struct option_def *find_short(const struct verb *verb, char letter)
{
	for (const struct option_def *defs = verb->options; defs->name; defs++) {
		if (option_is_of(defs, verb->bit) && defs->letter == letter) {
			return defs;
		}
	}
	return NULL;
}

static void note_value(struct completion *c, const struct option_def *def, const char *value)
{
	if (strcmp(def->name, "socket") == 0) {
		c->socket = value;
	} else if (strcmp(def->name, "chip") == 0) {
		c->chip = value;
	}
}

static void walk_long(struct completion *c, struct walk *w, const char *word)
{
	size_t n = strcspn(word, "=");
	const struct option_def *def = find_long(w->verb, word, n);

	if (def && def->argument && word[n] == '=') {
		note_value(c, def, word + n + 1);
	} else if (def && option_wants_value(def)) {
		w->pending = def;
	}
}

static void walk_short(struct walk *w, const char *letters)
{
	for (; *letters; letters++) {
		const struct option_def *def = find_short(w->verb, *letters);

		if (def && def->argument) {
			w->pending = letters[1] ? NULL : def;
			return;
		}
	}
}

static void walk_word(struct completion *c, struct walk *w, size_t i)
{
	const char *word = c->words[i];

	if (w->pending) {
		note_value(c, w->pending, word);
		w->pending = NULL;
	} else if (w->ended || word[0] != '-' || word[1] == '\0') {
		if (takes_program(w->verb)) {
			w->ended = true;
			w->program = i + 1;
		}
	} else if (strcmp(word, "--") == 0) {
		w->ended = true;
	} else if (word[1] == '-') {
		walk_long(c, w, word + 2);
	} else {
		walk_short(w, word + 1);
	}
}

/* Joins "--option" "=" "value" at word i, if bash has split them. Returns whether it has. */
static bool join_word(struct completion *c, size_t i)
{
	const char *option = c->words[i];
	char *whole;

	if (i + 1 >= c->n || strncmp(option, "--", 2) != 0 || !option[2] ||
	    strcmp(c->words[i + 1], "=") != 0 ||
	    asprintf(&whole, "%s=%s", option, i + 2 < c->n ? c->words[i + 2] : "") < 0) {
		return false;
	}
	c->words[i] = whole; /* lives until the client ends */
	return true;
}

/* The words keep their indices: a word that was joined to the word before becomes NULL. */
static void join_words(struct completion *c)
{
	for (size_t i = 0; i + 1 < c->n; i++) {
		if (!join_word(c, i)) {
			continue;
		}
		c->split = i + 3 >= c->n;
		c->words[i + 1] = NULL;
		if (i + 2 < c->n) {
			c->words[i + 2] = NULL;
		}
		i += 2;
	}
}

static size_t last_word(const struct completion *c)
{
	size_t i = c->n - 1;

	while (i > 0 && !c->words[i]) {
		i--;
	}
	return i;
}

/* --- candidates ------------------------------------------------------------------------------ */

/* Does a shell take the text as one plain word? Other users may have chosen the names. */
static bool is_harmless(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_.:/+@%=,-")] == '\0';
}

/* Prints one candidate, if it begins with what was typed and means nothing to a shell. */
static void offer(const struct completion *c, const char *text, const char *description)
{
	CLEAN_BUF struct buf b = { 0 };

	if (strncmp(text, c->typed, strlen(c->typed)) != 0 || !is_harmless(text)) {
		return;
	}
	buf_add(&b, c->given, c->n_given);
	buf_text(&b, text);
	if (description && *description) {
		buf_char(&b, '\t');
		text_terminal(&b, description);
	}
	puts(buf_string(&b));
}

/* --- metrics --------------------------------------------------------------------------------- */

/* The user waits at a prompt: the client ends quietly after this time, and the shell uses the
 * candidates printed until then. */
enum { PATIENCE_S = 2 };

struct asked {
	const struct completion *c;
	bool with_rollup; /* a counter needs a rollup (".sum") behind its name, which is completed
			     next */
	bool done, more;
	char unit[64]; /* first part of names that was offered last ("dram__") */
};

/* Where nothing is typed yet, offers the first part of the names, "dram__", in place of
 * thousands of names. The daemon sends them sorted. */
static void offer_unit(struct asked *a, const char *name)
{
	const char *end = strstr(name, "__");
	char unit[sizeof(a->unit)];

	if (!end || memchr(name, '.', (size_t)(end - name))) {
		return;
	}
	snprintf(unit, sizeof(unit), "%.*s__", (int)(end - name), name);
	if (strcmp(unit, a->unit) != 0) {
		snprintf(a->unit, sizeof(a->unit), "%s", unit);
		offer(a->c, unit, NULL);
		a->more = true;
	}
}

static void on_metric(const struct gpuctr_metric *metric, void *userdata)
{
	struct asked *a = userdata;
	bool whole = metric->kind == GPUCTR_METRIC_PRESET || metric->kind == GPUCTR_METRIC_DERIVED;
	bool rollup = a->with_rollup && !whole;
	char text[512];

	if (rollup && strchr(a->c->typed, '.')) {
		for (size_t i = 0; i < metric->n_submetrics; i++) {
			snprintf(text, sizeof(text), "%s%s", metric->name, metric->submetrics[i]);
			offer(a->c, text, NULL);
		}
	} else if (!a->c->typed[0] && !whole) {
		offer_unit(a, metric->name);
	} else {
		snprintf(text, sizeof(text), "%s%s", metric->name, rollup ? "." : "");
		a->more |= rollup;
		offer(a->c, text, metric->description);
	}
}

static void on_end(const char *chip, const struct gpuctr_error *error, void *userdata)
{
	((struct asked *)userdata)->done = true;
}

static const char *offer_metrics(const struct completion *c, bool with_rollup)
{
	struct gpuctr_metrics_options options = GPUCTR_INIT(gpuctr_metrics_options);
	struct asked a = { .c = c, .with_rollup = with_rollup };
	const char *patterns[1];
	struct gpuctr *g = NULL;
	char pattern[256];
	size_t n = 0;
	int r;

	for (; isalnum((unsigned char)c->typed[n]) || c->typed[n] == '_'; n++) {
	}
	if (c->typed[n] && c->typed[n] != '.') {
		return ":none";
	}
	snprintf(pattern, sizeof(pattern), "%.*s%s", (int)n, c->typed, c->typed[n] ? "" : "*");
	patterns[0] = pattern;
	options.chip = c->chip;
	options.patterns = patterns;
	options.n_patterns = 1;
	options.describe = true;
	alarm(PATIENCE_S);
	r = gpuctr_connect(c->socket, "gpuctr-client", &g);
	r = r ? r : gpuctr_list_metrics(g, &options, on_metric, on_end, &a);
	while (r == 0 && !a.done) {
		r = gpuctr_dispatch(g, -1);
	}
	gpuctr_disconnect(g);
	return a.more ? ":more" : ":none";
}

/* Completes only the part of a list behind the last comma. */
static const char *offer_listed_metrics(const struct completion *c)
{
	struct completion part = *c;
	const char *comma = strrchr(c->typed, ',');

	if (comma) {
		/* Behind a '=' that the shell has split off, the word begins with the value. */
		part.given = c->split ? c->typed : c->given;
		part.n_given = (size_t)(comma + 1 - part.given);
		part.typed = comma + 1;
	}
	return offer_metrics(&part, true);
}

/* --- the last word --------------------------------------------------------------------------- */

static const char *offer_values(const struct completion *c, const struct option_def *def)
{
	const char *argument = def->argument;

	if (strcmp(def->name, "metrics") == 0 || strcmp(def->name, "fit") == 0) {
		return offer_listed_metrics(c);
	}
	return strstr(argument, "FILE") || strstr(argument, "PATH") ||
			       strcmp(argument, "CAPTURE") == 0
		       ? ":files"
		       : ":none";
}

static const char *offer_arguments(const struct completion *c, const struct verb *verb)
{
	const char *takes = verb->takes ? verb->takes : "";

	if (strcmp(takes, "METRIC") == 0) {
		return offer_metrics(c, false);
	}
	return strcmp(takes, "FILE") == 0 ? ":files" : ":none";
}

static void offer_options(const struct completion *c, const struct verb *verb)
{
	char text[64];

	for (const struct option_def *defs = verb->options; defs->name; defs++) {
		snprintf(text, sizeof(text), "--%s", defs->name);
		if (option_is_of(defs, verb->bit) && defs->help) {
			offer(c, text, defs->help);
		}
	}
}

static const char *complete_option(struct completion *c, const struct walk *w)
{
	const char *word = c->typed, *equals = strchr(word, '=');
	const struct option_def *def =
		equals && strncmp(word, "--", 2) == 0
			? find_long(w->verb, word + 2, (size_t)(equals - word) - 2)
			: NULL;

	if (!equals) {
		offer_options(c, w->verb);
		return ":none";
	}
	c->typed = equals + 1;
	c->n_given = c->split ? 0 : (size_t)(equals + 1 - word);
	return def && def->argument ? offer_values(c, def) : ":none";
}

static void offer_verbs(const struct completion *c)
{
	for (size_t i = 0; c->verbs[i]; i++) {
		offer(c, c->verbs[i]->name, c->verbs[i]->summary);
	}
}

static const char *complete(struct completion *c, const struct walk *w)
{
	static char text[32];

	if (w->program > 0) {
		snprintf(text, sizeof(text), ":program %zu", w->program - 1);
		return text;
	}
	if (w->pending) {
		return offer_values(c, w->pending);
	}
	if (!w->ended && c->typed[0] == '-') {
		return complete_option(c, w);
	}
	if (c->n == 1 || (w->verb->takes && strcmp(w->verb->takes, "VERB") == 0)) {
		offer_verbs(c);
	}
	/* Directly behind gpuctr-client every program would be a candidate: too many. */
	if (c->n == 1 && c->typed[0] == '\0') {
		return ":none";
	}
	if (takes_program(w->verb)) {
		snprintf(text, sizeof(text), ":program %zu", c->n - 1);
		return text;
	}
	return offer_arguments(c, w->verb);
}

void completion_print(const struct verb *const *verbs, char **words, size_t n)
{
	struct completion c = { .verbs = verbs, .words = words, .n = n };
	struct walk w = { .verb = verbs[0] };
	size_t i = 0, last;

	if (n == 0) {
		return;
	}
	join_words(&c);
	last = last_word(&c);
	if (n > 1 && verb_find(verbs, words[0])) {
		w.verb = verb_find(verbs, words[i++]);
	}
	for (; i < last && w.program == 0; i++) {
		if (words[i]) {
			walk_word(&c, &w, i);
		}
	}
	c.given = c.typed = words[last];
	puts(complete(&c, &w));
}
