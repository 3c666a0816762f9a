/* SPDX-License-Identifier: Apache-2.0 */

/* gpuctr-client: the verbs, on the public API of libgpuctr.
 *
 * The first argument is a verb, or else everything belongs to "run". Modules, top down:
 *
 *	main ─► verb_run ─► run, run_capture ─► child, progress, sinks ─► stream ─► jsonl, out
 *	     ├► verb_* ─► request                                      ├► summary ─► client/report
 *	     ├► verb_report ─► summary, client/report                  │
 *	     ├► verb_export ─► client/report, outfile                  └► client/store
 *	     └► verb_completion ─► completion
 *
 * say.c alone writes to stderr; buf and text carry and escape what is written anywhere. */

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/foreign.h"
#include "client/cli/say.h"
#include "client/cli/verb.h"
#include "proto/base/standard.h"

/* The first verb is the default. */
static const struct verb *const verbs[] = { &verb_run,	  &verb_capture, &verb_standby,
					    &verb_permit, &verb_metrics, &verb_report,
					    &verb_export, &verb_merge,	 &verb_status,
					    &verb_job,	  &verb_version, &verb_completion,
					    &verb_help,	  &verb_follow,	 NULL };

static void say_foreign(const char *word, const struct foreign *foreign)
{
	if (foreign->tool) {
		say_usage("'%s' is a verb of %s: %s", word, foreign->tool, foreign->answer);
	} else {
		say_usage("'%s' is gone: %s", word, foreign->answer);
	}
}

int main(int argc, char **argv)
{
	const struct verb *verb;
	char why[128];
	int status, r;

	standard_hold();
	/* For the widths of characters, whatever the user's locale: names are UTF-8. */
	setlocale(LC_CTYPE, "C.UTF-8");
	if (argc == 1) {
		verb_print_first_use();
		return EXIT_VERB_USAGE;
	}
	verb = verb_find(verbs, argv[1]);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		verb = &verb_version;
	} else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		argc = 1;
		verb = &verb_help;
	} else if (verb) {
		argc--;
		argv++;
	} else if (foreign_find(argv[1]) && argv[1][0] != '-') {
		say_foreign(argv[1], foreign_find(argv[1]));
		return EXIT_VERB_USAGE;
	} else {
		verb = verbs[0];
	}
	status = verb->exec(verbs, argc, argv);
	r = status == 0 ? standard_flush() : 0;
	if (r < 0) { /* not if the reader is gone: SIGPIPE ends us then */
		snprintf(why, sizeof(why), "standard output: %s", strerror(-r));
		say_error("output", why, "Let it be where there is room.");
		status = EXIT_VERB_FAILED;
	}
	return status;
}
