/* SPDX-License-Identifier: Apache-2.0 */

/* "completion": prints the scripts that shells load, and candidates for these scripts. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/completion.h"
#include "client/cli/say.h"

/* Made from client/cli/completion by the build. */
extern const char *const completion_bash[];
extern const char *const completion_zsh[];
extern const char *const completion_fish[];

static const struct {
	const char *shell;
	const char *const *lines;
} scripts[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};

static const struct option_def defs[] = { OPTION_HELP_ROW, OPTION_END_ROW };

static int print_words(const struct verb *const *verbs, char **words, int n)
{
	/* Messages are suppressed, because they would appear in the user's prompt. */
	if (!freopen("/dev/null", "w", stderr)) {
		close(STDERR_FILENO);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	completion_print(verbs, words, (size_t)n);
	return 0;
}

static int print_script(const char *shell)
{
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (strcmp(scripts[i].shell, shell) == 0) {
			for (const char *const *line = scripts[i].lines; *line; line++) {
				fputs(*line, stdout);
			}
			return 0;
		}
	}
	say_usage("completion: there is none for '%s'; bash, zsh and fish have one", shell);
	return EXIT_VERB_USAGE;
}

static int exec_completion(const struct verb *const *verbs, int argc, char **argv)
{
	int rest, status;

	/* The words behind "--" are what the user is typing, and no options for this verb. */
	if (argc > 2 && strcmp(argv[1], "words") == 0 && strcmp(argv[2], "--") == 0) {
		return print_words(verbs, argv + 3, argc - 3);
	}
	status = verb_read(&verb_completion, argc, argv, NULL, &rest);
	if (status >= 0) {
		return status;
	}
	if (argc - rest != 1) {
		say_usage("completion: of which shell? bash, zsh or fish");
		return EXIT_VERB_USAGE;
	}
	return print_script(argv[rest]);
}

const struct verb verb_completion = {
	.name = "completion",
	.unlisted = true,
	.usage = "completion bash|zsh|fish",
	.summary = "print what a shell needs to complete command lines",
	.details = "Where the package or `meson install` has put it into place, nothing is to be "
		   "done. Metrics are\n"
		   "those of the daemon, if it answers within two seconds.\n",
	.examples = "  eval \"$(gpuctr-client completion bash)\"      # in ~/.bashrc\n"
		    "  gpuctr-client completion fish > gpuctr-client.fish\n",
	.takes = "SHELL",
	.options = defs,
	.exec = exec_completion,
};
