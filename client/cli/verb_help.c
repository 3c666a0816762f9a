/* SPDX-License-Identifier: Apache-2.0 */

/* "help" and "version". */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/say.h"
#include "proto/base/buf.h"
#include "proto/base/near.h"

static const struct option_def no_options[] = { OPTION_END_ROW };

static void print_overview(const struct verb *const *verbs)
{
	printf("usage: gpuctr-client [OPTION...] [--] PROGRAM [ARG...]\n"
	       "       gpuctr-client VERB [ARG...]\n\n"
	       "Hardware counters of every GPU kernel of a program, without privilege.\n\n");
	for (size_t i = 0; verbs[i]; i++) {
		printf("  %-9s %s%s\n", verbs[i]->name, verbs[i]->summary,
		       i == 0 ? " (the default)" : "");
	}
	printf("\noptions of run:\n");
	options_print_help(verbs[0]->options);
	printf("\nexamples:\n%s\n"
	       "`gpuctr-client help VERB` has the options of a verb and examples; "
	       "gpuctr-client(1) has the\ndetails.\n",
	       verbs[0]->examples);
}

static int exec_help(const struct verb *const *verbs, int argc, char **argv)
{
	const char *names[32] = { NULL };
	const char *nearest;
	CLEAN_BUF struct buf all = { 0 };

	if (argc < 2) {
		print_overview(verbs);
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		verb_print_help(&verb_help);
		return 0;
	}
	if (verb_find(verbs, argv[1])) {
		verb_print_help(verb_find(verbs, argv[1]));
		return 0;
	}
	for (size_t i = 0; verbs[i] && i < 31; i++) {
		names[i] = verbs[i]->name;
		buf_printf(&all, "%s%s", i ? ", " : "", verbs[i]->name);
	}
	nearest = near_word(argv[1], names);
	if (nearest) {
		say_usage("no verb '%s'; did you mean '%s'?", argv[1], nearest);
	} else {
		say_usage("no verb '%s'; there are %s", argv[1], buf_string(&all));
	}
	return EXIT_VERB_USAGE;
}

const struct verb verb_help = {
	.name = "help",
	.usage = "help [VERB]",
	.summary = "explain a verb",
	.takes = "VERB",
	.options = no_options,
	.exec = exec_help,
};

static int exec_version(const struct verb *const *verbs, int argc, char **argv)
{
	printf("gpuctr-client %s\n", gpuctr_version());
	return 0;
}

const struct verb verb_version = {
	.name = "version",
	.usage = "version",
	.summary = "print the version",
	.options = no_options,
	.exec = exec_version,
};
