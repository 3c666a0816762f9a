/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/say.h"

const struct verb *verb_find(const struct verb *const *verbs, const char *name)
{
	for (; *verbs; verbs++) {
		if (strcmp((*verbs)->name, name) == 0) {
			return *verbs;
		}
	}
	return NULL;
}

void verb_print_help(const struct verb *verb)
{
	size_t n = strlen(verb->summary);

	printf("usage: gpuctr-client %s\n\n%s%s\n", verb->usage, verb->summary,
	       n > 0 && verb->summary[n - 1] == '.' ? "" : ".");
	if (verb->options[0].name) {
		printf("\n");
		options_print_help(verb->options, verb->bit);
	}
	if (verb->details) {
		printf("\n%s", verb->details);
	}
	if (verb->examples) {
		printf("\nexamples:\n%s", verb->examples);
	}
}

int verb_usage(const struct verb *verb)
{
	return verb->runs ? EXIT_REFUSED : EXIT_VERB_USAGE;
}

int verb_read_given(const struct verb *verb, int argc, char **argv, void *options,
		    uint64_t *ret_given, int *ret_rest)
{
	const struct options_line line = { .defs = verb->options,
					   .verb = verb->bit,
					   .leading = verb->runs,
					   .argc = argc,
					   .argv = argv };

	switch (options_read(&line, options, ret_given, ret_rest)) {
	case OPTIONS_END:
		break;
	case OPTIONS_HELP:
		verb_print_help(verb);
		return 0;
	default:
		return verb_usage(verb);
	}
	if (verb->rules && !options_keep_rules(verb->options, verb->rules, *ret_given, 0)) {
		return verb_usage(verb);
	}
	if (!verb->takes && !verb->runs && *ret_rest < argc) {
		say_usage("%s takes no argument '%s'", verb->name, argv[*ret_rest]);
		return verb_usage(verb);
	}
	return -1;
}

int verb_read(const struct verb *verb, int argc, char **argv, void *options, int *ret_rest)
{
	uint64_t given;

	return verb_read_given(verb, argc, argv, options, &given, ret_rest);
}
