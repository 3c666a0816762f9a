/* SPDX-License-Identifier: Apache-2.0 */

/* "permit": runs another profiler under a lease. This file makes all checks that are possible
 * before the client waits; run_permit.c has the rest. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/say.h"

static bool take_inject(void *options, const char *value)
{
	(void)value;
	((struct run_options *)options)->permit = GPUCTR_PERMIT_BY_INJECTION;
	return true;
}

static const struct option_def defs[] = {
	{ 0, "devices", "LIST", "GPUs by index or UUID (default: what CUDA_VISIBLE_DEVICES leaves)",
	  OPTION_AT(LIST, struct run_options, devices) },
	{ 0, "wait", "TIME", "wait for the GPUs no longer than this; 0: not at all",
	  OPTION_TAKEN(launch_filter_take_wait, struct run_options, filter) },
	{ 0, "inject", NULL, "by CUDA_INJECTION64_PATH in place of LD_PRELOAD",
	  OPTION_WHOLE(take_inject) },
	{ 'q', "quiet", NULL, "say nothing but errors",
	  OPTION_AT(FLAG, struct run_options, quiet) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct run_options, socket) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so; libgpuctr-permit.so is beside it",
	  OPTION_AT(TEXT, struct run_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* "ncu --set full ./a.out": the text that clients in the queue see. */
static void describe_command(char *const *command, struct buf *b)
{
	for (size_t i = 0; command[i]; i++) {
		buf_printf(b, "%s%s", i > 0 ? " " : "", command[i]);
	}
}

static int check_and_run(struct run_options *o)
{
	CLEAN_BUF struct buf command = { 0 };
	int status;
	char *path;

	if (!o->command[0]) {
		say_usage("no command given: gpuctr-client permit -- COMMAND [ARG...]");
		return EXIT_REFUSED;
	}
	if (o->permit == GPUCTR_PERMIT_BY_INJECTION && getenv("CUDA_INJECTION64_PATH")) {
		say_usage("--inject: CUDA_INJECTION64_PATH is set already: leave out --inject");
		return EXIT_REFUSED;
	}
	path = child_find_or_say(o->command[0], &status);
	if (!path) {
		return status;
	}
	describe_command(o->command, &command);
	o->program = buf_string(&command);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	status = run_capture(o, path);
	free(path);
	return status;
}

static int exec_permit(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o = { .permit = GPUCTR_PERMIT_BY_PRELOAD,
				 .ready_fd = -1,
				 .until_fd = -1 };
	int rest, status = verb_read(&verb_permit, argc, argv, &o, &rest);

	if (status < 0) {
		o.command = argv + rest;
		status = check_and_run(&o);
	}
	run_options_deinit(&o);
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
