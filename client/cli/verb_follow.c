/* SPDX-License-Identifier: Apache-2.0 */

/* "follow": measures programs that somebody else starts, as a scheduler does. For the plugin in
 * client/slurm; people have run.
 *
 * Two descriptors connect it with its caller. When the GPUs are ours, the variables that make a
 * program part of the capture are written to --ready-fd, "NAME=value" each with its NUL, and it is
 * closed; closed without them, nothing will be measured, and stderr says why. The capture ends when
 * --until-fd is at its end, that is when all who hold its other side have ended. Signals that end
 * the programs reach us as well and are waited out: their end is ours. */

#include "client/cli/verb.h"

#include "client/cli/child.h"
#include "client/cli/run.h"
#include "client/cli/sinks.h"

static int exec_follow(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o;
	int status = EXIT_REFUSED;

	(void)verbs;
	switch (follow_options_parse(&o, argc, argv)) {
	case RUN_PARSED:
		status = sinks_check(&o) ? run_followed(&o) : EXIT_REFUSED;
		break;
	case RUN_HELP:
		verb_print_help(&verb_follow);
		status = 0;
		break;
	case RUN_WRONG:
		break;
	}
	run_options_deinit(&o);
	return status;
}

const struct verb verb_follow = {
	.name = "follow",
	.usage = "follow --ready-fd N --until-fd N [OPTION...] [PROGRAM [ARG...]]",
	.summary = "measure what a scheduler's plugin starts",
	.details = "For the plugin of Slurm; people want run, standby and capture.\n",
	.takes = "PROGRAM",
	.options = follow_option_defs,
	.exec = exec_follow,
};
