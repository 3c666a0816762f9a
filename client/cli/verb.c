/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

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
		options_print_help(verb->options);
	}
	if (verb->details) {
		printf("\n%s", verb->details);
	}
	if (verb->examples) {
		printf("\nexamples:\n%s", verb->examples);
	}
}
