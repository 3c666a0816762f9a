/* SPDX-License-Identifier: Apache-2.0 */

/* getopt_long() parses the options. Our messages replace getopt_long()'s: they name the option with
 * the nearest name, or what we have in place of another tool's option. */

#include "client/cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/foreign.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/near.h"

enum { ROWS_MAX = 80, NAME_MAX_BYTES = 32 };

struct parser {
	const struct options_line *line;
	struct option longs[ROWS_MAX + 1];
	char shorts[2 * ROWS_MAX + 3];
	const char *names[ROWS_MAX + 1]; /* "--name" of each option, to find the nearest */
	char texts[ROWS_MAX][NAME_MAX_BYTES];
};

/* getopt_long() returns the letter of a short option, and FIRST_ROW + the row of a long one. */
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

bool option_is_of(const struct option_def *def, unsigned verb)
{
	return def->kind != OPTION_TITLE && (def->verbs == 0 || (def->verbs & verb) != 0);
}

static const struct option_def *find_named(const struct option_def *defs, const char *name)
{
	while (defs->name && strcmp(defs->name, name) != 0) {
		defs++;
	}
	return defs->name ? defs : NULL;
}

/* Adds an option under its own name, or under the name that another tool gives it. */
static void add_long(struct parser *p, size_t n, const char *name, const struct option_def *def)
{
	assert(n < ROWS_MAX);
	p->longs[n] = (struct option){ name,
				       option_wants_value(def) ? required_argument
				       : def->argument	       ? optional_argument
							       : no_argument,
				       NULL, FIRST_ROW + (int)(def - p->line->defs) };
}

static size_t add_same(struct parser *p, size_t n)
{
	for (const struct foreign_same *same = foreign_same; same->word; same++) {
		const struct option_def *def = find_named(p->line->defs, same->ours);

		if (def && option_is_of(def, p->line->verb)) {
			add_long(p, n++, same->word, def);
		}
	}
	return n;
}

static void begin(struct parser *p, const struct options_line *line)
{
	const struct option_def *defs = line->defs;
	char *shorts = p->shorts;
	size_t n = 0;

	*p = (struct parser){ .line = line };
	/* '+': stop at the first argument that is no option; ':': report a missing value as ':',
	 * not as an unknown option. */
	if (line->leading) {
		*shorts++ = '+';
	}
	*shorts++ = ':';
	for (; defs->name; defs++) {
		if (!option_is_of(defs, line->verb)) {
			continue;
		}
		add_long(p, n, defs->name, defs);
		snprintf(p->texts[n], sizeof(p->texts[n]), "--%s", defs->name);
		p->names[n] = p->texts[n];
		n++;
		if (defs->letter) {
			*shorts++ = defs->letter;
			if (defs->argument) {
				*shorts++ = ':';
			}
		}
	}
	add_same(p, n);
	optind = 0; /* glibc: start afresh */
	opterr = 0;
}

/* Finds an option that another verb of the table has. */
static const struct option_def *find_others(const struct parser *p, const char *name)
{
	const struct option_def *def =
		strncmp(name, "--", 2) == 0 ? find_named(p->line->defs, name + 2) : NULL;

	return def && def->help && *def->name ? def : NULL;
}

static enum options_result refuse_unknown(struct parser *p, const char *word)
{
	bool is_short = is_letter(optopt) && strncmp(word, "--", 2) != 0;
	char name[64];
	const struct foreign *foreign;
	const char *nearest;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	if (is_short) {
		snprintf(name, sizeof(name), "-%c", optopt);
	} else if (optopt != 0) {
		say_usage("option '%s' takes no value", name);
		return OPTIONS_WRONG;
	}
	foreign = foreign_find(name);
	nearest = is_short ? NULL : near_word(name, p->names);
	if (foreign && !foreign->tool) {
		say_usage("'%s' is gone: %s", name, foreign->answer);
	} else if (foreign) {
		say_usage("'%s' is an option of %s: %s", name, foreign->tool, foreign->answer);
	} else if (find_others(p, name)) {
		say_usage("'%s' is an option of another verb; 'gpuctr-client help VERB' lists a "
			  "verb's",
			  name);
	} else if (nearest) {
		say_usage("unknown option '%s'; did you mean '%s'?", name, nearest);
	} else {
		say_usage("unknown option '%s'; --help lists them", name);
	}
	return OPTIONS_WRONG;
}

static const struct option_def *find_row(const struct parser *p, int id)
{
	const struct option_def *def = p->line->defs;

	if (id >= FIRST_ROW) {
		return def + (id - FIRST_ROW);
	}
	while (def->letter != id || !option_is_of(def, p->line->verb)) {
		def++;
	}
	return def;
}

