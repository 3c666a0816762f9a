/* SPDX-License-Identifier: Apache-2.0 */

/* Values of options: fixed words, files, and the metrics that the daemon lists. The user waits at a
 * prompt, so the client gives up after two seconds, and reports no errors. */

#include "client/cli/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/format.h"
#include "client/cli/text.h"
#include "client/report/fields.h"
#include "client/report/keys.h"

enum { PATIENCE_S = 2 };

/* Candidates land on command lines, and other users chose some of the names: a candidate has
 * letters, digits and a few marks that mean nothing to any shell, or is left out. */
static bool is_harmless(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_.:/+@%=,-")] == '\0';
}

void completion_offer(const struct completion *c, const char *text, const char *description)
{
	struct buf b = { 0 };

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
	buf_deinit(&b);
}

/* --- the daemon ------------------------------------------------------------------------------ */

struct asked {
	const struct completion *c;
	bool bare; /* names without rollup, as "metrics" takes them */
	bool done, more;
	char unit[64]; /* that was offered last */
};

/* NULL: nobody answers. */
static struct gpuctr *connect_daemon(const struct completion *c)
{
	struct gpuctr *g;

	alarm(PATIENCE_S); /* ends the client quietly; what it has printed until then counts */
	if (gpuctr_connect(c->socket, "gpuctr-client", &g) != 0) {
		return gpuctr_disconnect(g);
	}
	return g;
}

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
		completion_offer(a->c, unit, NULL);
		a->more = true;
	}
}

/* A counter needs a rollup behind its name, which is completed next. */
static void on_metric(const struct gpuctr_metric *metric, void *userdata)
{
	struct asked *a = userdata;
	bool whole = metric->kind == GPUCTR_METRIC_PRESET || metric->kind == GPUCTR_METRIC_DERIVED;
	const char *typed = a->c->typed;
	char text[512];

	if (!a->bare && strchr(typed, '.')) {
		for (size_t i = 0; i < metric->n_submetrics && !whole; i++) {
			snprintf(text, sizeof(text), "%s%s", metric->name, metric->submetrics[i]);
			completion_offer(a->c, text, NULL);
		}
		return;
	}
	if (!typed[0] && !whole) {
		offer_unit(a, metric->name);
		return;
	}
	snprintf(text, sizeof(text), "%s%s", metric->name, whole || a->bare ? "" : ".");
	a->more |= !whole && !a->bare;
	completion_offer(a->c, text, metric->description);
}

static void on_metrics_end(const char *chip, const struct gpuctr_error *error, void *userdata)
{
	(void)chip;
	(void)error;
	((struct asked *)userdata)->done = true;
}

static const char *offer_metrics(const struct completion *c, bool bare)
{
	struct gpuctr_metrics_options options = GPUCTR_INIT(gpuctr_metrics_options);
	struct asked a = { .c = c, .bare = bare };
	const char *patterns[1];
	char pattern[256];
	struct gpuctr *g;
	size_t n = 0;
	int r;

	for (; isalnum((unsigned char)c->typed[n]) || c->typed[n] == '_'; n++) {
	}
	if ((c->typed[n] && c->typed[n] != '.') || !(g = connect_daemon(c))) {
		return ":none";
	}
	snprintf(pattern, sizeof(pattern), "%.*s%s", (int)n, c->typed, c->typed[n] ? "" : "*");
	patterns[0] = pattern;
	options.chip = c->chip;
	options.patterns = patterns;
	options.n_patterns = 1;
	options.describe = true;
	r = gpuctr_list_metrics(g, &options, on_metric, on_metrics_end, &a);
	while (r == 0 && !a.done) {
		r = gpuctr_dispatch(g, -1);
	}
	gpuctr_disconnect(g);
	return a.more ? ":more" : ":none";
}

/* --- what is known without it ---------------------------------------------------------------- */

