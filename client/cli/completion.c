/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the words by the option tables of the verbs, so that a new option is completed without
 * further work. The scripts of the shells (client/cli/completion) only call this. */

#include "client/cli/completion.h"

#include <stdio.h>
#include <string.h>

/* Where the walk has come to. */
struct walk {
	const struct verb *verb;
	const struct option_def *pending; /* wants the next word as its value */
	bool ended;			  /* no options any more */
	size_t program;			  /* index of the word that is a command; 0: none yet */
};

static bool takes_program(const struct verb *verb)
{
	return verb->takes && strcmp(verb->takes, "PROGRAM") == 0;
}

/* --- the words before ------------------------------------------------------------------------ */

static const struct option_def *find_long(const struct option_def *defs, const char *word, size_t n)
{
	for (; defs->name; defs++) {
		if (strlen(defs->name) == n && strncmp(defs->name, word, n) == 0) {
			return defs;
		}
	}
	return NULL;
}

static const struct option_def *find_short(const struct option_def *defs, char letter)
{
	for (; defs->name; defs++) {
		if (defs->letter == letter) {
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
	const struct option_def *def = find_long(w->verb->options, word, n);

	if (def && def->argument && word[n] == '=') {
		note_value(c, def, word + n + 1);
	} else if (def && def->argument) {
		w->pending = def;
	}
}

static void walk_short(struct walk *w, const char *letters)
{
	for (; *letters; letters++) {
		const struct option_def *def = find_short(w->verb->options, *letters);

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
		} else if (!c->capture) {
			c->capture = word;
		}
	} else if (strcmp(word, "--") == 0) {
		w->ended = true;
	} else if (word[1] == '-') {
		walk_long(c, w, word + 2);
	} else {
		walk_short(w, word + 1);
	}
}

/* Joins "--option" "=" "value", which bash has split; true if it did. */
static bool join_word(struct completion *c, size_t i)
{
	const char *option = c->words[i];
	char *whole;

	if (i + 1 >= c->n || strncmp(option, "--", 2) != 0 || !option[2] ||
	    strcmp(c->words[i + 1], "=") != 0 ||
	    asprintf(&whole, "%s=%s", option, i + 2 < c->n ? c->words[i + 2] : "") < 0) {
		return false;
	}
	c->words[i] = whole; /* lives until we end */
	return true;
}

/* The words keep their indices: one that was joined to the word before becomes NULL. */
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

/* --- the last one ---------------------------------------------------------------------------- */

static void offer_options(const struct completion *c, const struct option_def *defs)
{
	char text[64];

	for (; defs->name; defs++) {
		snprintf(text, sizeof(text), "--%s", defs->name);
		if (defs->help) {
			completion_offer(c, text, defs->help);
		}
	}
}

static const char *complete_option(struct completion *c, const struct walk *w)
{
	const char *word = c->typed, *equals = strchr(word, '=');
	const struct option_def *def =
		equals && strncmp(word, "--", 2) == 0
			? find_long(w->verb->options, word + 2, (size_t)(equals - word) - 2)
			: NULL;

	if (!equals) {
		offer_options(c, w->verb->options);
		return ":none";
	}
	c->typed = equals + 1;
	c->n_given = c->split ? 0 : (size_t)(equals + 1 - word);
	return def && def->argument ? completion_of_option(c, def) : ":none";
}

static void offer_verbs(const struct completion *c)
{
	for (size_t i = 0; c->verbs[i]; i++) {
		completion_offer(c, c->verbs[i]->name, c->verbs[i]->summary);
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
		return completion_of_option(c, w->pending);
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
	return completion_of_argument(c, w->verb);
}

void completion_print(struct completion *c)
{
	struct walk w = { .verb = c->verbs[0] };
	size_t i = 0, last;

	if (c->n == 0) {
		return;
	}
	join_words(c);
	last = last_word(c);
	if (c->n > 1 && verb_find(c->verbs, c->words[0])) {
		w.verb = verb_find(c->verbs, c->words[i++]);
	}
	for (; i < last && w.program == 0; i++) {
		if (c->words[i]) {
			walk_word(c, &w, i);
		}
	}
	c->given = c->typed = c->words[last];
	c->n_given = 0;
	puts(complete(c, &w));
}
