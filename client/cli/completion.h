/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/verb.h"

/* What can stand where on the command line of gpuctr-client, for shells. */

/* A command line up to the word that is being typed, and what is found to stand there. */
struct completion {
	const struct verb *const *verbs;
	char **words; /* behind "gpuctr-client"; the last one is being typed */
	size_t n;
	bool split; /* the shell has split "--option=value" at its '=' */

	const char *socket, *chip; /* that stand there already; NULL: none */
	const char *capture; /* the first file of a verb that reads captures; NULL: none yet */
	const char *given;   /* of the last word: what candidates have in common before it is
				completed ("--metrics=a,") */
	size_t n_given;
	const char *typed; /* and behind that */
	const char *list;  /* where the typed part is one of a list: the whole list */
};

/* On stdout: a candidate a line, with a tab and a description behind it where there is one, and at
 * last what the shell adds of its own: ":program N" (word N and the following are a command of
 * their own), ":files", ":more" (no space behind a candidate) or ":none". */
void completion_print(struct completion *c);

/* --- completion_values.c */

/* Prints candidates for the value of an option; what the shell adds. */
const char *completion_of_option(const struct completion *c, const struct option_def *def);
/* The same for an argument of a verb that is no option. */
const char *completion_of_argument(const struct completion *c, const struct verb *verb);

/* --- completion_offer.c */

/* Prints one candidate, if it begins with what was typed and means nothing to a shell. */
void completion_offer(const struct completion *c, const char *text, const char *description);
