/* SPDX-License-Identifier: Apache-2.0 */

/* Values of options: fixed words, files, and the metrics, GPUs and processes that the daemon
 * reports. The user waits at a prompt, so the client gives up after two seconds, and reports no
 * errors. */

#include "client/cli/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/format.h"
#include "client/cli/selector.h"
#include "client/report/derived.h"
#include "client/report/fields.h"
#include "client/report/groups.h"
#include "client/report/keys.h"
#include "client/store/reader.h"

enum { PATIENCE_S = 2 };

/* --- the daemon ------------------------------------------------------------------------------ */

struct asked {
	const struct completion *c;
	void (*offer)(struct asked *a, const struct gpuctr_registered_process *p);
	bool done, more;
	char unit[64]; /* that was offered last */
};

/* NULL: nobody answers. */
static struct gpuctr *connect_daemon(const struct completion *c)
{
	struct gpuctr *g;

	alarm(PATIENCE_S); /* the client ends quietly; what it has printed until then is used */
	if (gpuctr_connect(c->socket, "gpuctr-client", &g) != 0) {
		return gpuctr_disconnect(g);
	}
	return g;
}

static void wait_answer(struct gpuctr *g, struct asked *a, int result)
{
	while (result == 0 && !a->done) {
		result = gpuctr_dispatch(g, -1);
	}
	gpuctr_disconnect(g);
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

	if (strchr(typed, '.')) {
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
	snprintf(text, sizeof(text), "%s%s", metric->name, whole ? "" : ".");
	a->more |= !whole;
	completion_offer(a->c, text, metric->description);
}

static void on_base_metric(const struct gpuctr_metric *metric, void *userdata)
{
	struct asked *a = userdata;
	bool whole = metric->kind == GPUCTR_METRIC_PRESET || metric->kind == GPUCTR_METRIC_DERIVED;

	if (a->c->typed[0] || whole) {
		completion_offer(a->c, metric->name, metric->description);
	} else {
		offer_unit(a, metric->name);
	}
}

static void on_metrics_end(const char *chip, const struct gpuctr_error *error, void *userdata)
{
	((struct asked *)userdata)->done = true;
}

static const char *offer_metrics(const struct completion *c, gpuctr_on_metric on_each)
{
	struct gpuctr_metrics_options options = GPUCTR_INIT(gpuctr_metrics_options);
	struct asked a = { .c = c };
	const char *patterns[1];
	char pattern[256];
	struct gpuctr *g;
	size_t n = 0;

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
	wait_answer(g, &a, gpuctr_list_metrics(g, &options, on_each, on_metrics_end, &a));
	return a.more ? ":more" : ":none";
}

static void offer_pid(struct asked *a, const struct gpuctr_registered_process *p)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", selector_pid(p));
	completion_offer(a->c, text, p->program);
}

static void offer_job(struct asked *a, const struct gpuctr_registered_process *p)
{
	char job[256];

	selector_job(p, job, sizeof(job));
	completion_offer(a->c, job, p->program);
}

static void offer_program(struct asked *a, const struct gpuctr_registered_process *p)
{
	completion_offer(a->c, p->program, p->user);
}

static void offer_container(struct asked *a, const struct gpuctr_registered_process *p)
{
	if (*p->container) {
		completion_offer(a->c, p->container, p->program);
	}
}

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct asked *a = userdata;

	a->offer(a, p);
}

static void on_done(const struct gpuctr_error *error, void *userdata)
{
	((struct asked *)userdata)->done = true;
}

static const char *offer_processes(const struct completion *c,
				   void (*offer)(struct asked *,
						 const struct gpuctr_registered_process *))
{
	struct asked a = { .c = c, .offer = offer };
	struct gpuctr *g = connect_daemon(c);

	if (g) {
		wait_answer(g, &a, gpuctr_list_processes(g, on_process, on_done, &a));
	}
	return ":none";
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct asked *a = userdata;
	char text[16];

	for (size_t i = 0; status && i < status->n_gpus; i++) {
		snprintf(text, sizeof(text), "%u", status->gpus[i].index);
		completion_offer(a->c, text, status->gpus[i].name);
	}
	a->done = true;
}

