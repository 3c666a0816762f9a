/* SPDX-License-Identifier: Apache-2.0 */

/* getopt_long() does the parsing; its messages are replaced, because ours name the near match. */

#include "client/cli/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/foreign.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/near.h"

enum { ROWS_MAX = 80, NAME_MAX_BYTES = 32 };

struct parser {
	const struct option_def *defs;
	int argc;
	char **argv;
	struct option longs[ROWS_MAX + 1];
	char shorts[2 * ROWS_MAX + 3];
	const char *names[ROWS_MAX + 1]; /* "--name" of all, for the near match */
	char texts[ROWS_MAX][NAME_MAX_BYTES];
};

/* getopt_long() returns the letter of a short option, and the row of a long one from here on. */
enum { FIRST_ROW = 256 };

enum { HELP_WIDTH = 100, HELP_INDENT = 30 };

static bool is_letter(int id)
{
	return id > 0 && id < 256;
}

bool option_wants_value(const struct option_def *def)
{
	return def->argument && def->argument[0] != '[';
}

/* leading: options end at the first argument that is none. */
static void begin(struct parser *p, const struct option_def *defs, bool leading, int argc,
		  char **argv)
{
	char *shorts = p->shorts;
	size_t n = 0;

	*p = (struct parser){ .defs = defs, .argc = argc, .argv = argv };
	/* '+': stop at the first argument that is none; ':': a missing value is not an unknown
	 * option. */
	if (leading) {
		*shorts++ = '+';
	}
	*shorts++ = ':';
	for (size_t i = 0; defs[i].name; i++) {
		if (defs[i].kind == OPTION_TITLE) {
			continue;
		}
		assert(n < ROWS_MAX);
		p->longs[n] = (struct option){ defs[i].name,
					       option_wants_value(&defs[i]) ? required_argument
					       : defs[i].argument	    ? optional_argument
									    : no_argument,
					       NULL, FIRST_ROW + (int)i };
		snprintf(p->texts[n], sizeof(p->texts[n]), "--%s", defs[i].name);
		p->names[n] = p->texts[n];
		n++;
		if (defs[i].letter) {
			*shorts++ = defs[i].letter;
			if (defs[i].argument) {
				*shorts++ = ':';
			}
		}
	}
	optind = 0; /* glibc: start afresh */
	opterr = 0;
}

static enum options_result refuse_unknown(struct parser *p, const char *word)
{
	char name[64];
	const struct foreign *foreign;
	const char *nearest;

	if (is_letter(optopt) && strncmp(word, "--", 2) != 0) {
		say_usage("unknown option '-%c'; --help lists them", optopt);
		return OPTIONS_WRONG;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	if (optopt != 0) {
		say_usage("option '%s' takes no value", name);
		return OPTIONS_WRONG;
	}
	foreign = foreign_find(name);
	nearest = near_word(name, p->names);
	if (foreign && !foreign->tool) {
		say_usage("'%s' is gone: %s", name, foreign->answer);
	} else if (foreign) {
		say_usage("'%s' is an option of %s: %s", name, foreign->tool, foreign->answer);
	} else if (nearest) {
		say_usage("unknown option '%s'; did you mean '%s'?", name, nearest);
	} else {
		say_usage("unknown option '%s'; --help lists them", name);
	}
	return OPTIONS_WRONG;
}

static const struct option_def *find_row(const struct parser *p, int id)
{
	const struct option_def *def = p->defs;

	if (id >= FIRST_ROW) {
		return def + (id - FIRST_ROW);
	}
	while (def->letter != id) {
		def++;
	}
	return def;
}

static enum options_result next_row(struct parser *p, const struct option_def **ret,
				    const char **ret_value, int *ret_rest)
{
	int at = optind ? optind : 1;
	int id = getopt_long(p->argc, p->argv, p->shorts, p->longs, NULL);

	if (id == -1) {
		*ret_rest = optind;
		return OPTIONS_END;
	}
	if (id == '?') {
		return refuse_unknown(p, p->argv[optind > at ? optind - 1 : at]);
	}
	if (id == ':') {
		say_usage("option '%s' needs a value", p->argv[optind - 1]);
		return OPTIONS_WRONG;
	}
	*ret = find_row(p, id);
	*ret_value = optarg;
	return OPTIONS_ONE;
}

/* --- storing --------------------------------------------------------------------------------- */

static bool store_number(const struct option_def *def, uint64_t *field, const char *value)
{
	switch (def->kind) {
	case OPTION_NUMBER:
		return options_take_u64(def->name, value, field);
	case OPTION_COUNT:
		return (options_parse_u64(value, field) && *field > 0) ||
		       options_refuse(def->name, value, "a number above 0");
	default:
		return (options_parse_time(value, field) && *field > 0) ||
		       options_refuse(
			       def->name, value,
			       "a time above 0, and up to a year, such as 10s, 500ms or 5min");
	}
}

static bool store_item(struct strings *field, const char *value)
{
	bool stored = strings_add(field, value, strlen(value));

	if (!stored) {
		say_usage("out of memory");
	}
	return stored;
}

static bool store(const struct option_def *def, void *options, const char *value)
{
	void *field = (char *)options + def->at;

	switch (def->kind) {
	case OPTION_TITLE:
	case OPTION_HELP:
		return false;
	case OPTION_FLAG:
		*(bool *)field = true;
		return true;
	case OPTION_TEXT:
		*(const char **)field = value;
		return true;
	case OPTION_LIST:
		return options_take_list(field, def->name, value);
	case OPTION_ITEM:
		return store_item(field, value);
	case OPTION_NUMBER:
	case OPTION_COUNT:
	case OPTION_TIME:
		return store_number(def, field, value);
	case OPTION_FIELD:
		break;
	}
	return def->take(field, value);
}

enum options_result options_read(const struct option_def *defs, bool leading, int argc, char **argv,
				 void *options, int *ret_rest)
{
	const struct option_def *def;
	enum options_result result;
	struct parser parser;
	const char *value;

	begin(&parser, defs, leading, argc, argv);
	*ret_rest = argc;
	while ((result = next_row(&parser, &def, &value, ret_rest)) == OPTIONS_ONE) {
		if (def->kind == OPTION_HELP) {
			return OPTIONS_HELP;
		}
		if (!store(def, options, value)) {
			return OPTIONS_WRONG;
		}
	}
	return result;
}

/* --- help ------------------------------------------------------------------------------------ */

/* Lines after the first begin where the first does. */
static void print_wrapped(const char *help)
{
	CLEAN_BUF struct buf b = { 0 };
	const char *line;

	text_wrap(&b, help, HELP_WIDTH - HELP_INDENT);
	for (line = buf_string(&b); *line; line = strchrnul(line, '\n') + 1) {
		printf("%*s%.*s\n", line > buf_string(&b) ? HELP_INDENT : 0, "",
		       (int)strcspn(line, "\n"), line);
	}
}

void options_print_help(const struct option_def *defs)
{
	for (; defs->name; defs++) {
		char head[64];

		if (defs->kind == OPTION_TITLE) {
			printf("%s\n", defs->help);
		}
		if (defs->kind == OPTION_TITLE || !defs->help) {
			continue;
		}
		snprintf(head, sizeof(head), "%c%c%s --%s%s%s", defs->letter ? '-' : ' ',
			 defs->letter ? defs->letter : ' ', defs->letter ? "," : " ", defs->name,
			 option_wants_value(defs) ? " " : "", defs->argument ? defs->argument : "");
		printf("  %-26s  ", head);
		print_wrapped(defs->help);
	}
}

/* --- values ---------------------------------------------------------------------------------- */

void strings_deinit(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->items[i]);
	}
	free(s->items);
	memset(s, 0, sizeof(*s));
}

