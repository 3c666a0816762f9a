/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the value of an option goes: a field of the caller's struct. */
enum option_kind {
	OPTION_TITLE, /* no option: a heading in --help */
	OPTION_HELP,  /* no field: options_read() returns OPTIONS_HELP */
	OPTION_FLAG,  /* bool: becomes true */
	OPTION_TEXT,  /* const char *: borrowed */
	OPTION_LIST,  /* struct strings: the names between commas, one at least */
	OPTION_ITEM,  /* struct strings: the whole value */
	OPTION_COUNT, /* uint64_t: above 0 */
	OPTION_TIME,  /* uint64_t: nanoseconds, above 0 */
	OPTION_FIELD, /* any: take() sets the field */
};

/* One table for parsing, for --help, for completion and for "did you mean". */
struct option_def {
	char letter; /* of a short option; 0: none */
	const char *name;
	const char *argument; /* as --help shows it; NULL: takes none; "[=...]": may be left out */
	const char *help;     /* NULL: not shown; gpuctr-client(1) has all */
	enum option_kind kind;
	size_t at; /* offset of the field */
	/* Stores the value, which is NULL if none was given. False: the error was reported. */
	bool (*take)(void *field, const char *value);
	unsigned verbs; /* bits of the verbs of a shared table that have this option; 0: all */
};

/* The field of a row, as in { 'q', "quiet", NULL, "...", OPTION_AT(FLAG, struct x, quiet) } */
#define OPTION_AT(type, of, member) OPTION_##type, offsetof(of, member), NULL
#define OPTION_TAKEN(function, of, member) OPTION_FIELD, offsetof(of, member), function
/* The function gets the whole struct. */
#define OPTION_WHOLE(function) OPTION_FIELD, 0, function
#define OPTION_HELP_ROW                                          \
	{                                                        \
		'h', "help", NULL, NULL, OPTION_HELP, 0, NULL, 0 \
	}
#define OPTION_TITLE_ROW(title)                              \
	{                                                    \
		0, "", NULL, title, OPTION_TITLE, 0, NULL, 0 \
	}
#define OPTION_END_ROW                                       \
	{                                                    \
		0, NULL, NULL, NULL, OPTION_HELP, 0, NULL, 0 \
	}

enum options_result {
	OPTIONS_END,   /* *ret_rest is the index of the first argument that is no option */
	OPTIONS_ONE,   /* used inside options.c */
	OPTIONS_HELP,  /* --help was asked for */
	OPTIONS_WRONG, /* the message was printed */
};

/* A command line to read. */
struct options_line {
	const struct option_def *defs;
	unsigned verb; /* the bit of this verb in the table; 0: only one verb uses the table */
	bool leading;  /* options end at the first argument that is no option */
	int argc;
	char **argv;
};

/* Is the row an option of this verb? */
bool option_is_of(const struct option_def *def, unsigned verb);
/* Is the next word the option's value, unless a value follows a '='? */
bool option_wants_value(const struct option_def *def);

/* Stores the options of a command line in a struct, by the kinds of the table. Returns OPTIONS_END,
 * _HELP or _WRONG. ret_given: bits of the given options, see options_bit(); may be NULL. */
enum options_result options_read(const struct options_line *line, void *options,
				 uint64_t *ret_given, int *ret_rest);

/* Prints on stdout each option of the verb that has a help text. */
void options_print_help(const struct option_def *defs, unsigned verb);

/* The bit that stands for the option of this name in a set of given options. */
uint64_t options_bit(const struct option_def *defs, const char *name);

/* What an option requires of other options: their long names, separated by spaces. */
struct option_rule {
	const char *option;
	const char *needs;    /* one of these must be given; NULL: needs none */
	const char *excludes; /* none of these may be given; NULL: goes with all */
	unsigned modes;	      /* bits of the modes in which the option has a meaning; 0: all */
	const char *why;      /* end of the message: what is missing, or why the options conflict */
};

/* Do the given options keep the rules? A rule without an option ends the rules. modes: the bit of
 * the current mode. False: the message was printed. */
bool options_keep_rules(const struct option_def *defs, const struct option_rule *rules,
			uint64_t given, unsigned modes);

/* A growing list that owns its strings; items[n] is NULL. */
struct strings {
	char **items;
	size_t n;
};
void strings_deinit(struct strings *s);
bool strings_add(struct strings *s, const char *text, size_t n); /* false: out of memory */
/* Adds the parts between commas, without empty ones; "regex:..." is one part as it stands. */
bool strings_add_list(struct strings *s, const char *list);
const char *const *strings_items(const struct strings *s);

/* Parses a non-negative number. False: the text is none. */
bool options_parse_u64(const char *text, uint64_t *ret);
/* Parses the value of the option of this name. False: the error was reported. */
bool options_take_u64(const char *name, const char *text, uint64_t *ret);
/* The same for a number from min to max. */
bool options_take_number(const char *name, const char *text, uint64_t min, uint64_t max,
			 uint64_t *ret);
/* The same for a list of names between commas, which needs one name at least. */
bool options_take_list(struct strings *list, const char *name, const char *value);
/* Reports that the value is not what the option of this name wants; returns false. */
bool options_refuse(const char *name, const char *value, const char *wants);
/* Parses a time up to a year: a number with a unit (us, ms, s, m or min, h), or of seconds. */
bool options_parse_time(const char *text, uint64_t *ret_ns);
