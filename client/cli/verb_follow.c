/* SPDX-License-Identifier: Apache-2.0 */

/* "follow": measures programs that a scheduler starts. For the plugin in client/slurm; users
 * have run. Two descriptors connect it with its caller. When the lease is granted, follow writes
 * the variables that make a program part of the capture to --ready-fd, each "NAME=value" with
 * its NUL, and closes it. When it closes it without them, nothing will be measured, and stderr
 * has the reason. The capture ends at the end of file of --until-fd, that is when all processes
 * that hold its other side have ended. follow ignores the signals that end the programs and ends
 * after them. */

#include "client/cli/verb.h"

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/sinks.h"

static int exec_follow(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o;
	int status = run_options_read(&o, &verb_follow, argc, argv, follow_options_check);

	if (status < 0) {
		status = sinks_check(&o) ? run_capture(&o, NULL) : EXIT_REFUSED;
	}
	run_options_deinit(&o);
	return status;
}

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
	.exec = exec_follow,
};