bool strings_add(struct strings *s, const char *text, size_t n)
{
	char **items = realloc(s->items, (s->n + 2) * sizeof(*items));

	if (!items) {
		return false;
	}
	s->items = items;
	items[s->n] = strndup(text, n);
	if (!items[s->n]) {
		return false;
	}
	items[++s->n] = NULL;
	return true;
}

bool strings_add_list(struct strings *s, const char *list)
{
	if (strncmp(list, "regex:", 6) == 0) {
		return strings_add(s, list, strlen(list));
	}
	while (*list) {
		size_t length = strcspn(list, ","), before = strspn(list, " \t\n"), n = length;

		while (n > before && strchr(" \t\n", list[n - 1])) {
			n--;
		}
		if (n > before && !strings_add(s, list + before, n - before)) {
			return false;
		}
		list += length + (list[length] == ',');
	}
	return true;
}

const char *const *strings_items(const struct strings *s)
{
	return (const char *const *)s->items;
}

bool options_parse_u64(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-')) {
		return false;
	}
	*ret = value;
	return true;
}

bool options_take_u64(const char *name, const char *text, uint64_t *ret)
{
	bool is_number = options_parse_u64(text, ret);

	if (!is_number) {
		say_usage("--%s: '%s' is not a whole number from 0 to 2^64 - 1", name, text);
	}
	return is_number;
}

bool options_parse_time(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1e9 },   { "s", 1e9 },    { "ms", 1e6 },  { "us", 1e3 },
		      { "m", 6e10 }, { "min", 6e10 }, { "h", 3.6e12 } };
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
		double ns = value * units[i].ns;

		/* A year is enough, and "nan" compares false. */
		if (strcmp(end, units[i].name) == 0 && ns >= 0 && ns <= 365.0 * 86400 * 1e9) {
			*ret_ns = (uint64_t)llround(ns);
			return true;
		}
	}
	return false;
}

bool options_take_wait(const char *value, bool *no_wait, uint64_t *timeout_ns)
{
	bool good = options_parse_time(value, timeout_ns);

	*no_wait = good && *timeout_ns == 0;
	return good || options_refuse("wait", value, "a time up to a year, such as 30s, 5min or 0");
}

bool options_refuse(const char *name, const char *value, const char *wants)
{
	say_usage("--%s: '%s' is not %s", name, value, wants);
	return false;
}

bool options_take_number(const char *name, const char *text, uint64_t min, uint64_t max,
			 uint64_t *ret)
{
	bool good = options_parse_u64(text, ret) && *ret >= min && *ret <= max;

	if (!good) {
		say_usage("--%s wants a number from %llu to %llu, not '%s'", name,
			  (unsigned long long)min, (unsigned long long)max, text);
	}
	return good;
}

bool options_take_list(struct strings *list, const char *name, const char *value)
{
	if (value[strspn(value, ",")] == '\0') {
		return options_refuse(name, value,
				      "a list of names; leave the option out for its default");
	}
	if (!strings_add_list(list, value)) {
		say_usage("out of memory");
		return false;
	}
	return true;
}
