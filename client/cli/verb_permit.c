/* SPDX-License-Identifier: Apache-2.0 */

/* "permit": runs another profiler under a lease. Checks here whatever can be refused before the
 * client waits; permit.c has the rest. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/permit.h"
#include "client/cli/say.h"

static bool take_wait(void *options, const char *value)
{
	struct permit_options *o = options;

	return options_take_wait(value, &o->no_wait, &o->timeout_ns);
}

static const struct option_def defs[] = {
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: what CUDA_VISIBLE_DEVICES leaves)",
	  OPTION_AT(LIST, struct permit_options, devices) },
	{ 0, "wait", "TIME", "wait for the GPUs no longer than this; 0: not at all",
	  OPTION_WHOLE(take_wait) },
	{ 0, "inject", NULL, "by CUDA_INJECTION64_PATH in place of LD_PRELOAD",
	  OPTION_AT(FLAG, struct permit_options, inject) },
	{ 'q', "quiet", NULL, "say nothing but errors",
	  OPTION_AT(FLAG, struct permit_options, quiet) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct permit_options, socket) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so; libgpuctr-permit.so is beside it",
	  OPTION_AT(TEXT, struct permit_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static int check_and_run(const struct permit_options *o)
{
	int error, status;
	char *path;

	if (!o->command[0]) {
		say_usage("no command given: gpuctr-client permit -- COMMAND [ARG...]");
		return EXIT_REFUSED;
	}
	if (o->inject && getenv("CUDA_INJECTION64_PATH")) {
		say_usage("--inject: CUDA_INJECTION64_PATH is set already: leave out --inject");
		return EXIT_REFUSED;
	}
	path = child_find(o->command[0], &error);
	if (!path) {
		say_usage("%s: %s", o->command[0],
			  error == ENOENT ? "no such program" : strerror(error));
		return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	status = permit_run(o, path);
	free(path);
	return status;
}

static int exec_permit(const struct verb *const *verbs, int argc, char **argv)
{
	struct permit_options o = { 0 };
	int rest, status = verb_read(&verb_permit, argc, argv, &o, &rest);

	if (status < 0) {
		o.command = argv + rest;
		status = check_and_run(&o);
	}
	strings_deinit(&o.devices);
	return status;
}

const struct verb verb_permit = {
	.name = "permit",
	.usage = "permit [OPTION...] [--] COMMAND [ARG...]",
	.summary = "run COMMAND, whose own profiler may use the counters",
	.details = "Waits for the GPUs like any capture, then COMMAND and what it starts may have "
		   "the\n"
		   "counters from the driver, by ncu, nsys, CUPTI or whatever asks, until COMMAND "
		   "ends.\n"
		   "Its output and exit status are its own; 125, 126 and 127 as for run.\n",
	.examples = "  gpuctr-client permit true\n",
	.takes = "PROGRAM",
	.options = defs,
	.runs = true,
	.exec = exec_permit,
};