/* "a|b c": words with a space or a bar between them. */
static const char *offer_words(const struct completion *c, const char *words)
{
	char text[64];

	while (*words) {
		size_t n = strcspn(words, "| ");

		snprintf(text, sizeof(text), "%.*s", (int)n, words);
		completion_offer(c, text, NULL);
		words += n + (words[n] != '\0');
	}
	return ":none";
}

static const char *offer_formats(const struct completion *c)
{
	for (size_t i = 0; formats[i]; i++) {
		completion_offer(c, formats[i]->name, NULL);
	}
	return ":none";
}

static const char *offer_keys(const struct completion *c)
{
	for (int i = 0; i < KEY_END; i++) {
		completion_offer(c, keys_name((enum key)i), NULL);
	}
	return ":none";
}

static const char *offer_figures(const struct completion *c)
{
	for (int i = 0; i < FIELD_END; i++) {
		if (FIELDS_ALL & FIELD_BIT((unsigned)i)) {
			completion_offer(c, fields_name((enum field)i, false), NULL);
		}
	}
	return offer_words(c, "all");
}

static const char *offer_plan(const struct completion *c)
{
	return offer_metrics(c, false);
}

static const char *offer_pyprof(const struct completion *c)
{
	return offer_words(c, "idx seq altseq tid layer trace dir sub mod op kernel params sil tc "
			      "device stream grid block flops bytes all");
}

/* By the name of the option, whatever its verb. */
static const struct {
	const char *option;
	const char *(*offer)(const struct completion *c);
	const char *words; /* in place of offer */
} values[] = {
	{ .option = "metrics", .offer = offer_plan },
	{ .option = "format", .offer = offer_formats },
	{ .option = "by", .offer = offer_keys },
	{ .option = "figures", .offer = offer_figures },
	{ .option = "to", .words = "chrome csv jsonl folded pyprof" },
	{ .option = "capture-range", .words = "cudaProfilerApi nvtx:" },
	{ .option = "step", .words = "cudaProfilerStart" },
	{ .option = "sort", .words = "time launches name" },
};

static bool is_choice(const char *argument)
{
	return strchr(argument, '|') &&
	       argument[strspn(argument, "abcdefghijklmnopqrstuvwxyz|")] == '\0';
}

/* Behind the last comma: lists are completed part by part, and for what is no list this is all. */
static struct completion last_part(const struct completion *c, const char *argument)
{
	struct completion part = *c;
	const char *comma = strrchr(c->typed, ',');

	if (comma && (strncmp(argument, "LIST", 4) == 0 || strcmp(argument, "KEYS") == 0)) {
		/* Behind a '=' that the shell has split off, the word begins with the value. */
		part.given = c->split ? c->typed : c->given;
		part.n_given = (size_t)(comma + 1 - part.given);
		part.typed = comma + 1;
	}
	return part;
}

const char *completion_of_option(const struct completion *c, const struct option_def *def)
{
	struct completion part = last_part(c, def->argument);

	if (strcmp(def->argument, "LIST|all") == 0) {
		return offer_pyprof(&part);
	}
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(values[i].option, def->name) == 0) {
			return values[i].offer ? values[i].offer(&part)
					       : offer_words(&part, values[i].words);
		}
	}
	if (is_choice(def->argument)) {
		return offer_words(c, def->argument);
	}
	return strstr(def->argument, "FILE") || strstr(def->argument, "PATH") ||
			       strcmp(def->argument, "CAPTURE") == 0
		       ? ":files"
		       : ":none";
}

const char *completion_of_argument(const struct completion *c, const struct verb *verb)
{
	const char *takes = verb->takes ? verb->takes : "";

	if (strcmp(takes, "METRIC") == 0) {
		return offer_metrics(c, true);
	}
	if (strcmp(takes, "LIST") == 0) {
		struct completion part = last_part(c, "LIST");

		return offer_plan(&part);
	}
	if (is_choice(takes)) {
		return offer_words(c, c->n == 2 ? takes : "");
	}
	return strcmp(takes, "FILE") == 0 ? ":files" : ":none";
}
