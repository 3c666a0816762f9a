/* SPDX-License-Identifier: Apache-2.0 */

/* "run": the default verb. Reads the options and finds the program; run.c has the loop. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/say.h"
#include "client/cli/sinks.h"
#include "client/cli/torch.h"
#include "proto/base/near.h"

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), n_suffix = strlen(suffix);

	return n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

/* Refuses a file that is no program. True: the message was printed. */
static bool refuse_file(const char *name)
{
	if (ends_with(name, ".gpuctr")) {
		say_usage(
			"%s is a capture file and no program: `gpuctr-client report %s` shows it, "
			"and `gpuctr-client gpuctr-replay %s` plays a recording",
			name, name, name);
	} else if (ends_with(name, ".py")) {
		say_usage("%s is a script, and Python runs it: gpuctr-client python3 %s", name,
			  name);
	} else {
		return false;
	}
	return true;
}

static int refuse_program(const struct verb *const *verbs, const struct run_options *o, int error)
{
	const char *names[10] = { NULL };

	for (size_t i = 0, n = 0; verbs[i] && n < 9; i++) {
		names[n++] = verbs[i]->name;
	}
	if (refuse_file(o->command[0])) {
		return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	if (error != ENOENT) {
		say_usage("%s: cannot be run: %s", o->command[0], strerror(error));
		return EXIT_NOT_EXEC;
	}
	if (verb_find(verbs, o->command[0])) {
		say_usage("%s: no such program; a verb stands first, and its options behind it: "
			  "gpuctr-client %s",
			  o->command[0], o->command[0]);
	} else if (near_word(o->command[0], names)) {
		say_usage("%s: no such program; did you mean 'gpuctr-client %s'?", o->command[0],
			  near_word(o->command[0], names));
	} else {
		say_usage("%s: no such program, nor a verb ('gpuctr-client --help' lists them)",
			  o->command[0]);
	}
	return EXIT_NOT_FOUND;
}

/* Makes all checks that are possible before the client waits for a GPU. */
static int run_checked(const struct verb *const *verbs, const struct run_options *o)
{
	int err, status = EXIT_REFUSED;
	char *path = child_find(o->command[0], &err);

	if (!path) {
		return refuse_program(verbs, o, err);
	}
	if (sinks_check(o) && (!o->torch || torch_prepare(o->torch, o->agent))) {
		status = run_capture(o, path);
	}
	free(path);
	return status;
}

static int exec_run(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o;
	int status = run_options_read(&o, &verb_run, argc, argv, run_options_check);

	if (status < 0) {
		status = run_checked(verbs, &o);
	}
	run_options_deinit(&o);
	return status;
}

const struct verb verb_run = {
	.name = "run",
	.usage = "[run] [OPTION...] [--] PROGRAM [ARG...]",
	.summary = "run PROGRAM and measure its kernels",
	.details = "Exit status: that of PROGRAM, 128 + N when signal N ended it; 125 when it was "
		   "not started, 126 when\n"
		   "it cannot be run, 127 when there is no such program.\n",
	.examples = "  gpuctr-client python net.py\n"
		    "  gpuctr-client --metrics dram__bytes_read.sum -o run.gpuctr -f -- ./program "
		    "--its-option\n"
		    "  gpuctr-client -k regex:gemm -c 10 python net.py\n",
	.takes = "PROGRAM",
	.options = run_option_defs,
	.bit = VERB_RUN,
	.runs = true,
	.exec = exec_run,
};
