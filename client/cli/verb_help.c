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

void verb_print_first_use(void)
{
	printf("gpuctr-client measures hardware counters of every GPU kernel of a program, without "
	       "privilege.\n\n"
	       "  gpuctr-client python3 net.py                runs it, then shows a table of its "
	       "kernels\n"
	       "  gpuctr-client -o run.gpuctr python3 net.py  keeps the records too\n"
	       "  gpuctr-client report run.gpuctr --by op     shows these, by PyTorch's operators\n"
	       "  gpuctr-client standby python3 train.py      runs it unmeasured, until somebody "
	       "captures:\n"
	       "  gpuctr-client capture --all --duration 10s  measures what runs in standby\n"
	       "  gpuctr-client metrics bandwidth             finds what can be counted\n\n"
	       "`gpuctr-client --help` lists all verbs and options; gpuctr-client(1) explains "
	       "them.\n");
}

static void print_overview(const struct verb *const *verbs)
{
	printf("usage: gpuctr-client VERB [OPTION...] [ARG...], or with the options of run:\n"
	       "       gpuctr-client [OPTION...] [--] PROGRAM [ARG...]\n");
	for (size_t i = 0; verbs[i]; i++) {
		if (!verbs[i]->unlisted) {
			printf("  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
		}
	}
	printf("`gpuctr-client VERB --help` explains a verb. Options of run:\n");
	options_print_help(verbs[0]->options, verbs[0]->bit);
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
		if (!verbs[i]->unlisted) {
			buf_printf(&all, "%s%s", i ? ", " : "", verbs[i]->name);
		}
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
	.unlisted = true,
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
	.unlisted = true,
	.usage = "version",
	.summary = "print the version",
	.options = no_options,
	.exec = exec_version,
};
