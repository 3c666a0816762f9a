/* SPDX-License-Identifier: Apache-2.0 */

/* "capture" and "follow" measure programs that others start; run.c has the loop.
 *
 * "capture" measures programs that run already. "follow" measures programs that a scheduler starts;
 * only the plugin in client/slurm uses it. Two descriptors connect follow with its caller. When
 * the lease is granted, follow writes the variables that make a program part of the capture to
 * --ready-fd, each "NAME=value" with its NUL, and closes --ready-fd. If follow closes --ready-fd
 * without writing variables, nothing will be measured, and stderr has the reason. The capture ends
 * at the end of file of --until-fd: when all processes that hold the other side have ended. follow
 * ignores the signals that end the programs, and ends after the programs. */

#include "client/cli/verb.h"

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/sinks.h"
#include "client/cli/slurm.h"

static int exec_capture(const struct verb *const *verbs, int argc, char **argv)
{
	const struct verb *verb = verb_find(verbs, argv[0]);
	bool follows = verb == &verb_follow;
	struct run_options o;
	int status = run_options_read(&o, verb, argc, argv,
				      follows ? follow_options_check : capture_options_check);

	if (status < 0 && !(slurm_is_meant(&o) && slurm_capture(&o, verbs, argc, argv, &status))) {
		status = sinks_check(&o) ? run_capture(&o, NULL) : EXIT_REFUSED;
	}
	run_options_deinit(&o);
	return status;
}

const struct verb verb_capture = {
	.name = "capture",
	.usage = "capture --pid LIST|--program GLOB|--job LIST|--all|--timeline [OPTION...]",
	.summary = "measure programs in standby, which run already and run on",
	.details =
		"Exit status: 0 when it ended as asked; 125 when nothing matched, it was refused "
		"or ended by itself.\n",
	.examples = "  gpuctr-client capture --program python --duration 5s\n"
		    "  gpuctr-client capture --all --steps 2 --step cudaProfilerStart\n"
		    "  gpuctr-client capture --job 4711 --duration 5s -o rank%r.gpuctr\n",
	.options = run_option_defs,
	.bit = VERB_CAPTURE,
	.runs = true,
	.exec = exec_capture,
};

const struct verb verb_follow = {
	.name = "follow",
	.unlisted = true,
	.usage = "follow --ready-fd N --until-fd N [OPTION...] [PROGRAM [ARG...]]",
	.summary = "measure what a scheduler's plugin starts",
	.details = "For the plugin of Slurm; people want run, standby and capture.\n",
	.takes = "PROGRAM",
	.options = run_option_defs,
	.bit = VERB_FOLLOW,
	.runs = true,
	.exec = exec_capture,
};