static enum options_result next_row(struct parser *p, const struct option_def **ret,
				    const char **ret_value, int *ret_rest)
{
	int at = optind ? optind : 1;
	int id = getopt_long(p->line->argc, p->line->argv, p->shorts, p->longs, NULL);

	if (id == -1) {
		*ret_rest = optind;
		return OPTIONS_END;
	}
	if (id == '?') {
		return refuse_unknown(p, p->line->argv[optind > at ? optind - 1 : at]);
	}
	if (id == ':') {
		say_usage("option '%s' needs a value", p->line->argv[optind - 1]);
		return OPTIONS_WRONG;
	}
	*ret = find_row(p, id);
	*ret_value = optarg;
	return OPTIONS_ONE;
}

/* --- storing --------------------------------------------------------------------------------- */

static bool store_number(const struct option_def *def, uint64_t *field, const char *value)
{
	if (def->kind == OPTION_COUNT) {
		return (options_parse_u64(value, field) && *field > 0) ||
		       options_refuse(def->name, value, "a number above 0");
	}
	return (options_parse_time(value, field) && *field > 0) ||
	       options_refuse(def->name, value,
			      "a time above 0, and up to a year, such as 10s, 500ms or 5min");
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
	case OPTION_COUNT:
	case OPTION_TIME:
		return store_number(def, field, value);
	case OPTION_FIELD:
		break;
	}
	return def->take(field, value);
}

uint64_t options_bit(const struct option_def *defs, const char *name)
{
	const struct option_def *def = find_named(defs, name);

	assert(def && def - defs < 64);
	return UINT64_C(1) << (def - defs);
}

enum options_result options_read(const struct options_line *line, void *options,
				 uint64_t *ret_given, int *ret_rest)
{
	const struct option_def *def;
	enum options_result result;
	struct parser parser;
	uint64_t given = 0;
	const char *value;

	begin(&parser, line);
	*ret_rest = line->argc;
	while ((result = next_row(&parser, &def, &value, ret_rest)) == OPTIONS_ONE) {
		if (def->kind == OPTION_HELP) {
			return OPTIONS_HELP;
		}
		if (!store(def, options, value)) {
			return OPTIONS_WRONG;
		}
		given |= options_bit(line->defs, def->name);
	}
	if (ret_given) {
		*ret_given = given;
	}
	return result;
}

/* --- rules: what options want of each other, in place of a check for each ----------------------
 */

/* Finds the first of the names that was given. names: separated by spaces. False: none was. */
static bool find_given(const struct option_def *defs, const char *names, uint64_t given,
		       char *ret_name)
{
	for (; *names; names += strcspn(names, " "), names += strspn(names, " ")) {
		snprintf(ret_name, NAME_MAX_BYTES, "%.*s", (int)strcspn(names, " "), names);
		if ((given & options_bit(defs, ret_name)) != 0) {
			return true;
		}
	}
	return false;
}

static bool keeps_rule(const struct option_def *defs, const struct option_rule *rule,
		       uint64_t given, unsigned modes)
{
	char other[NAME_MAX_BYTES];

	if ((given & options_bit(defs, rule->option)) == 0) {
		return true;
	}
	if (rule->excludes && find_given(defs, rule->excludes, given, other)) {
		say_usage("--%s and --%s: %s; leave one out", rule->option, other, rule->why);
		return false;
	}
	if ((rule->needs && !find_given(defs, rule->needs, given, other)) ||
	    (rule->modes != 0 && (rule->modes & modes) == 0)) {
		say_usage("--%s %s", rule->option, rule->why);
		return false;
	}
	return true;
}

bool options_keep_rules(const struct option_def *defs, const struct option_rule *rules,
			uint64_t given, unsigned modes)
{
	for (; rules->option; rules++) {
		if (!keeps_rule(defs, rules, given, modes)) {
			return false;
		}
	}
	return true;
}

/* --- help ------------------------------------------------------------------------------------ */

/* Prints a help text, wrapped. Further lines begin in the column of the first. */
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

void options_print_help(const struct option_def *defs, unsigned verb)
{
	for (; defs->name; defs++) {
		char head[64];

		if (defs->kind == OPTION_TITLE) {
			printf("%s\n", defs->help);
		}
		if (!option_is_of(defs, verb) || !defs->help) {
			continue;
		}
		snprintf(head, sizeof(head), "%c%c%s --%s%s%s", defs->letter ? '-' : ' ',
			 defs->letter ? defs->letter : ' ', defs->letter ? "," : " ", defs->name,
			 option_wants_value(defs) ? " " : "", defs->argument ? defs->argument : "");
		printf("  %-26s  ", head);
		print_wrapped(defs->help);
	}
}