static const char *offer_gpus(const struct completion *c)
{
	struct asked a = { .c = c };
	struct gpuctr *g = connect_daemon(c);

	if (g) {
		wait_answer(g, &a, gpuctr_get_status(g, on_status, &a));
	}
	return ":none";
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

/* Keys that can follow those on the command line: no key twice, and only one that nests. */
static const char *offer_keys(const struct completion *c)
{
	for (int i = 0; i < KEY_END; i++) {
		CLEAN_BUF struct buf all = { 0 }, why = { 0 };
		struct keys keys;

		if (c->list) {
			buf_add(&all, c->list, (size_t)(c->typed - c->list));
		}
		buf_text(&all, keys_name((enum key)i));
		if (keys_parse(buf_string(&all), &keys, &why)) {
			completion_offer(c, keys_name((enum key)i), NULL);
		}
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
	return offer_metrics(c, on_metric);
}

/* Columns of the capture file that was named before on the command line, as `report` takes them. */
static void offer_columns_of(const struct completion *c)
{
	struct keys keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 };
	struct derived derived[DERIVED_MAX];
	const struct measure *measures;
	struct store_reader *r = NULL;
	struct groups *g = groups_new(&keys);

	if (g && store_open_unchecked(c->capture, NULL, &r) == 0 &&
	    groups_begin(g, &store_info(r)->plan, c->capture, NULL) == 0) {
		size_t n = groups_measures(g, &measures);

		for (size_t i = MEASURE_TIME + 1; i < n; i++) {
			completion_offer(c, measures[i].name, measures[i].unit);
		}
		n = derived_find(measures, n, derived);
		for (size_t i = 0; i < n; i++) {
			completion_offer(c, derived[i].name, derived[i].unit);
		}
	}
	store_reader_free(r);
	groups_free(g);
}

static const char *offer_columns(const struct completion *c)
{
	if (c->capture) {
		offer_columns_of(c);
	}
	return offer_words(c, "time");
}

/* By the name of the option, whatever its verb. */
static const struct {
	const char *option;
	const char *(*offer)(const struct completion *c);
	void (*offer_process)(struct asked *a, const struct gpuctr_registered_process *p);
	const char *words; /* and these */
} values[] = {
	{ .option = "metrics", .offer = offer_plan },
	{ .option = "pid", .offer_process = offer_pid },
	{ .option = "tree", .offer_process = offer_pid },
	{ .option = "job", .offer_process = offer_job },
	{ .option = "program", .offer_process = offer_program },
	{ .option = "container", .offer_process = offer_container },
	{ .option = "devices", .offer = offer_gpus },
	{ .option = "gpu", .offer = offer_gpus },
	{ .option = "format", .offer = offer_formats },
	{ .option = "by", .offer = offer_keys },
	{ .option = "figures", .offer = offer_figures },
	{ .option = "schedule", .words = "skip_first= wait= warmup= active= repeat=" },
	{ .option = "to", .words = "chrome csv jsonl folded pyprof" },
	{ .option = "capture-range", .words = "cudaProfilerApi nvtx:" },
	{ .option = "step", .words = "cudaProfilerStart" },
	{ .option = "sort", .offer = offer_columns, .words = "launches name" },
	{ .option = "columns", .offer = offer_columns },
};

static bool is_choice(const char *argument)
{
	return strchr(argument, '|') &&
	       argument[strspn(argument, "abcdefghijklmnopqrstuvwxyz|")] == '\0';
}

/* The part behind the last comma, because lists are completed part by part; without a comma all of
 * the word. */
static struct completion last_part(const struct completion *c, const char *argument)
{
	struct completion part = *c;
	const char *comma = strrchr(c->typed, ',');

	if (comma && (strncmp(argument, "LIST", 4) == 0 || strcmp(argument, "KEYS") == 0)) {
		/* Behind a '=' that the shell has split off, the word begins with the value. */
		part.given = c->split ? c->typed : c->given;
		part.n_given = (size_t)(comma + 1 - part.given);
		part.list = c->typed;
		part.typed = comma + 1;
	}
	return part;
}

static const char *offer_values(const struct completion *c, size_t i)
{
	const char *what = ":none";

	if (values[i].offer_process) {
		what = offer_processes(c, values[i].offer_process);
	}
	if (values[i].offer) {
		what = values[i].offer(c);
	}
	offer_words(c, values[i].words ? values[i].words : "");
	return strcmp(values[i].option, "schedule") == 0 ? ":more" : what;
}

const char *completion_of_option(const struct completion *c, const struct option_def *def)
{
	struct completion part = last_part(c, def->argument);

	if (strcmp(def->argument, "LIST|all") == 0) {
		return offer_words(
			&part, "idx seq altseq tid layer trace dir sub mod op kernel params sil "
			       "tc device stream grid block flops bytes all");
	}
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(values[i].option, def->name) == 0) {
			return offer_values(&part, i);
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
		return offer_metrics(c, on_base_metric);
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
